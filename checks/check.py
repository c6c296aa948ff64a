"""Defines a check: a function from a Context to a Measurement or to Skipped, with a decorator that declares what it needs.

    @check("system.clock", Scope.NODE, timeout_s=5, metrics=("offset_s",), needs="adjtimex")
    def clock(context: Context) -> Measurement | Skipped: ...

A check that cannot measure raises CheckError, or returns Skipped if there is a reason that a policy may accept. A check never
judges: thresholds are in the policy.

    CheckError          the check could not measure; its message becomes the observation's reason
    Missing             what the check needs is not installed on this node: the observation is SKIPPED with TOOL_MISSING
    CatalogError        a requested check does not exist, or two checks have the same name
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checks.facts.instances import Instance, lacks
from checks.facts.withheld_kernel_log import needless, required
from checks.model import Declared, MachinePart, Profile, Scope, Skip, Value
from checks.model_details import Contents
from checks.roster import Roster
from checks.value_types import MeasurementError

if TYPE_CHECKING:
    from checks.exchange.secret_key import Access


class CatalogError(Exception):
    """A requested check does not exist, or two checks have the same name."""


class CheckError(MeasurementError):
    """The check could not measure. The message becomes the observation's reason."""


class NotInstalled(CheckError):
    """What the check needs is not installed on this node, which a policy may accept: the observation is SKIPPED with TOOL_MISSING."""


class Resource(str, Enum):
    """What a node check needs for itself. Two checks that need the same resource never run at the same time."""

    CPU = "cpu"
    MEMORY = "memory"
    DISK = "disk"
    GPU = "gpu"
    NETWORK = "network"


class Turn(Enum):
    """The place of a check among the rank checks of its kind (with or without a process group)."""

    FIRST = "first"
    FREE = "free"  # cheaper checks run earlier
    LAST = "last"  # it reads what the other checks left, or depends on their results


@dataclass(frozen=True)
class Measurement:
    """What a check measured. `evidence` is raw output or a short summary; it is cut at 4 KiB, with a note that says so.

    `lines` holds, for a metric, the lines of the tool's output that it comes from; `prelaunch explain` shows them.
    """

    metrics: Mapping[str, Value]
    evidence: str = ""
    lines: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Skipped:
    """The reason for which nothing was measured, and details for a person."""

    skip: Skip
    detail: str


@dataclass(frozen=True)
class RankPlace:
    """The place of a rank in its group. `device` is a torch device: "cpu" or "cuda:3"."""

    rank: int
    local_rank: int
    world_size: int
    device: str


@dataclass(frozen=True)
class Context:
    """Everything that a check may use: the declaration, the peers, and the place where it runs.

    `access` is needed to communicate with peers. `options` holds the profile's numbers for this check (see
    checks.facts.profile_options). `place` is set for rank checks; their process group is initialised if the check says `group=True`.
    `catalogue` is the catalogue's digest. `scratch` is a folder of this node alone. `instance` is the instance table's row of the
    declared type, None if the table has none. `before` is what the check's own `before` function returned at the start of the run
    (closing checks), None if it failed. In a watch (checks/watch) it is what that function returned in the round before, which the
    function gets as well, and `look` is what it returned in this round; `look` is None elsewhere. `watched` is what the check's
    `watch` recorded, None if it did not watch until the end of the run. A group check that has measured calls `lose_group` with a
    reason if no later check can use the process group, and may leave notes for the other ranks in `store`: a connection to torch's
    store beside the group's own one, on which a call may hang.
    """

    access: Access
    catalogue: str
    declared: Declared
    profile: Profile
    node: str
    node_rank: int
    roster: Roster
    scratch: Path
    timeout_s: float
    options: Mapping[str, float] = field(default_factory=dict)
    rank_place: RankPlace | None = None
    instance: Instance | None = None
    before: Mapping[str, object] | None = None
    current: Mapping[str, object] | None = None
    watched: Sequence[Mapping[str, object]] | None = None
    lose_group: Callable[[str], None] = lambda reason: None
    store: Any = None


@dataclass(frozen=True)
class Basis:
    """What the contents of a check's metrics follow from: the declaration, the type's row and the check's numbers."""

    declared: Declared
    instance: Instance | None
    options: Mapping[str, float]


def lists(metric: str) -> Holds:
    """For checks whose lists have an element for each of this one, whose length is the machine's own."""
    return lambda basis: (Contents(metric),)


def lists_gpus(basis: Basis) -> tuple[Contents, ...]:
    """For checks whose lists have an element for each of the node's GPUs."""
    return (Contents("gpus", basis.declared.gpus_per_node),)


def lists_efa_devices(basis: Basis) -> tuple[Contents, ...]:
    """For checks whose lists have an element for each of the node's EFA devices."""
    return (Contents("devices", max(1, (basis.instance and basis.instance.efa_devices) or 1)),)


def lists_neuron_devices(basis: Basis) -> tuple[Contents, ...]:
    """For checks whose lists have an element for each of the node's Neuron devices."""
    return (Contents("devices", max(1, basis.instance.neuron_devices if basis.instance else 1)),)


GREATEST_INT = 1 << 63
# The Python module that an entry of `needs` stands for.
MODULES: Mapping[str, str] = {"NVML": "pynvml", "torch": "torch"}
# The program that an entry of `needs` stands for. It has to be on the PATH.
PROGRAMS: Mapping[str, str] = {
    "nccl-tests": "all_reduce_perf",
    **{name: name for name in ("dcgmi", "fi_info", "fi_pingpong", "fio", "nccom-test", "neuron-ls")},
    **{name: name for name in ("nv-hostengine", "stress-ng")},
}
Body = Callable[[Context], Measurement | Skipped]
Before = Callable[[Context], Mapping[str, object]]
Watch = Callable[[Context], Iterator[Mapping[str, object] | None]]
Holds = Callable[[Basis], tuple[Contents, ...]]


