"""What stands in for the kernel's log: fakes of NVML and dcgmi that are watched, and trees of /sys, compared over a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from checks.check import Check, CheckError, Context
from checks.model import Cause, Level, Observation
from checks.probes.dcgm import xid_events as dcgm_xids
from checks.probes.gpu import start_and_end, xid_events
from checks.probes.host import error_counters
from checks.probes.neuron import devices, runtime
from tests.corpus.case import RECORDINGS_FOLDER, Case, Observe, Sort, cases_of, context, observed
from tests.corpus.gpu_machines import DENIED, LOST, MISSING, NOTHING, NvmlAnswers, error, settings
from tests.fakes import gpu_node
from tests.fakes.tools import Reply, install, on_path

HEALTHY, FAULTY, BLIND = Sort
WARN, APPLICATION = Level.WARN, Cause.APPLICATION
XIDS, ENDS, DCGM = xid_events.xid_events, start_and_end.start_and_end, dcgm_xids.xid_events
COUNTERS, RUNTIME = error_counters.error_counters, runtime.runtime


def recorded(check: Check, made: Context, looks: int) -> Sequence[Mapping[str, object]] | None:
    """What the check's own watch records within so many looks; None where it fails, as its process would."""
    assert check.watch is not None
    kept, watching = [], check.watch(made)
    try:
        for _, record in zip(range(looks), watching, strict=False):
            kept += [record] if record is not None else []
    except CheckError:
        return None
    finally:
        watching.close()  # type: ignore[attr-defined]
    return kept


def nvml(
    *xids: tuple[int, int], told: NvmlAnswers = NOTHING, gpus: int | None = None, dies: bool = False
) -> Observe:
    """gpu.xid_events on a node where NVML reports these Xids (GPU, code) once it is asked to."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        made = context(XIDS, tmp_path)
        module = gpu_node.module(**settings("H100", told, gpus), events=[list(xid) for xid in xids])
        with gpu_node.nvml(module):
            watched = None if dies else recorded(XIDS, made, len(xids) + 3)
        return observed(XIDS, replace(made, watched=watched))

    return observe


def ends(first: NvmlAnswers | None, second: NvmlAnswers = NOTHING, gpus: tuple[int, int] = (8, 8)) -> Observe:
    """gpu.start_and_end on a node that answers otherwise at the end; None: its first look failed."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        made, before = context(ENDS, tmp_path), None
        assert ENDS.before is not None
        if first is not None:
            with gpu_node.nvml(gpu_node.module(**settings("H100", first, gpus[0]))):
                before = dict(ENDS.before(made))
        with gpu_node.nvml(gpu_node.module(**settings("H100", second, gpus[1]))):
            return observed(ENDS, replace(made, before=before))

    return observe


def first(count: int, lines: Iterator[str]) -> Iterator[str]:
    """So many lines that are not empty, however long it took to print them: a tool that is silent for a while gives empty ones."""
    for line in lines:
        yield line
        count -= bool(line)
        if not count:
            return


def dmon(name: str, *, missing: bool = False, silent_s: float = 20.0, **how: Any) -> Observe:
    """dcgm.xid_events with a dcgmi that prints this recording of dmon, and goes on without a word."""
    changes = dcgm_xids.changes

    def observe(tmp_path: Path) -> Sequence[Observation]:
        tools, made = tmp_path / "tools", context(DCGM, tmp_path)
        tools.mkdir(exist_ok=True)
        text = (RECORDINGS_FOLDER / "dcgm" / name).read_text()
        if not missing:
            install(tools, "dcgmi", [Reply(text, "dmon -e 230", **{"seconds": 60.0, **how})])
        count = sum(map(bool, text.splitlines()))
        with (
            on_path(tools, alone=missing),
            patch.object(dcgm_xids, "SILENT_S", silent_s),
            patch.object(dcgm_xids, "changes", lambda lines, gpus: changes(first(count, lines), gpus)),
        ):
            watched = recorded(DCGM, made, 10_000)
            return observed(DCGM, replace(made, watched=watched))

    return observe


Files = Mapping[str, str]
AER = "0000:10:1c.0/aer_dev_"


