"""efa.*: nodes with a healthy fabric, a faulty one, and one that nobody can see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from checks.exchange.authentication import Op
from checks.exchange.exchange import Responder, ask
from checks.explain.reading import OutputKind
from checks.model import Cause, Level, Observation
from checks.probes.efa import devices as sysfs
from checks.probes.efa import plugin as plugin_module
from checks.probes.efa.counters import counters
from checks.probes.efa.devices import devices
from checks.probes.efa.libfabric import PROVIDER
from checks.probes.efa.loopback import loopback
from checks.probes.efa.pingpong import pingpong
from checks.probes.efa.plugin import plugin
from checks.process.free_ports import free_port
from checks.roster import Member, Roster
from tests.corpus.case import Recording, Sort, cases_of, context, observed, recordings_of
from tests.exchanges import access
from tests.fakes.fabric import COUNTERS, endpoints, install_fabric, make_sysfs
from tests.fakes.tools import Reply, install, on_path

Observe = Callable[[Path], Sequence[Observation]]
HEALTHY, FAULTY, UNMEASURABLE = Sort
FOUR = "p4d.24xlarge"
recording = recordings_of("efa")
DEVICES4 = ("rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27")
QUICK = {"settle_s": 0.0, "each_s": 5.0, "wait_s": 3.0, "devices": 2.0}


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


_devices = cases_of("efa.devices", instance_type=FOUR)
CONFIG: dict[str, Cause] = {"cause": Cause.CONFIGURATION}
DEVICES = [
    _devices(HEALTHY, "one endpoint a device", info(FOUR, Reply(LEGACY))),
    _devices(HEALTHY, "two endpoints a device", info("p5en.48xlarge", Reply(P5EN)), instance_type="p5en.48xlarge"),
    _devices(HEALTHY, "three endpoints a device", info("p6-b200.48xlarge", Reply(B200)), instance_type="p6-b200.48xlarge"),
    _devices(FAULTY, "none, 1.x", info(FOUR, Reply(stderr=NONE_1, code=61)), names="fi_getinfo -61", **CONFIG),
    _devices(FAULTY, "none, 2.x", info(FOUR, Reply(stderr=NONE_2, code=61)), names="fi_getinfo -61", **CONFIG),
    _devices(FAULTY, "one of four is missing", info(FOUR, Reply(endpoints(DEVICES4[:3]))),
        names="rdm_domains number of EFA devices is 3, but the instance type has 4", **CONFIG),
    _devices(FAULTY, "as many endpoints as devices, for half of them", info("p5en.48xlarge", Reply(HALF)),
        instance_type="p5en.48xlarge", names="rdm_domains number of EFA devices is 8, but the instance type has 16", **CONFIG),
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


_plugin = cases_of("efa.plugin", instance_type=FOUR)
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

# ---------------------------------------------------------------- efa.loopback


def looped(
    modes: Mapping[str, str] | None = None,
    names: Sequence[str] = DEVICES4[:1],
    counted: Mapping[str, int] | None = None,
    missing: str = "",
    each_s: float = 5.0,
) -> Observe:
    """efa.loopback on a fake fabric; `missing` names a program that is not there."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        tree = make_sysfs(tmp_path / "sys", names, counters=counted)
        by_domain = {f"{name}-rdm": mode for name, mode in (modes or {}).items()}
        (tmp_path / "bin").mkdir()
        install_fabric(tmp_path / "bin", endpoints(names), by_domain, tree)
        if missing:
            (tmp_path / "bin" / missing).unlink()
        with pytest.MonkeyPatch.context() as patch, on_path(tmp_path / "bin", alone=True):
            patch.setattr(sysfs, "INFINIBAND", tree)
            patch.delenv(PROVIDER, raising=False)
            made = context(loopback, tmp_path, FOUR, options={"each_s": each_s})
            return observed(loopback, replace(made, timeout_s=20.0))

    return observe


