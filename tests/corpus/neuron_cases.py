"""neuron.*: a tree of /dev and /sys, a kernel's log, and fakes of neuron-ls and nccom-test."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from checks.check import Check
from checks.explain.reading import OutputKind
from checks.model import Cause, Level, Observation
from checks.probes.kernel import log_source
from checks.probes.neuron import collectives, devices, ecc
from tests.corpus.case import Observe, Recording, Sort, cases_of, context, observed, recordings_of
from tests.fakes.tools import Reply, install, on_path

HEALTHY, FAULTY, UNMEASURABLE = Sort
text_of = recordings_of("neuron")
TRN1, SMALL, TRN2 = "trn1.32xlarge", "trn1.2xlarge", "trn2.48xlarge"
HW_ERR = (
    "NEURON_HW_ERR={kind} instance-id=i-0f00dfeed00000001 hostname=ip-10-9-8-7 nd-id={device} nc-id=1 "
    "serial-num=5eed5eed5eed action=TERMINATE_INSTANCE"
)


def tree(
    root: Path,
    count: int = 16,
    counts: Mapping[tuple[int, str], str] | None = None,
    folder: str = "stats/hardware",
    without: Sequence[int] = (),
) -> None:
    """/dev and /sys of a node with so many devices; `counts` are those of its counters that are not 0."""
    (root / "dev").mkdir(parents=True, exist_ok=True)
    (root / devices.SYSFS).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (root / "dev" / f"neuron{number}").touch()
        place = root / devices.SYSFS / f"neuron{number}" / folder
        place.mkdir(parents=True, exist_ok=True)
        for name in () if number in without else (*ecc.COUNTERS, ecc.REPAIRABLE):
            (place / name).write_text(f"{(counts or {}).get((number, name), '0')}\n")


def node(
    check: Check,
    tools: Mapping[str, Sequence[Reply]],
    *,
    make: Callable[[Path], object] = tree,
    instance_type: str = TRN1,
    said: Sequence[str] = ("neuron: module loaded",),
    log: bool = True,
    options: dict[str, float] | None = None,
) -> Observe:
    """The check's own body on a node made of this tree, these tools and this kernel's log."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        root, folder, path = tmp_path / "root", tmp_path / "tools", tmp_path / "kern.log"
        make(root)
        folder.mkdir(exist_ok=True)
        for name, replies in tools.items():
            install(folder, name, replies)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        path.write_text("".join(f"{stamp} ip-10-9-8-7 kernel: {line}\n" for line in said))
        with ExitStack() as stack:
            for module in (devices, ecc):
                stack.enter_context(mock.patch.object(module, "ROOT", root))
            stack.enter_context(mock.patch.object(log_source, "KMSG", str(tmp_path / "none")))
            stack.enter_context(mock.patch.object(log_source, "FILES", (str(path),) if log else ()))
            stack.enter_context(mock.patch.object(log_source, "JOURNAL", "no-such-journalctl"))
            stack.enter_context(on_path(folder, alone=not tools or not log))
            return observed(check, context(check, tmp_path, instance_type, options=options))

    return observe


def listed(
    name: str, count: int = 16, instance_type: str = TRN1, code: int = 0, part: float = 1.0
) -> Observe:
    reply = Reply(text_of(name), "-j", code=code, part=part)
    return node(
        devices.devices, {"neuron-ls": [reply]}, make=lambda r: tree(r, count), instance_type=instance_type
    )


def counted(
    make: Callable[[Path], object] = tree, said: Sequence[str] = ("neuron: module loaded",), log: bool = True
) -> Observe:
    return node(ecc.ecc, {}, make=make, said=said, log=log)


def ran(
    *replies: Reply,
    ls: str = "ls_trn1.json",
    instance_type: str = TRN1,
    operations: float = 1,
    deadline_s: float = 5.0,
    missing: bool = False,
) -> Observe:
    tools: dict[str, Sequence[Reply]] = {"neuron-ls": [Reply(text_of(ls), "-j")]}
    if not missing:
        tools["nccom-test"] = replies
    options = {"operations": operations, "deadline_s": deadline_s}
    return node(collectives.collectives, tools, instance_type=instance_type, options=options)