def machine(root: Path, files: Files) -> None:
    """/sys of a machine with one AER-capable device, its root port, and one memory controller."""
    text = (RECORDINGS_FOLDER / "system" / "aer_dev_correctable.txt").read_text()
    usual = {
        f"{error_counters.PCI}/{AER}correctable": text,
        f"{error_counters.PCI}/{AER}nonfatal": "Poisoned TLP 0\nTOTAL_ERR_NONFATAL 0\n",
        f"{error_counters.PCI}/{AER}fatal": "Surprise Down Error 0\nTOTAL_ERR_FATAL 0\n",
        f"{error_counters.PCI}/0000:10:00.0/aer_rootport_total_err_fatal": "0\n",
        f"{error_counters.EDAC}/mc0/ce_count": "3\n",
        f"{error_counters.EDAC}/mc0/ue_count": "0\n",
    }
    for name, said in {**usual, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if said:
            path.write_text(said)
        else:
            path.unlink(missing_ok=True)


def bare(root: Path, files: Files) -> None:
    """/sys of a virtual machine: devices without AER, and no memory controller."""
    (root / error_counters.PCI / "0000:00:05.0").mkdir(parents=True, exist_ok=True)


def counted(second: Files = {}, first: Files = {}, make: Callable[[Path, Files], None] = machine) -> Observe:  # noqa: B006
    """system.error_counters over a run at whose start and end these files differ from those of a healthy machine."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        made = context(COUNTERS, tmp_path, "cpu")
        with patch.object(error_counters, "ROOT", tmp_path):
            make(tmp_path, first)
            before = dict(error_counters.first_look(made))
            make(tmp_path, second)
            return observed(COUNTERS, replace(made, before=before))

    return observe


def cores(
    root: Path, counts: Mapping[tuple[int, str], str], folder: str = "stats/status", of: int = 16
) -> None:
    """The runtime's counters of so many devices with two cores each."""
    for number in range(of):
        for core in range(2):
            for name in ("hw_error", "timeout"):
                place = root / devices.SYSFS / f"neuron{number}" / f"neuron_core{core}" / folder / name
                place.mkdir(parents=True, exist_ok=True)
                text = counts.get((number, name), "7") if core else "0"
                (place / "total").write_text(f"{text}\n")


def ran(
    counts: Mapping[tuple[int, str], str], folder: str = "stats/status", first: int | None = 16
) -> Observe:
    """neuron.runtime over a run at whose end these counters differ from 7."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        made, before = context(RUNTIME, tmp_path, "trn1.32xlarge"), None
        with ExitStack() as stack:
            stack.enter_context(patch.object(runtime, "ROOT", tmp_path))
            if first is not None:
                cores(tmp_path, {}, folder, first)
                before = dict(runtime.first_look(made))
                cores(tmp_path, counts, folder)
            return observed(RUNTIME, replace(made, before=before))

    return observe


def _of_nvml() -> Iterator[Case]:
    case = cases_of(XIDS.name)
    yield case(HEALTHY, "no Xid", nvml())
    yield case(HEALTHY, "an Xid that is routine", nvml((2, 63)))
    yield case(FAULTY, "Xid 79", nvml((5, 79)), "GPU 5")
    yield case(FAULTY, "Xid 48 after others", nvml((0, 13), (3, 48)), "GPU 3")
    yield case(FAULTY, "Xid 13 of a program", nvml((1, 13)), "GPU 1", level=WARN, cause=APPLICATION)
    yield case(FAULTY, "a code of no table", nvml((4, 999)), "Xid 999", level=WARN)
    yield case(FAULTY, "a GPU that is lost", nvml(told={"node/nvmlEventSetWait_v2": error(LOST)}), "GPU is lost")  # fmt: skip
    yield case(BLIND, "an Xid whose line is withheld", nvml((6, 154)))
    yield case(BLIND, "a GPU that is not registered", nvml(told={"7/nvmlDeviceRegisterEvents": error(DENIED)}))  # fmt: skip
    yield case(BLIND, "seven of eight GPUs", nvml(gpus=7))
    yield case(BLIND, "no event set", nvml(told={"node/nvmlEventSetCreate": error(DENIED)}))
    yield case(BLIND, "no NVML", nvml(told={"node/nvmlInit": error(MISSING)}))
    yield case(BLIND, "a watch that died", nvml(dies=True))
    case, action = cases_of(ENDS.name), "field:230"
    yield case(HEALTHY, "eight at both ends", ends({}))
    yield case(BLIND, "a driver that offers no action", ends({f"*/{action}": error(3)}, {f"*/{action}": error(3)}))  # fmt: skip
    yield case(FAULTY, "one is gone at the end", ends({}, {}, (8, 7)), "lacks 1 GPU at the end of the checks")
    yield case(FAULTY, "one is lost at the end", ends({}, {"5/*": error(LOST)}), "lacks 1 GPU at the end of the checks")  # fmt: skip
    yield case(FAULTY, "one was missing at the start", ends({}, {}, (7, 8)), "lacks 1 GPU at the start of the checks")  # fmt: skip
    yield case(FAULTY, "the driver asks for a reset at the end", ends({}, {f"2/{action}": 1}), "GPU 2")
    yield case(FAULTY, "the driver asked for a restart at the start", ends({f"4/{action}": 2}), "GPU 4")
    yield case(FAULTY, "another GPU in its place", ends({}, {"3/nvmlDeviceGetUUID": "GPU-other"}),
        "exchanged has 2 UUIDs in only one of two looks at its GPUs")  # fmt: skip
    yield case(BLIND, "no first look", ends(None))
    yield case(BLIND, "an action that is refused", ends({}, {f"1/{action}": error(DENIED)}))
    yield case(BLIND, "no NVML at the end", ends({}, {"node/nvmlInit": error(MISSING)}))


def _of_dcgm() -> Iterator[Case]:
    case = cases_of(DCGM.name)
    yield case(HEALTHY, "zeros", dmon("dmon_xid_ok.txt"))
    yield case(HEALTHY, "N/A", dmon("dmon_xid_na.txt"))
    yield case(FAULTY, "Xid 79 within the run", dmon("dmon_xid_79.txt"), "GPU 3")
    yield case(FAULTY, "another Xid after an earlier one", dmon("dmon_xid_31_then_48.txt"), "GPU 6")
    yield case(FAULTY, "an Xid of before", dmon("dmon_xid_earlier.txt"), "Xid 79", level=WARN)
    yield case(BLIND, "seven of eight GPUs", dmon("dmon_xid_seven.txt"))
    yield case(BLIND, "a row that is cut", dmon("dmon_xid_ok.txt", part=0.32, seconds=0.0))
    yield case(BLIND, "a host engine that ended", dmon("dmon_xid_ok.txt", part=0.0, code=1, seconds=0.0))
    yield case(BLIND, "not a word", dmon("dmon_xid_ok.txt", part=0.0, silent_s=0.2))
    yield case(BLIND, "no dcgmi", dmon("dmon_xid_ok.txt", missing=True))


def _of_sysfs() -> Iterator[Case]:
    case, fatal = cases_of(COUNTERS.name, instance_type="cpu"), f"{error_counters.PCI}/{AER}fatal"
    nonfatal = {f"{error_counters.PCI}/{AER}nonfatal": "TOTAL_ERR_NONFATAL 2\n"}
    away = {f"{error_counters.PCI}/{AER}{kind}": "" for kind in ("correctable", "nonfatal", "fatal")}
    port = f"{error_counters.PCI}/0000:10:00.0/aer_rootport_total_err_fatal"
    memory = f"{error_counters.EDAC}/mc0"
    yield case(HEALTHY, "errors of before alone", counted())
    yield case(HEALTHY, "a virtual machine without counters", counted(make=bare))
    yield case(HEALTHY, "a few corrected errors", counted({f"{memory}/ce_count": "40\n"}))
    yield case(FAULTY, "a link that was lost", counted({fatal: "TOTAL_ERR_FATAL 1\n"}), "0000:10:1c.0")
    yield case(FAULTY, "a fatal message at the root port", counted({port: "1\n"}), "0000:10:00.0")
    yield case(FAULTY, "a request that failed", counted(nonfatal), "0000:10:1c.0")
    yield case(FAULTY, "memory that was not corrected", counted({f"{memory}/ue_count": "1\n"}), "mc0")
    yield case(FAULTY, "many corrected errors", counted({f"{memory}/ce_count": "500\n"}), "mc0", level=WARN)
    yield case(FAULTY, "fatal before the run", counted({port: "2\n"}, {port: "2\n"}),
        "fatal_before had 2 fatal PCIe errors before the checks", level=WARN)  # fmt: skip
    yield case(FAULTY, "a device that is gone", counted(away), "0000:10:1c.0")
    yield case(BLIND, "a counter that went back", counted({f"{memory}/ce_count": "2\n"}))
    yield case(BLIND, "a counter that is no number", counted({f"{memory}/ue_count": "many\n"}))
    yield case(BLIND, "a total that is cut", counted({fatal: "Surprise Down Error 0\n"}))


def _of_neuron() -> Iterator[Case]:
    case = cases_of(RUNTIME.name, instance_type="trn1.32xlarge")
    yield case(HEALTHY, "errors of before alone", ran({}))
    yield case(HEALTHY, "another folder", ran({}, "status"))
    yield case(FAULTY, "a hardware error", ran({(3, "hw_error"): "8"}), "device 3")
    yield case(FAULTY, "a call that timed out", ran({(4, "timeout"): "9"}), "device 4", level=WARN)
    yield case(BLIND, "a counter that went back", ran({(5, "hw_error"): "6"}))
    yield case(BLIND, "a counter that is no number", ran({(5, "hw_error"): "x"}))
    yield case(BLIND, "a device that was not there", ran({}, first=15))
    yield case(BLIND, "no first look", ran({}, first=None))


CASES = (*_of_nvml(), *_of_dcgm(), *_of_sysfs(), *_of_neuron())