@dataclass(frozen=True)
class Check:
    """One line of the catalogue. Every measurement must contain all `metrics`, or the observation is ERRORED.

    `needs` lists what the node must have, separated by commas; an entry that begins with a word of MODULES is a Python module, one
    that begins with a word of PROGRAMS is a program. `cost` is "instant" (< 1 s), "seconds" or "minutes". `profiles` are those that
    plan the check. `min_nodes` and `min_ranks` are the smallest declared sizes to which it applies, `part` says to which nodes. For
    rank checks, `group` says that it needs the process group, and `turn` whether its place among the others is fixed. For node
    checks, `uses` names what it needs for itself; `serial` means that no other check runs at the same time; `closing` means that it
    runs after the rank checks, so that it sees what they caused. A closing check's `before` runs at the start, and what it returns
    (plain JSON) is the context's `before`. Its `watch` runs in a process of its own from the start of the run until the check begins
    (checks/runner/watchers.py). `beside_job` says that the check is safe while a job runs on the node: it reads, changes nothing,
    and takes next to no time, memory or bandwidth. The watch of a node (checks/watch) runs these. `holds` says what the lists of a
    measurement and its counts of work hold at the least; the plan carries it, and the judge compares. `events` are the metrics that
    count what happened between the start of a run and its end; the plan carries them, because a later run cannot measure them again.
    """

    name: str
    scope: Scope
    summary: str
    body: Body
    timeout_s: float
    metrics: tuple[str, ...]
    needs: str = "nothing"
    cost: str = "instant"
    profiles: tuple[Profile, ...] = tuple(Profile)
    min_nodes: int = 1
    min_ranks: int = 1
    part: MachinePart = MachinePart.ANY
    group: bool = False
    serial: bool = False
    uses: tuple[Resource, ...] = ()
    closing: bool = False
    before: Before | None = None
    turn: Turn = Turn.FREE
    watch: Watch | None = None
    beside_job: bool = False
    holds: Holds = lambda basis: ()
    events: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The path from which the check can be imported, "package.module:attribute"."""
        return f"{self.body.__module__}:{self.body.__qualname__}"

    @property
    def modules(self) -> tuple[str, ...]:
        """The Python modules that the check imports on a node, taken from the first words of the entries of `needs`."""
        return tuple(MODULES[program] for program in self._needed if program in MODULES)

    @property
    def programs(self) -> tuple[str, ...]:
        """The external programs that the check runs, taken from the first words of the entries of `needs`."""
        return tuple(PROGRAMS[program] for program in self._needed if program in PROGRAMS)

    @property
    def _needed(self) -> tuple[str, ...]:
        return tuple(entry.split()[0] for entry in self.needs.split(",") if entry.strip())

    def skip_for(self, declared: Declared, profile: Profile, instance: Instance | None = None) -> Skip | None:
        """The reason for which the declaration excludes this check; None if it has to run."""
        lacking = lacks(self.part, declared, instance)
        if lacking is not None:
            return lacking
        if needless(self.name, declared):
            return Skip.KERNEL_LOG_READABLE
        if profile not in self.profiles and not required(self.name, declared):
            return Skip.NOT_IN_PROFILE
        if declared.nodes < self.min_nodes:
            return Skip.ONE_NODE_DECLARED
        return Skip.ONE_RANK_DECLARED if declared.ranks < self.min_ranks else None


def check(name: str, scope: Scope, **fields: Any) -> Callable[[Body], Check]:
    """Makes a function a line of the catalogue, with these fields of Check. The first line of its docstring is the summary that lists
    show. A check with `before` or `watch` is closing.
    """
    fields["closing"] = any(fields.get(key) for key in ("closing", "before", "watch"))

    def wrap(body: Body) -> Check:
        summary = (body.__doc__ or "").strip().partition("\n")[0]
        return Check(name, scope, summary, body, **fields)

    return wrap


def imported(path: str) -> Check:
    """The check at "package.module:attribute". Raises CatalogError."""
    module, _, attribute = path.partition(":")
    try:
        attribute_value = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a site's module may raise anything when it is imported
        raise CatalogError(f"check {path!r} cannot be imported: {error}") from error
    if not isinstance(attribute_value, Check):
        raise CatalogError(f"check {path!r} is not a @check function. Decorate it with checks.check.check.")
    return attribute_value


def fault_of(check: Check, metrics: Mapping[str, object]) -> str:
    """Why a measurement is not valid ("NaN in busbw_gbps"), or ""."""
    for name in check.metrics:
        if name not in metrics:
            return f"the check did not return {name}"
    for name, value in metrics.items():
        if fault := _fault_of_value(value):
            return f"{fault} in {name}"
    return ""


def _fault_of_value(value: object) -> str:
    """Why a report cannot contain this value (see checks.documents.report). The decoder would refuse the
    whole report because of it.
    """
    if isinstance(value, tuple):
        if not value:
            return "an empty list"
        if not all(isinstance(item, str) for item in value) and any(
            isinstance(item, (bool, str)) for item in value
        ):
            return "a list of mixed kinds"
        return next((fault for item in value if item is not None and (fault := _fault_of_value(item))), "")
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}"
    if isinstance(value, int) and abs(value) > GREATEST_INT:
        return "a whole number out of range"
    return "" if isinstance(value, (bool, int, float, str)) else f"a {type(value).__name__}"
