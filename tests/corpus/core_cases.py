"""system.*, network.reachability and network.pairs, training.smoke and training.ddp: what the house stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any
from unittest import mock

from checks.check import Check, Context, Measurement, RankPlace
from checks.exchange.exchange import Responder
from checks.model import Cause, Level, Observation, Outcome, Value
from checks.probes.compute import training_smoke
from checks.probes.host import machine, system
from checks.probes.network import reachability
from checks.process.free_ports import free_port
from checks.process.observe import probe
from checks.roster import Member, Roster
from tests.checks.proc_trees import PROC, memory_v2, tree, v2
from tests.checks.worlds import world_of_session
from tests.corpus.case import Case, Observe, Rows, Sort, context, observed, observing
from tests.exchanges import access
from tests.fakes import compute as fakes

RANK = RankPlace(0, 0, 1, "cpu")
MACHINE = {
    **PROC,
    "proc/sys/kernel/random/boot_id": "5c1d9a3e-77f0-4a43-9f0b-0e5d7a0b6a11\n",
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "proc/cpuinfo": "processor : 0\nmodel name : Toy CPU 9000\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
}
DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Tue Jan  7 00:00:00 UTC 2025\n"


def at_root(check: Check, files: Mapping[str, str], without: str = "", subject: str = "node-0") -> Observe:
    """The check on a machine that is a tree of files."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        kept = {**MACHINE, **v2("/", {"cgroup.procs": ""}), **files}
        kept.pop(without, None)
        root = tree(tmp_path / subject, kept)
        with mock.patch.object(system, "ROOT", root):
            return observed(check, context(check, tmp_path, "cpu"), subject)

    return observe


@observing
def nodes(tmp_path: Path, check: Check, *each: Mapping[str, str]) -> Rows:
    """The same check on several nodes."""
    made = (at_root(check, files, subject=f"node-{index}")(tmp_path) for index, files in enumerate(each))
    return tuple(row for rows in made for row in rows)


@observing
def clock(tmp_path: Path, state: system.ClockState | OSError, year: int = 2026, rate: float = 1.0) -> Rows:
    """system.clock where the kernel says this of its clock."""
    root = tree(tmp_path / "root", MACHINE)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(system, "read_state", side_effect=repeat(state)))
        stack.enter_context(mock.patch.object(system, "ROOT", root))
        stack.enter_context(mock.patch.object(system, "_wall_rate", return_value=rate))
        [row] = observed(system.clock, context(system.clock, tmp_path, "cpu"))
    if row.outcome is Outcome.MEASURED:
        row = replace(row, metrics={**row.metrics, "year": year})
    return (row,)


@contextmanager
def responders(count: int, catalogue: str = "", silent: Sequence[int] = ()) -> Iterator[Roster]:
    """A roster of real responders on loopback; the silent ones do not listen."""
    members = tuple(Member(f"node-{index}", "127.0.0.1", free_port()) for index in range(count))
    roster = Roster(members, free_port(), "lo")
    opened = []
    try:
        for index, member in enumerate(members):
            made = Responder(access(member.name), "" if index == 0 else catalogue)
            opened.append(made)
            if index not in silent:
                made.listen(member.address, member.probe_port)
                if index == 0:
                    made.listen(member.address, roster.rendezvous_port)
        yield roster
    finally:
        for made in opened:
            made.close()


