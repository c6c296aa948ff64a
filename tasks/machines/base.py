"""What is done to a machine, and by which engine: the contract of every back end.

A back end has credentials of its own, which a gate lacks. It changes no machine that it does not find as the caller saw it, and it
never calls twice: whether a request that was not answered took effect, `look` says later.

MachineError            nothing can be said or done; the message has the engine's words and the remedy
|- EngineSilent         the engine cannot tell now how the machine is; nothing was changed, and it may be tried again
|- ActRefused           the engine refused the act, or it is none of ours; nothing was changed
`- ActAmbiguous         the act was requested, and it is not known whether the engine took it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

# The beginning of what we write beside a node's state; whatever else stands there is somebody else's.
PREFIX = "prelaunch: "


class MachineError(Exception):
    """Nothing can be said or done. The message has the engine's words and the remedy."""


class EngineSilent(MachineError):
    """The engine cannot tell now how the machine is; nothing was changed, and it may be tried again."""


class ActRefused(MachineError):
    """The engine refused the act, or the machine is another's; nothing was changed."""


class ActAmbiguous(MachineError):
    """The act was requested, and it is not known whether the engine took it."""


class Rung(StrEnum):
    """What can be done for a machine that was refused, in the order in which it is tried.

    FENCE takes it out of service, RECHECK runs the checks again where it is, RETURN gives it back, PAGE leaves it to a person.
    """

    FENCE = "fence"
    RECHECK = "recheck"
    RESET = "reset"
    REBOOT = "reboot"
    REPLACE = "replace"
    RETURN = "return"
    PAGE = "page"


REPAIRS = (Rung.RESET, Rung.REBOOT, Rung.REPLACE)


class ServiceState(StrEnum):
    """Whether the engine starts jobs on a machine.

    TESTING: only our re-test may run on it. CHANGING: a reboot or a replacement is under way. GONE: the engine knows no such machine.
    """

    SERVING = "serving"
    OUT = "out of service"
    TESTING = "testing"
    CHANGING = "changing"
    GONE = "gone"
    UNKNOWN = "unknown"


class Holder(StrEnum):
    """Who took the machine out of service, or has claimed it. OTHER: a person, or another system that repairs machines."""

    NOBODY = "nobody"
    PRELAUNCH = "prelaunch"
    OTHER = "other"


class Settled(StrEnum):
    """What became of an act, as far as the engine shows it. DONE says nothing about the machine's health."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Mark:
    """Why a machine is out of service, as the engine keeps it: "prelaunch: GATE-ID CHECK"."""

    gate_id: str
    check: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.gate_id} {self.check}"

    @classmethod
    def read(cls, text: str) -> Mark | None:
        """The mark in an engine's words; None if they are somebody else's, or our health check's ("prelaunch: HARDWARE: ...")."""
        match = re.fullmatch(rf"{PREFIX}([A-Za-z0-9_][A-Za-z0-9._-]*)(?: (.*))?", text)
        return cls(match[1], (match[2] or "").strip()) if match else None


@dataclass(frozen=True)
class Machine:
    """A machine as its engine shows it. Unknown texts are "", an unknown time is None.

    `status` is the engine's state and reason verbatim, `owner` names the holder if it is OTHER, `mark` is ours. `booted_at` (Unix
    seconds) is when the engine says that it started, `boot_id` the id of that boot; `jobs` are the jobs that run on it now. The
    engine has not known its state since `unknown_since`.
    """

    node: str
    service: ServiceState
    holder: Holder = Holder.NOBODY
    status: str = ""
    owner: str = ""
    mark: Mark | None = None
    since: float | None = None
    booted_at: float | None = None
    boot_id: str = ""
    instance_id: str = ""
    instance_type: str = ""
    jobs: tuple[str, ...] = ()
    unknown_since: float | None = None

    @property
    def engine_health(self) -> str:
        """What the engine's own checks say of the machine, in its words; "" where it has none."""
        return ""

    def bears(self, gate_id: str) -> bool:
        """Whether a mark of that gate is on the machine."""
        return self.mark is not None and self.mark.gate_id == gate_id


AnyMachine = TypeVar("AnyMachine", bound=Machine)


