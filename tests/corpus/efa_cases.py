"""efa.*: nodes with a healthy fabric, a faulty one, and one that nobody can see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from checks.explain.reading import OutputKind
from checks.model import Cause, Level, Observation
from checks.probes.efa import devices as sysfs
from checks.probes.efa import plugin as plugin_module
from checks.probes.efa.devices import devices
from checks.probes.efa.libfabric import PROVIDER
from checks.probes.efa.plugin import plugin
from tests.corpus.case import RECORDINGS_FOLDER, Case, Recording, Sort, context, observed
from tests.fakes.fabric import endpoints, make_sysfs
from tests.fakes.tools import Reply, install, on_path

Observe = Callable[[Path], Sequence[Observation]]
ONE, FOUR = "p5.4xlarge", "p4d.24xlarge"
DEVICES4 = ("rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27")
ALONE = DEVICES4[:1]
QUICK = {"settle_s": 0.0, "each_s": 5.0, "wait_s": 3.0, "devices": 2.0}
HEALTHY, FAULTY, UNMEASURABLE = Sort.HEALTHY, Sort.FAULTY, Sort.UNMEASURABLE


def recording(name: str) -> str:
    return (RECORDINGS_FOLDER / "efa" / name).read_text(encoding="utf-8")


def names_in(text: str) -> list[str]:
    """The devices of a recording."""
    lines = [line.split()[1] for line in text.splitlines() if line.strip().startswith("domain:")]
    return list(dict.fromkeys(name.rpartition("-")[0] for name in lines))


# ---------------------------------------------------------------- efa.devices


def info(
    kind: str,
    reply: Reply | None,
    tree: Sequence[str] | None = None,
    states: Mapping[str, str] | None = None,
    timeout_s: float = 20.0,
    provider: str = "",
) -> Observe:
    """efa.devices where fi_info gives this reply (None: it is not installed) and the kernel shows these devices."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        seen = names_in(reply.stdout) if tree is None and reply else list(tree or ())
        make_sysfs(tmp_path / "sys", seen, states)
        if reply is not None:
            install(tmp_path / "bin", "fi_info", [reply])
        with pytest.MonkeyPatch.context() as patch, on_path(tmp_path / "bin", alone=True):
            patch.setattr(sysfs, "INFINIBAND", tmp_path / "sys")
            patch.setenv(PROVIDER, provider)
            made = replace(context(devices, tmp_path, kind, options=QUICK), timeout_s=timeout_s)
            return observed(devices, made)

    return observe


LEGACY, P5EN, B200 = (recording(f"fi_info_{name}.txt") for name in ("legacy_p4d", "1_22_p5en", "2_1_b200"))
NONE_1, NONE_2 = recording("fi_info_none_1_x.txt"), recording("fi_info_none_2_x.txt")
HALF = endpoints(names_in(P5EN)[:8])  # as many endpoints as the type has devices


def _devices(sort: Sort, name: str, observe: Observe, kind: str = FOUR, **more: object) -> Case:
    return Case("efa.devices", sort, name, observe, kind, **more)  # type: ignore[arg-type]