def among(
    check: Check,
    catalogue: str = "",
    silent: Sequence[int] = (),
    change: Mapping[str, Mapping[str, Value]] | None = None,
) -> Observe:
    """What every node of three sees of the others; `change` replaces metrics by node."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        rows = []
        with responders(3, catalogue, silent) as roster:
            for index, member in enumerate(roster.members):
                made: Context = replace(
                    context(check, tmp_path, "cpu", 3),
                    roster=roster,
                    node=member.name,
                    node_rank=index,
                    timeout_s=1.0,
                    options={"seconds": 0.02, "max_bytes": 1 << 20, "pings": 4, "deadline_s": 0.4},
                )
                row = probe(check, made, member.name)
                metrics = {**row.metrics, **(change or {}).get(member.name, {})}
                rows.append(replace(row, metrics=metrics if row.outcome is Outcome.MEASURED else {}))
        return rows

    return observe


@observing
def smoke(tmp_path: Path, break_it: Callable[[], Any] | None = None) -> Rows:
    """training.smoke, with something broken."""
    made = context(training_smoke.smoke, tmp_path, "cpu", place=RANK, options={"steps": 30})
    with fakes.one_thread(), ExitStack() as stack:
        if break_it is not None:
            stack.enter_context(break_it())
        return observed(training_smoke.smoke, made, "node-0/rank-0")


@observing
def together(tmp_path: Path, sabotage: str, change: Mapping[str, Value] | None = None) -> Rows:
    """training.ddp on two real ranks; one world a test session serves all cases."""
    said = world_of_session(tmp_path)[f"ddp/{sabotage}"]
    made = [{**{name: row[name] for name in row if name != "fault"}, **(change or {})} for row in said]
    return [
        Observation("training.ddp", f"node-0/rank-{rank}", Outcome.MEASURED, 1.0, metrics)
        for rank, metrics in enumerate(made)
    ]


def without_group(tmp_path: Path) -> Sequence[Observation]:
    """training.ddp outside of torchrun."""
    made = context(training_smoke.ddp, tmp_path, "cpu", place=RankPlace(0, 0, 2, "cpu"))
    return observed(training_smoke.ddp, made, "node-0/rank-0")


@observing
def raising(tmp_path: Path, check: Check, error: Exception) -> Rows:
    """The check's body breaks in the middle."""

    def body(made: Context) -> Measurement:
        raise error

    return observed(replace(check, body=body), context(check, tmp_path, "cpu"))


def case(check: Check, sort: Sort, name: str, observe: Observe, **of: Any) -> Case:
    """A case of a machine declared as `cpu`."""
    return Case(check.name, sort, name, observe, "cpu", **of)


IDENTITY, RESOURCES, CLOCK = system.identity, system.resources, system.clock
REACH, PAIRS = reachability.reachability, reachability.pairs
SMOKE, DDP = training_smoke.smoke, training_smoke.ddp
OF_CONFIGURATION: dict[str, Any] = {"cause": Cause.CONFIGURATION}
LITTLE = {f"sys/fs/cgroup/{name}": text for name, text in memory_v2("", str(1 << 30), 900 << 20, 0).items()}
SYNCHRONISED = system.ClockState(True, 0.0001, 0.01)
SLOW = {f"node-{index}": {"bandwidth_gbps": (0.01, 0.01)} for index in range(3)}
HOLE = {"node-1": {"bandwidth_gbps": (4.0, None)}}