_devices, _ecc, _collectives = (
    cases_of(f"neuron.{name}", instance_type=TRN1) for name in ("devices", "ecc", "collectives")
)
CONFIGURATION: dict[str, Cause] = {"cause": Cause.CONFIGURATION}
CASES = [
    _devices(HEALTHY, "trn1.32xlarge", listed("ls_trn1.json")),
    _devices(HEALTHY, "trn1.2xlarge", listed("ls_trn1_2xlarge.json", 1, SMALL), instance_type=SMALL),
    _devices(HEALTHY, "trn2.48xlarge", listed("ls_trn2.json", 16, TRN2), instance_type=TRN2),
    _devices(FAULTY, "a device is gone", listed("ls_trn1_fifteen.json", 15),
        "devices_found number of devices is 15, but the instance type has 16"),
    _devices(FAULTY, "gone for neuron-ls alone", listed("ls_trn1_last_gone.json", 16),
        "devices_found number of devices is 15, but the instance type has 16"),
    _devices(FAULTY, "gone in /dev alone", listed("ls_trn1.json", 15),
        "devices_found number of devices is 15, but the instance type has 16"),
    _devices(FAULTY, "none at all, and neuron-ls fails", listed("nccom_no_driver.txt", 0, code=1),
        "devices_found number of devices is 0, but the instance type has 16"),
    _devices(FAULTY, "a core is gone", listed("ls_trn1_one_core.json"), "device 9 (0000:19:1c.0) is 1; the other 15 are 2"),
    _devices(FAULTY, "a link is down", listed("ls_trn1_link_down.json"),
        "links_missing device 2 (0000:12:1c.0) and device 3 (0000:13:1c.0) lack 1 link"),
    _devices(FAULTY, "half a link", listed("ls_trn1_half_link.json"),
        "links_one_way device 6 (0000:16:1c.0) has 1 link in one direction only"),
    _devices(FAULTY, "other processes", listed("ls_trn1_busy.json"), "device 4", cause=Cause.APPLICATION),
    _devices(FAULTY, "trn1 where trn2 is declared", listed("ls_trn1.json", 16, TRN2), "cores is 2, but the instance type has 8",
        **CONFIGURATION, instance_type=TRN2),
    _devices(UNMEASURABLE, "neuron-ls is not installed", node(devices.devices, {})),
    _devices(UNMEASURABLE, "neuron-ls fails", listed("nccom_no_driver.txt", code=1)),
    _devices(UNMEASURABLE, "neuron-ls fails after its output", listed("ls_trn1.json", code=1)),
    _devices(UNMEASURABLE, "cut output", listed("ls_trn1.json", part=0.7)),
    _devices(UNMEASURABLE, "an empty list", node(devices.devices, {"neuron-ls": [Reply("[]\n")]})),
    _devices(UNMEASURABLE, "it prints nothing and ends well", node(devices.devices, {"neuron-ls": [Reply("")]})),
    _devices(UNMEASURABLE, "killed", node(devices.devices, {"neuron-ls": [Reply(signal=9)]})),
    _ecc(HEALTHY, "no error", counted()),
    _ecc(HEALTHY, "counters elsewhere", counted(lambda r: tree(r, folder="hardware/ecc"))),
    _ecc(FAULTY, "memory", counted(lambda r: tree(r, counts={(11, "mem_ecc_uncorrected"): "2"})),
        "mem_ecc_uncorrected device 11 has 2 uncorrected errors in its memory"),
    _ecc(FAULTY, "sram", counted(lambda r: tree(r, counts={(0, "sram_ecc_uncorrected"): "1"})),
        "sram_ecc_uncorrected device 0 has 1 uncorrected error in its SRAM"),
    _ecc(FAULTY, "repairable", counted(lambda r: tree(r, counts={(3, "mem_ecc_repairable_uncorrected"): "1"})),
        "device 3: 1 repairable", level=Level.WARN),
    *(
        _ecc(FAULTY, f"kernel: {kind}", counted(said=[HW_ERR.format(kind=kind, device=6)]), f"device 6: {kind}")
        for kind in ("SRAM_UNCORRECTABLE_ERROR", "NC_UNCORRECTABLE_ERROR", "HBM_UNCORRECTABLE_ERROR", "DMA_ERROR")
    ),
    _ecc(UNMEASURABLE, "no driver", counted(lambda r: None)),
    _ecc(UNMEASURABLE, "a device without counters", counted(lambda r: tree(r, without=(5,)))),
    _ecc(UNMEASURABLE, "a device is not there", counted(lambda r: tree(r, 15))),
    _ecc(UNMEASURABLE, "garbage", counted(lambda r: tree(r, counts={(1, "mem_ecc_uncorrected"): "-1"}))),
    _ecc(HEALTHY, "no kernel log, of which kernel.* speak", counted(log=False)),
    _collectives(HEALTHY, "all-reduce", ran(Reply(text_of("nccom_allr.txt")))),
    _collectives(HEALTHY, "on logical cores", ran(Reply(text_of("nccom_allr.txt"), "-r 64"), ls="ls_trn2.json", instance_type=TRN2),
        instance_type=TRN2),
    _collectives(FAULTY, "wrong results", ran(Reply(text_of("nccom_allr_wrong.txt"), code=1)), "Data mismatch at rank 5"),
    _collectives(FAULTY, "sizes failed", ran(Reply(text_of("nccom_allr_failure.txt"), code=1)), "neuron-bench", **CONFIGURATION),
    _collectives(FAULTY, "exit code 0 all the same", ran(Reply(text_of("nccom_allr_failure.txt"))), "neuron-bench", **CONFIGURATION),
    _collectives(FAULTY, "slow", ran(Reply(text_of("nccom_allr_slow.txt"))), "busbw_gbps reaches 1.031 GB/s in allr", **CONFIGURATION),
    _collectives(FAULTY, "the second operation",
        ran(Reply(text_of("nccom_allr.txt"), "allr"), Reply(text_of("nccom_allr_slow.txt")), operations=2),
        "busbw_gbps reaches 1.031 GB/s in allg", **CONFIGURATION),
    _collectives(UNMEASURABLE, "no driver", ran(Reply(text_of("nccom_no_driver.txt"), code=1))),
    _collectives(UNMEASURABLE, "cut", ran(Reply(text_of("nccom_allr.txt"), part=0.6))),
    _collectives(UNMEASURABLE, "figures that contradict each other",
        ran(Reply(text_of("nccom_allr.txt").replace("4194304", "1048576", 1)))),
    _collectives(UNMEASURABLE, "a size is missing",
        ran(Reply("".join(line for line in text_of("nccom_allr.txt").splitlines(True) if "4194304 " not in line)))),
    _collectives(UNMEASURABLE, "nan", ran(Reply(text_of("nccom_allr.txt").replace("2105", " nan")))),
    _collectives(UNMEASURABLE, "exit code without a failure", ran(Reply(text_of("nccom_allr.txt"), code=1))),
    _collectives(UNMEASURABLE, "hangs", ran(Reply(seconds=3600), deadline_s=0.5)),
    _collectives(UNMEASURABLE, "nccom-test is not installed", ran(missing=True)),
    _collectives(UNMEASURABLE, "neuron-ls is not installed", node(collectives.collectives, {})),
]  # fmt: skip
SAYS_NOTHING = {
    r'^"cpu_affinity"': "where the device hangs; no rule looks at it",
    r'^"numa_node"': "where the device hangs; no rule looks at it",
}
LISTED = {
    **SAYS_NOTHING,
    r'^"instance_(type|id)"': "what is declared is what counts; the machine is known by its own identity",
}


def _recorded(path: str, level: Level, instance_type: str = TRN1, **of: Any) -> Recording:
    return Recording(f"neuron/{path}", OutputKind.NEURON_LS, level, instance_type, **of)


RECORDINGS: list[Recording] = [
    _recorded("ls_trn1.json", Level.PASS, TRN1, irrelevant=SAYS_NOTHING),
    _recorded("ls_trn1_2xlarge.json", Level.PASS, SMALL, irrelevant=SAYS_NOTHING),
    _recorded("ls_trn1_link_down.json", Level.FAIL),
    _recorded("ls_trn1_busy.json", Level.FAIL, ""),
    *(
        _recorded(f"ls_trn1_{name}.json", Level.FAIL)
        for name in ("fifteen", "half_link", "last_gone", "one_core")
    ),
    _recorded("ls_trn2.json", Level.PASS, TRN2, irrelevant=LISTED),
]