_loop = cases_of("efa.loopback", instance_type=FOUR)
FIRST = DEVICES4[0]
LOOPBACK = [
    _loop(HEALTHY, "one device", looped()),
    _loop(HEALTHY, "four devices side by side", looped(names=DEVICES4)),
    _loop(FAULTY, "one device of two hangs", looped({FIRST: "hang"}, DEVICES4[:2], each_s=2.0),
        names=f"{FIRST}: fi_pingpong did not finish within"),
    _loop(FAULTY, "one device of two fails", looped({FIRST: "refuse"}, DEVICES4[:2]), names=f"{FIRST}: exit code 1"),
    _loop(FAULTY, "messages are lost", looped({FIRST: "acks"}), names=f"{FIRST} left 1 message unacknowledged"),
    _loop(FAULTY, "one device alone moves nothing", looped({FIRST: "rate 0.05"}), names=f"{FIRST} reaches 5e-05 GB/s"),
    _loop(FAULTY, "one device of four reaches a ninth", looped({FIRST: "rate 300"}, DEVICES4),
        names=f"{FIRST} reaches 0.3 GB/s in the ping-pong test, 11 % of the median of its node"),
    _loop(FAULTY, "one device of four reaches a third", looped({FIRST: "rate 900"}, DEVICES4), level=Level.WARN,
        names=f"{FIRST} reaches 0.9 GB/s"),
    _loop(FAULTY, "no device can be opened", looped({FIRST: "gone"}), names="fi_getinfo -61", **CONFIG),
    _loop(FAULTY, "every device hangs", looped({FIRST: "hang"}, each_s=1.5), names="security group", **CONFIG),
    _loop(FAULTY, "error 4126", looped({FIRST: "4126"}), names="4126", **CONFIG),
    _loop(UNMEASURABLE, "fi_info is not installed", looped(missing="fi_info")),
    _loop(UNMEASURABLE, "fi_pingpong is not installed", looped(missing="fi_pingpong")),
    _loop(UNMEASURABLE, "the table is cut", looped({FIRST: "cut"})),
    _loop(UNMEASURABLE, "the table of a datagram endpoint", looped({FIRST: "short"})),
    _loop(UNMEASURABLE, "the table is garbage", looped({FIRST: "garbage"})),
    _loop(UNMEASURABLE, "shared memory carried it", looped({FIRST: "shm"})),
    _loop(UNMEASURABLE, "the device does not count", looped(counted={})),
]  # fmt: skip

# ---------------------------------------------------------------- efa.pingpong


def ringed(
    modes: Mapping[str, str] | None = None,
    alone: bool = False,
    note: str = "",
    missing: str = "",
    each_s: float = 5.0,
    many: int = 1,
) -> Observe:
    """efa.pingpong on two nodes of a fake fabric; `alone`: node-1 does not take part, `note`: it only says this."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        by_domain = {f"{name}-rdm": mode for name, mode in (modes or {}).items()}
        (tmp_path / "bin").mkdir()
        install_fabric(tmp_path / "bin", endpoints(DEVICES4[:2]), by_domain)
        if missing:
            (tmp_path / "bin" / missing).unlink()
        responders = [Responder(access(f"node-{index}"), "") for index in range(2)]
        ports = [listen(responder) for responder in responders]
        members = tuple(Member(f"node-{index}", "127.0.0.1", port) for index, port in enumerate(ports))
        if note:
            ask(members[1], access("node-1"), Op.PUT, 2.0, key="efa.pingpong/ports/node-1", value=note)
        options = {**QUICK, "each_s": each_s, "wait_s": 1.0 if alone else 5.0, "devices": many}
        base = replace(context(pingpong, tmp_path, FOUR, 2, options=options), timeout_s=20.0)

        def run(index: int) -> Observation:
            roster, name = Roster(members, 1, "lo"), f"node-{index}"
            made = replace(base, node=name, node_rank=index, roster=roster, access=access(name))
            return observed(pingpong, made, name)[0]

        with pytest.MonkeyPatch.context() as patch, on_path(tmp_path / "bin", alone=True):
            patch.delenv(PROVIDER, raising=False)
            with ThreadPoolExecutor(2) as pool:
                found = tuple(pool.map(run, range(1 if alone else 2)))
        for responder in responders:
            responder.close()
        return found

    return observe


def listen(responder: Responder) -> int:
    """Have it listen on a free port of the loopback interface; the port."""
    port = free_port("127.0.0.1")
    responder.listen("127.0.0.1", port)
    return port


_ring = cases_of("efa.pingpong", instance_type=FOUR, nodes=2)
PINGPONG = [
    _ring(HEALTHY, "two nodes, two devices", ringed(many=2)),
    _ring(FAULTY, "a pair hangs", ringed({FIRST: "hang"}, each_s=1.5),
        names=f"node-0 -> node-1 ({FIRST}-rdm): fi_pingpong did not finish within", **CONFIG),
    _ring(FAULTY, "a pair moves nothing", ringed({FIRST: "rate 0.05"}), names=f"({FIRST}-rdm) reaches 5e-05 GB/s", **CONFIG),
    _ring(FAULTY, "messages are lost", ringed({FIRST: "acks"}), names="acks_missing", **CONFIG),
    _ring(FAULTY, "one device fails and another's table is cut", ringed({FIRST: "refuse", DEVICES4[1]: "cut"}, many=2),
        names="Cannot allocate memory", **CONFIG),
    _ring(UNMEASURABLE, "the neighbour offers no server", ringed(alone=True)),
    _ring(UNMEASURABLE, "the neighbour cannot serve", ringed(alone=True, note='{"error": "fi_getinfo -61"}')),
    _ring(UNMEASURABLE, "the neighbour says nonsense", ringed(alone=True, note='{"a": "b"}')),
    _ring(UNMEASURABLE, "fi_pingpong is not installed", ringed(missing="fi_pingpong")),
    _ring(UNMEASURABLE, "the table is cut", ringed({FIRST: "cut"})),
]  # fmt: skip

# ---------------------------------------------------------------- efa.counters


def counted(
    grown: Mapping[str, int],
    lost: Sequence[str] = (),
    late: Sequence[str] = (),
    looked: bool = True,
    start: Mapping[str, int] = COUNTERS,
    end: Mapping[str, int] | None = None,
) -> Observe:
    """efa.counters over a tree whose counters grow meanwhile; `lost` and `late` devices are there once only."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        names = [name for name in DEVICES4 if name not in late]
        after = [name for name in DEVICES4 if name not in lost]
        make_sysfs(tmp_path / "before", names, counters=start)
        last = {key: value + grown.get(key, 0) for key, value in start.items()} if end is None else end
        make_sysfs(tmp_path / "after", after, counters=last)
        made = context(counters, tmp_path, FOUR)
        with pytest.MonkeyPatch.context() as patch:
            before: dict[str, object] | None = None
            if looked and counters.before is not None:
                patch.setattr(sysfs, "INFINIBAND", tmp_path / "before")
                before = dict(counters.before(made))
            patch.setattr(sysfs, "INFINIBAND", tmp_path / "after")
            return observed(counters, replace(made, before=before))

    return observe