CASES = (
    case(IDENTITY, Sort.HEALTHY, "an ordinary machine", at_root(IDENTITY, {})),
    case(IDENTITY, Sort.HEALTHY, "two alike", nodes(IDENTITY, {}, {}), nodes=2),
    case(IDENTITY, Sort.FAULTY, "a driver that was not rolled out everywhere",
        nodes(IDENTITY, *({f"{machine.NVIDIA}/version": DRIVER.format(v)} for v in ("570.86.15", "570.86.15", "550.54.14"))),
        nodes=3, names="550.54.14", **OF_CONFIGURATION),
    case(IDENTITY, Sort.FAULTY, "another processor", nodes(IDENTITY, {}, {}, {"proc/cpuinfo": "model name : Other CPU\n"}), nodes=3,
        level=Level.WARN, names="Other CPU", **OF_CONFIGURATION),
    *(
        case(IDENTITY, Sort.UNMEASURABLE, f"no {name}", at_root(IDENTITY, {}, without=name))
        for name in ("proc/sys/kernel/random/boot_id", "etc/os-release", "proc/cpuinfo")
    ),
    case(RESOURCES, Sort.HEALTHY, "an ordinary container", at_root(RESOURCES, {})),
    case(RESOURCES, Sort.FAULTY, "a cgroup with little memory left", at_root(RESOURCES, LITTLE), names="memory_available_bytes",
        **OF_CONFIGURATION),
    case(RESOURCES, Sort.FAULTY, "few processes allowed", at_root(RESOURCES, {"proc/sys/kernel/pid_max": "200\n"}),
        names="pids_limit", **OF_CONFIGURATION),
    *(
        case(RESOURCES, Sort.UNMEASURABLE, f"no {name}", at_root(RESOURCES, {}, without=name))
        for name in ("proc/meminfo", "proc/vmstat", "proc/self/mountinfo")
    ),
    case(RESOURCES, Sort.UNMEASURABLE, "a table of words", at_root(RESOURCES, {"proc/meminfo": "MemTotal: many kB\n"})),
    case(CLOCK, Sort.HEALTHY, "synchronised", clock(SYNCHRONISED)),
    case(CLOCK, Sort.FAULTY, "it jumps", clock(SYNCHRONISED, rate=1.5), names="wall_rate", **OF_CONFIGURATION),
    case(CLOCK, Sort.FAULTY, "it was never set", clock(SYNCHRONISED, year=1970), names="year", **OF_CONFIGURATION),
    case(CLOCK, Sort.UNMEASURABLE, "not permitted", clock(PermissionError(1, "Operation not permitted"))),
    case(CLOCK, Sort.UNMEASURABLE, "no such call", clock(OSError(38, "Function not implemented"))),
    case(CLOCK, Sort.UNMEASURABLE, "NaN", clock(SYNCHRONISED, rate=float("nan"))),
    case(REACH, Sort.HEALTHY, "three nodes", among(REACH), nodes=3),
    case(REACH, Sort.FAULTY, "a node with other checks", among(REACH, catalogue="other"), nodes=3, names="other_catalogues",
        **OF_CONFIGURATION),
    case(REACH, Sort.UNMEASURABLE, "a node does not answer", among(REACH, silent=(2,)), nodes=3),
    case(REACH, Sort.FAULTY, "the rendezvous is closed", among(REACH, silent=(0,)), nodes=3, names="rendezvous", **OF_CONFIGURATION),
    case(PAIRS, Sort.HEALTHY, "three nodes", among(PAIRS), nodes=3),
    case(PAIRS, Sort.FAULTY, "everything is slow", among(PAIRS, change=SLOW), nodes=3, names="0.01"),
    case(PAIRS, Sort.UNMEASURABLE, "nobody answers", among(PAIRS, silent=(0, 1, 2)), nodes=3),
    case(PAIRS, Sort.UNMEASURABLE, "one does not answer", among(PAIRS, silent=(2,)), nodes=3),
    case(PAIRS, Sort.UNMEASURABLE, "a pair without a figure", among(PAIRS, change=HOLE), nodes=3),
    case(SMOKE, Sort.HEALTHY, "it learns", smoke()),
    case(SMOKE, Sort.FAULTY, "the optimiser has no effect", smoke(lambda: mock.patch.object(training_smoke, "LEARNING_RATE", 0.0)),
        names="loss_ratio", **OF_CONFIGURATION),
    case(SMOKE, Sort.UNMEASURABLE, "the loss is not a number",
        smoke(lambda: mock.patch.object(training_smoke, "_loss", return_value=float("nan")))),
    case(SMOKE, Sort.UNMEASURABLE, "torch cannot be imported", raising(SMOKE, ImportError("No module named 'torch'"))),
    case(DDP, Sort.HEALTHY, "two ranks agree", together("healthy")),
    case(DDP, Sort.FAULTY, "gradients are not the average", together("doubled"), names="gradient_error"),
    case(DDP, Sort.FAULTY, "one rank's weights drift", together("drift"), names="weights_digest"),
    case(DDP, Sort.FAULTY, "nothing is learnt", together("learning_rate_0"), names="loss_ratio", **OF_CONFIGURATION),
    case(DDP, Sort.UNMEASURABLE, "no process group", without_group),
    case(DDP, Sort.UNMEASURABLE, "no digest on one rank", together("healthy", {"weights_digest": ()})),
)  # fmt: skip
