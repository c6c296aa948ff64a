"""How a gate ended: what the flow hands to the command line, and what the store keeps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from checks.model import Answer, Report, Verdict, unreachable
from tasks.launchers.base import JobState, Placement
from tasks.question import Answer as PersonsAnswer
from tasks.render.beside import NOTHING_BESIDE, Beside


class Decision(StrEnum):
    """What was done. PASSED: go, and nothing was to be launched. OVERRIDDEN: launched against a FAIL, on somebody's word.

    NOT_LAUNCHED: it was to be launched, and no training ran: the engine refused it, or had no machines for it.
    """

    LAUNCHED = "launched"
    NOT_LAUNCHED = "not_launched"
    PASSED = "passed"
    OVERRIDDEN = "overridden"
    REFUSED = "refused"
    CANNOT_TELL = "cannot_tell"
    OBSERVED = "observed"
    AWAITING = "awaiting"


class Ending(Enum):
    """Why it ended, as far as the exit code is concerned."""

    VERDICT = "verdict"
    JOB_FAILED = "job failed"
    NO_CAPACITY = "no capacity"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Judged:
    """A report, its verdict and what is shown beside it. `reused` is the gate that made them, "" for this one."""

    report: Report
    verdict: Verdict
    reused: str = ""
    beside: Beside = NOTHING_BESIDE


@dataclass(frozen=True)
class Training:
    """The training job as it was last seen."""

    job_id: str
    state: JobState
    detail: str = ""


@dataclass(frozen=True)
class Placed:
    """How strongly the training is held to the machines that were checked, and what was seen of it, a line each."""

    kind: Placement
    proof: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.value}{''.join(f'; {line}' for line in self.proof)}"


@dataclass(frozen=True)
class Outcome:
    """The end of a gate. `decision` and `judged` are None where nothing was judged; `answer` is a person's, where one was asked."""

    gate_id: str
    ending: Ending
    decision: Decision | None
    judged: Judged | None
    training: Training | None
    reason: str
    report: str | None = None
    html: str | None = None
    placement: Placed | None = None
    answer: PersonsAnswer | None = None

    @property
    def code(self) -> int:
        """The exit code."""
        if self.ending is Ending.REJECTED:
            return 2
        if self.ending is Ending.JOB_FAILED:
            return 4
        if self.ending is Ending.NO_CAPACITY:
            return 5
        if self.decision in (Decision.LAUNCHED, Decision.PASSED, Decision.OVERRIDDEN, Decision.OBSERVED):
            return 0
        return 3 if self.decision is Decision.CANNOT_TELL or self.decision is None else 1


def refusal(answer: Answer) -> Decision:
    """What an answer that launches nothing is called."""
    if answer is Answer.CANNOT_TELL:
        return Decision.CANNOT_TELL
    if answer is Answer.ASK:
        return Decision.AWAITING
    if answer is Answer.NO_GO:
        return Decision.REFUSED
    if answer is Answer.GO:
        raise ValueError("go is no refusal")
    return unreachable(answer)