def listed(machines: Mapping[str, AnyMachine], node: str) -> AnyMachine:
    """The machine of that name, if it can be judged. Raises ActRefused."""
    machine = machines.get(node)
    if machine is None or machine.service is ServiceState.GONE:
        message = f"The engine has no node {node!r:.80}. Correct the name (`prelaunch fleet list GATE_FILE` lists them)."
        raise ActRefused(message)
    if machine.service is ServiceState.UNKNOWN:
        raise ActRefused(f"The state {machine.status!r:.200} of {node} is unknown. It is left alone.")
    return machine


def require_ours(machine: Machine, mark: Mark) -> None:
    """Raise ActRefused unless this gate holds the machine, and its engine changes nothing there.

    The check of a mark is not compared: a later finding of a gate may have another one.
    """
    node, status = machine.node, f"{machine.status!r:.200}"
    if machine.holder is Holder.OTHER:
        raise ActRefused(f"{node} belongs to {machine.owner}: {status}. It is left alone.")
    if machine.holder is Holder.NOBODY:
        raise ActRefused(f"{node} is not held by Prelaunch: the engine shows {status}. It is left alone.")
    if not machine.bears(mark.gate_id):
        raise ActRefused(f"{node} is held by another gate than {mark.gate_id}: {status}.")
    if machine.service is ServiceState.CHANGING:
        raise ActRefused(f"A repair of {node} is under way: {status}. Wait until it has ended.")


def require_free_or_ours(machine: Machine, mark: Mark) -> None:
    """Raise ActRefused unless this gate holds the machine, or nobody does."""
    if machine.holder is not Holder.NOBODY:
        require_ours(machine, mark)


def require_quiet(machine: Machine) -> None:
    """Raise ActRefused while something runs on the machine."""
    if machine.jobs:
        message = f"{machine.node} still runs {', '.join(machine.jobs)!s:.120}. Wait until it has ended."
        raise ActRefused(message)


@contextmanager
def after_change(node: str) -> Iterator[None]:
    """An engine that took a change and is silent when it is asked about it: the block raises ActAmbiguous for EngineSilent."""
    try:
        yield
    except EngineSilent as error:
        message = f"The change of {node} was taken, and then its engine did not answer: {error}"
        raise ActAmbiguous(message) from error


@dataclass(frozen=True)
class Retest:
    """Where a re-test runs: on exactly these nodes, with these options for the gate's launcher."""

    nodes: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


class Machines(Protocol):
    """One engine's machines.

    `rungs` are the repairs that it can do. `fence_is` is what a fence amounts to: REPLACE where the engine replaces what is taken out
    of service.
    """

    name: str
    rungs: frozenset[Rung]
    fence_is: Rung

    def by_name(self) -> Mapping[str, Machine]:
        """Every machine of the cluster by the engine's node name. Raises EngineSilent."""

    def fence(self, node: str, mark: Mark) -> str:
        """Take a machine that serves, or is ours already, out of service; returns the engine's words.

        Running jobs go on. Raises ActRefused, also for a machine that another holds, ActAmbiguous, EngineSilent.
        """

    def act(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """Request a repair of a machine that is fenced under this mark; returns the engine's words, and does not wait for the repair.

        Raises ActRefused, ActAmbiguous, EngineSilent (before the request was sent).
        """

    def settled(self, rung: Rung, before: Machine, now: Machine) -> Settled:
        """Whether the engine has done with a repair that was requested when the machine was as in `before`. Pure.

        The service of `before` is CHANGING if the machine was seen so since.
        """

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        """Let our checks, and nobody else's job, run on the machine and its partners. Idempotent.

        Raises ActRefused where the engine cannot do that (the message says why), ActAmbiguous, EngineSilent.
        """

    def close_retest(self, node: str, mark: Mark) -> None:
        """End the re-test with the machine still fenced; partners serve again. Idempotent. Raises as `fence` does."""

    def free(self, node: str, mark: Mark) -> str:
        """Return a machine that is fenced or tested under this mark to service, and end its re-test; returns the engine's words.

        Raises ActRefused, also if the mark is not there any more, ActAmbiguous, EngineSilent.
        """

    def command(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """What a person would type for it; "" if the engine has nothing for it. Names are quoted for a shell. Pure."""

    def shell(self, machine: Machine) -> str:
        """What opens a shell on the machine; "" if that is not known. Pure."""
