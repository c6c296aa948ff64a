"""What a check is: a function from a Context to a Measurement or a Skipped, with its promise stated beside it.

    @check("system.clock", Scope.NODE, timeout_s=5, metrics=("offset_s",), needs="adjtimex")
    def clock(context: Context) -> Measurement | Skipped: ...

A check that cannot measure raises CheckError, or returns Skipped where there is a reason that a policy may
accept. It never judges: thresholds live in the policy.

CheckError          the check could not measure; the message is the evidence
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from checks.model import Declared, Profile, Scope, Skip, Value
from checks.roster import Roster


class CheckError(Exception):
    """The check could not measure. What it says becomes the observation's reason."""


@dataclass(frozen=True)
class Measurement:
    """What was measured. `evidence` is raw output or a short account; it is cut at 4 KiB, and says so."""

    metrics: Mapping[str, Value]
    evidence: str = ""


@dataclass(frozen=True)
class Skipped:
    """Why nothing was measured, and the detail for a person."""

    skip: Skip
    detail: str


@dataclass(frozen=True)
class RankPlace:
    """Where a rank is in its group. `device` is a torch device: "cpu" or "cuda:3"."""

    rank: int
    local_rank: int
    world_size: int
    device: str


@dataclass(frozen=True)
class Context:
    """What a check may know: what is declared, who the peers are, and where it runs.

    `options` holds the profile's numbers for this check (see checks.profiles). `place` is set for rank checks,
    whose process group is initialised if the check says `group=True`. `catalogue` is its digest. `scratch` is
    a folder of the node's own.
    """

    gate: str
    catalogue: str
    declared: Declared
    profile: Profile
    node: str
    node_rank: int
    roster: Roster
    scratch: Path
    timeout_s: float
    options: Mapping[str, float] = field(default_factory=dict)
    place: RankPlace | None = None


GREATEST_INT = 1 << 63
Body = Callable[[Context], Measurement | Skipped]


@dataclass(frozen=True)
class Check:
    """One line of the catalogue. `metrics` must all be in every measurement, or it counts as ERRORED.

    `cost` is "instant" (< 1 s), "seconds" or "minutes". `profiles` are those that plan it. `min_nodes` and
    `min_ranks` say from which declared size on it applies; `gpus` says that it needs declared GPUs.
    `group` (rank checks): needs the process group. `serial` (node checks): never beside another.
    """

    name: str
    scope: Scope
    timeout_s: float
    metrics: tuple[str, ...]
    needs: str
    cost: str
    profiles: tuple[Profile, ...]
    min_nodes: int
    min_ranks: int
    gpus: bool
    group: bool
    serial: bool
    summary: str
    body: Body

    def skip_for(self, declared: Declared, profile: Profile) -> Skip | None:
        """Why the check is not to run, as far as the declaration tells; None if it must."""
        if profile not in self.profiles:
            return Skip.NOT_IN_PROFILE
        if self.gpus and declared.gpus_per_node == 0:
            return Skip.NO_GPU_DECLARED
        if declared.nodes < self.min_nodes:
            return Skip.ONE_NODE_DECLARED
        return Skip.ONE_RANK_DECLARED if declared.ranks < self.min_ranks else None


def check(
    name: str,
    scope: Scope,
    *,
    timeout_s: float,
    metrics: tuple[str, ...],
    needs: str = "nothing",
    cost: str = "instant",
    profiles: tuple[Profile, ...] = tuple(Profile),
    min_nodes: int = 1,
    min_ranks: int = 1,
    gpus: bool = False,
    group: bool = False,
    serial: bool = False,
) -> Callable[[Body], Check]:
    """Make a catalogue line of a function; the first line of its docstring is the summary."""

    def wrap(body: Body) -> Check:
        summary = (body.__doc__ or "").strip().partition("\n")[0]
        return Check(
            name,
            scope,
            timeout_s,
            metrics,
            needs,
            cost,
            profiles,
            min_nodes,
            min_ranks,
            gpus,
            group,
            serial,
            summary,
            body,
        )

    return wrap


def fault_of(check: Check, metrics: Mapping[str, object]) -> str:
    """Why a measurement cannot stand ("NaN in busbw_gbps"), or ""."""
    for name in check.metrics:
        if name not in metrics:
            return f"the check did not return {name}"
    for name, value in metrics.items():
        if why := _fault_of_value(value):
            return f"{why} in {name}"
    return ""


def _fault_of_value(value: object) -> str:
    """What a report could not hold (see checks.report): the decoder would refuse the whole report for it."""
    if isinstance(value, tuple):
        if not value:
            return "an empty list"
        if not all(isinstance(item, str) for item in value) and any(
            isinstance(item, (bool, str)) for item in value
        ):
            return "a list of mixed kinds"
        return next((why for item in value if item is not None and (why := _fault_of_value(item))), "")
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}"
    if isinstance(value, int) and abs(value) > GREATEST_INT:
        return "a whole number out of range"
    return "" if isinstance(value, (bool, int, float, str)) else f"a {type(value).__name__}"