CONFIG = {"cause": Cause.CONFIGURATION}
DEVICES = [
    _devices(HEALTHY, "one endpoint a device", info(FOUR, Reply(LEGACY))),
    _devices(HEALTHY, "two endpoints a device", info("p5en.48xlarge", Reply(P5EN)), "p5en.48xlarge"),
    _devices(HEALTHY, "three endpoints a device", info("p6-b200.48xlarge", Reply(B200)), "p6-b200.48xlarge"),
    _devices(FAULTY, "none, 1.x", info(FOUR, Reply(stderr=NONE_1, code=61)), names="No data available", **CONFIG),
    _devices(FAULTY, "none, 2.x", info(FOUR, Reply(stderr=NONE_2, code=61)), names="No data available", **CONFIG),
    _devices(FAULTY, "one of four is missing", info(FOUR, Reply(endpoints(DEVICES4[:3]))),
        names="rdm_domains number of EFA devices is 3, but the instance type has 4", **CONFIG),
    _devices(FAULTY, "as many endpoints as devices, for half of them", info("p5en.48xlarge", Reply(HALF)), "p5en.48xlarge",
        names="rdm_domains number of EFA devices is 8, but the instance type has 16", **CONFIG),
    _devices(FAULTY, "a port is down", info(FOUR, Reply(LEGACY), states={"rdmap32s27": "1: DOWN"}),
        names="port_states rdmap32s27 has a port that is not active (state 1)"),
    _devices(FAULTY, "one device is not in the container", info(FOUR, Reply(endpoints(DEVICES4[:3])), tree=DEVICES4),
        names="unoffered", **CONFIG),
    _devices(FAULTY, "tcp was looked at", info(FOUR, Reply(recording("fi_info_tcp.txt")), tree=(), provider="tcp"),
        names="provider provider of libfabric is tcp, it must be efa", **CONFIG),
    _devices(UNMEASURABLE, "not installed", info(FOUR, None)),
    _devices(UNMEASURABLE, "hangs", info(FOUR, Reply(LEGACY, seconds=3600), timeout_s=2.0)),
    _devices(UNMEASURABLE, "cut", info(FOUR, Reply(LEGACY, part=0.7))),
    _devices(UNMEASURABLE, "garbage", info(FOUR, Reply(LEGACY.replace("domain:", "dom")))),
    _devices(UNMEASURABLE, "nothing printed", info(FOUR, Reply(""))),
    _devices(UNMEASURABLE, "died", info(FOUR, Reply(LEGACY, signal=11))),
    _devices(UNMEASURABLE, "exit code 1", info(FOUR, Reply(LEGACY, code=1))),
    _devices(UNMEASURABLE, "the kernel's side cannot be seen", info(FOUR, Reply(LEGACY), tree=())),
    _devices(UNMEASURABLE, "a port's state is garbage", info(FOUR, Reply(LEGACY), states={"rdmap16s27": "?"})),
    _devices(UNMEASURABLE, "one device printed in part",
        info(FOUR, Reply(endpoints(DEVICES4[:3]) + endpoints(DEVICES4[3:], blocks=1)))),
]  # fmt: skip

# ---------------------------------------------------------------- efa.plugin

INSTALLER = "# EFA installer version: 1.38.0\n# Debug packages installed: no\nefa-config_1.17_all\n"


def installed(
    version: str | None = "1.13.2",
    installer: str | None = INSTALLER,
    reply: Reply | None = None,
    second: str = "",
    missing: bool = False,
    file: str = "libnccl-net-ofi.so",
    timeout_s: float = 20.0,
) -> Observe:
    """efa.plugin where the plugin's file holds this version (None: no file); `second`: node-1's libfabric."""
    said = reply or Reply("fi_info: 1.22.0\nlibfabric: 1.22.0amzn1.0\nlibfabric api: 1.22\n")

    def one(tmp_path: Path, answer: Reply, node: str) -> Sequence[Observation]:
        library = tmp_path / "lib"
        library.mkdir(exist_ok=True)
        if version is not None:
            (library / file).write_bytes(b"\x7fELF\0" + f"NET/OFI Initializing {version}\0".encode())
        if installer is not None:
            (tmp_path / "installed").write_text(installer)
        if not missing:
            install(tmp_path / "bin", "fi_info", [answer])
        with pytest.MonkeyPatch.context() as patch, on_path(tmp_path / "bin", alone=True):
            patch.setattr(plugin_module, "INSTALLED", tmp_path / "installed")
            patch.setattr(plugin_module, "FOLDERS", ())
            patch.setenv("LD_LIBRARY_PATH", str(library))
            return observed(plugin, replace(context(plugin, tmp_path, FOUR), timeout_s=timeout_s), node)

    def observe(tmp_path: Path) -> Sequence[Observation]:
        if not second:
            return one(tmp_path, said, "node-0")
        other = Reply(said.stdout.replace("1.22.0amzn1.0", second))
        return (*one(tmp_path, said, "node-0"), *one(tmp_path, other, "node-1"))

    return observe