_count = cases_of("efa.counters", instance_type=FOUR)
SENT = {"tx_bytes": 22_000_000, "rx_bytes": 22_000_000}
OLD = {key: value for key, value in COUNTERS.items() if "retrans" not in key}
COUNTED = [
    _count(HEALTHY, "traffic alone", counted(SENT)),
    _count(HEALTHY, "a few retransmissions", counted({**SENT, "retrans_pkts": 40})),
    _count(FAULTY, "drops", counted({**SENT, "rx_drops": 500}), names="rx_drops rdmap144s27 dropped 500 received packets"),
    _count(FAULTY, "a few drops", counted({**SENT, "rx_drops": 1}), level=Level.WARN,
        names="rx_drops rdmap144s27 dropped 1 received packet"),
    _count(FAULTY, "failed requests", counted({**SENT, "rdma_write_wr_err": 101}),
        names="error_events rdmap144s27 reported 101 errors while the checks ran"),
    _count(FAULTY, "a peer that does not answer", counted({**SENT, "unresponsive_remote_events": 150})),
    _count(FAULTY, "retransmissions", counted({**SENT, "retrans_pkts": 5000}), level=Level.WARN, **CONFIG),
    _count(FAULTY, "a device was lost", counted(SENT, lost=("rdmap32s27",)), names="rdmap32s27: gone"),
    _count(UNMEASURABLE, "no first look", counted(SENT, looked=False)),
    _count(UNMEASURABLE, "a counter went backwards", counted({**SENT, "rx_drops": -2})),
    _count(UNMEASURABLE, "no device at the end", counted(SENT, lost=DEVICES4)),
    _count(UNMEASURABLE, "a device came late", counted(SENT, late=("rdmap32s27",))),
    _count(UNMEASURABLE, "nothing was sent", counted({})),
    _count(UNMEASURABLE, "no counters at all", counted({}, start={})),
    _count(UNMEASURABLE, "the counters vanished", counted({}, end={})),
    _count(UNMEASURABLE, "a driver that does not count it all", counted(SENT, start=OLD)),
]  # fmt: skip

CASES = [*DEVICES, *PLUGIN, *LOOPBACK, *PINGPONG, *COUNTED]

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
