"""What a failure drill is: which fault it makes, what has to follow, and what came of it. Pure.

DrillError              it is not known what came of the drill
|- DrillRefused         the drill may not run, or cannot: nothing was changed; the message says what to do
`- NodeUnreachable      a command on the node did not start or did not end
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from checks.model import Cause
from checks.policy import Overlay
from tasks.remediation.model import Mode

Argv = tuple[str, ...]


class DrillError(Exception):
    """It is not known what came of the drill."""


class DrillRefused(DrillError):
    """The drill may not run, or cannot: nothing was changed. The message says what to do."""


class NodeUnreachable(DrillError):
    """A command on the node did not start or did not end."""


class Milestone(StrEnum):
    """What has to follow a fault, in this order."""

    DETECTED = "detected"
    PAGED = "paged"
    ACTED = "acted"
    RETURNED = "returned"


# What mode "off" and "plan" of [remediation] leave to people.
BY_REMEDIATION = (Milestone.ACTED, Milestone.RETURNED)


class SeenBy(StrEnum):
    """Who has to notice the fault: a gate that refuses because of it, or the engine, which takes the node out of service, as well."""

    GATE = "gate"
    ENGINE = "engine"


@dataclass(frozen=True)
class FaultOptions:
    """What the faults need to know; "" stands for the default of the fault.

    `drill_id` makes the names of files unique. `rate` is tc's ("10mbit"), `leave_mib` is what a full disk has left. `start` is the
    command that starts a killed daemon, `gpu` is DCGM's number.
    """

    drill_id: str
    node: str
    kernel_log: str = ""
    pci: str = "0000:b9:00"
    interface: str = ""
    rate: str = "10mbit"
    folder: str = ""
    leave_mib: int = 4
    process: str = ""
    pid_file: str = ""
    start: Argv = ()
    gpu: int = 0


@dataclass(frozen=True)
class Fault:
    """The commands that make a fault on a node and undo it. Both may be run again, and `undo` without `inject` before it.

    `undo` ends with exit code 0 if nothing of the fault is left. An `inject` that ends with NOT_YET changed nothing, and is tried
    again. `repeat_s` above 0 injects again and again, that many seconds apart. `stays` says what cannot be undone, and what to do.
    """

    inject: Argv
    undo: Argv
    repeat_s: float = 0.0
    stays: str = ""
    inject_s: float = 20.0


NOT_YET = 75  # EX_TEMPFAIL of sysexits.h


@dataclass(frozen=True)
class FaultMaker:
    """`probe` is a command that changes nothing on the node; `make` reads what it printed. Both raise DrillRefused."""

    probe: Callable[[FaultOptions], Argv]
    make: Callable[[FaultOptions, str], Fault]


@dataclass(frozen=True)
class Drill:
    """One drill. A gate's FAIL about the node counts as detection if its check begins with one of `checks` and its cause is one of
    `causes`; () stands for all.

    `undo_after` is the milestone after which the fault is undone, so that the node can return; None: at the end. `overlay` is whose
    answers to Xids make a gate refuse because of it; None: all. `note` says what nobody should take for granted.
    """

    name: str
    summary: str
    fault: FaultMaker
    expects: tuple[Milestone, ...]
    seen_by: SeenBy = SeenBy.GATE
    checks: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    undo_after: Milestone | None = None
    overlay: Overlay | None = None
    note: str = ""


@dataclass(frozen=True)
class DrillLimits:
    """Within how many seconds of the injection each milestone has to be reached, and how long cleaning up may take."""

    within_s: Mapping[Milestone, float] = field(
        default_factory=lambda: {
            Milestone.DETECTED: 900.0, Milestone.PAGED: 960.0, Milestone.ACTED: 1200.0, Milestone.RETURNED: 3600.0,
        }
    )  # fmt: skip
    clean_s: float = 300.0
    poll_s: float = 2.0


def expected(drill: Drill, mode: Mode, asked: tuple[Milestone, ...] = ()) -> tuple[Milestone, ...]:
    """What has to follow: what was asked for, else what the drill promises and this mode of [remediation] does by itself."""
    if asked:
        return tuple(one for one in Milestone if one in asked)
    if drill.seen_by is SeenBy.GATE and mode in (Mode.OFF, Mode.PLAN):
        return tuple(one for one in drill.expects if one not in BY_REMEDIATION)
    return drill.expects


class DrillEnd(StrEnum):
    """What came of a drill. INTERRUPTED: a signal ended it early."""

    IN_TIME = "everything happened in time"
    FAILED = "not everything happened in time"
    CANNOT_TELL = "it is not known whether everything happened in time"
    INTERRUPTED = "the drill was interrupted"


@dataclass(frozen=True)
class DrillResult:
    """`reached_s` has the seconds from the injection to each milestone; it is None for a fault that was never injected.

    `problems` are sources that could not be read when it ended; `clean` is False if it is not known that the fault is undone, which
    `undo_command` then does. `signal` is the number of the signal that ended the drill, or 0.
    """

    drill: str
    node: str
    expected: tuple[Milestone, ...]
    limits: DrillLimits
    reached_s: Mapping[Milestone, float] | None
    seconds: float = 0.0
    clean: bool = True
    signal: int = 0
    why: str = ""
    details: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    stays: str = ""
    undo_command: str = ""
    left: str = ""

    @property
    def missing(self) -> tuple[Milestone, ...]:
        """What was not reached in time."""
        reached = self.reached_s or {}
        return tuple(
            one for one in self.expected if one not in reached or reached[one] > self.limits.within_s[one]
        )

    @property
    def end(self) -> DrillEnd:
        """What came of it. A fault that is not known to be undone is never a success."""
        if self.signal:
            return DrillEnd.INTERRUPTED
        if not self.missing and self.reached_s is not None:
            return DrillEnd.IN_TIME if self.clean else DrillEnd.FAILED
        if self.reached_s is None or self.problems:
            return DrillEnd.CANNOT_TELL
        return DrillEnd.FAILED