def _plugin(sort: Sort, name: str, observe: Observe, **more: object) -> Case:
    return Case("efa.plugin", sort, name, observe, FOUR, **more)  # type: ignore[arg-type]


PLUGIN = [
    _plugin(HEALTHY, "the file of 1.14 and later", installed("aws-ofi-nccl 1.16.2-aws")),
    _plugin(HEALTHY, "the file's old name", installed("aws-ofi-nccl 1.13.2", file="libnccl-net.so")),
    _plugin(FAULTY, "absent", installed(None), names="plugin_numbers has version 0.0.0 of the NCCL plugin (absent)", **CONFIG),
    _plugin(FAULTY, "stale", installed("aws-ofi-nccl 1.4.0"), level=Level.WARN, names="has version 1.4.0 of the NCCL plugin",
        **CONFIG),
    _plugin(FAULTY, "no installer", installed("aws-ofi-nccl 1.16.2", None), level=Level.WARN, names="installer_number", **CONFIG),
    _plugin(FAULTY, "two versions of libfabric", installed("aws-ofi-nccl 1.16.2", second="1.18.1"), nodes=2,
        names="libfabric differs", **CONFIG),
    _plugin(UNMEASURABLE, "fi_info is not installed", installed("aws-ofi-nccl 1.16.2", missing=True)),
    _plugin(UNMEASURABLE, "a file without a version", installed("something else")),
    _plugin(UNMEASURABLE, "an installer that names none", installed("aws-ofi-nccl 1.16.2", "garbage")),
    _plugin(UNMEASURABLE, "no version printed", installed("aws-ofi-nccl 1.16.2", reply=Reply("libfab"))),
    _plugin(UNMEASURABLE, "hangs",
        installed("aws-ofi-nccl 1.16.2", reply=Reply("libfabric: 1.22.0\n", seconds=3600), timeout_s=1.0)),
    _plugin(UNMEASURABLE, "exit code 1", installed("aws-ofi-nccl 1.16.2", reply=Reply("libfabric: 1.22.0\n", code=1))),
]  # fmt: skip

CASES = [*DEVICES, *PLUGIN]

NOTE = {r"^#": "a comment of the recording"}
RECORDINGS = [
    Recording("efa/fi_info_legacy_p4d.txt", OutputKind.FI_INFO, Level.PASS, "p4d.24xlarge", irrelevant=NOTE),
    Recording("efa/fi_info_1_22_p5en.txt", OutputKind.FI_INFO, Level.PASS, "p5en.48xlarge", irrelevant=NOTE),
    Recording(
        "efa/fi_info_2_1_b200.txt", OutputKind.FI_INFO, Level.PASS, "p6-b200.48xlarge", irrelevant=NOTE
    ),
    Recording("efa/fi_info_none_1_x.txt", OutputKind.FI_INFO, Level.FAIL, "p5.48xlarge"),
    Recording("efa/fi_info_none_2_x.txt", OutputKind.FI_INFO, Level.FAIL),
    Recording("efa/fi_info_tcp.txt", OutputKind.FI_INFO, Level.FAIL, "p5.48xlarge"),
    Recording("efa/fi_pingpong_efa_rdm.txt", OutputKind.FI_PINGPONG, Level.PASS, "p4d.24xlarge", 2, NOTE),
    Recording("efa/fi_pingpong_acks_missing.txt", OutputKind.FI_PINGPONG, Level.FAIL, "p4d.24xlarge", 2),
    Recording("efa/fi_pingpong_localhost.txt", OutputKind.FI_PINGPONG, Level.FAIL),
    Recording("efa/fi_pingpong_datagram.txt", OutputKind.FI_PINGPONG, Level.FAIL),
    Recording("efa/fi_pingpong_tcp.txt", OutputKind.FI_PINGPONG, Level.FAIL),
]
