"""How a gate ended: what the flow returns to the command line, and what the store keeps.

As a JSON document it is what `prelaunch gate --format json` prints and what a run publishes. No key is ever absent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from checks.documents.report import dump_plain, plain
from checks.exit_codes import Exit, RejectionKind
from checks.model import ANSWER_WORDS, Answer, Report, Verdict
from checks.value_types import natural
from tasks.gate.lease.lease import LeaseError, LeaseHeld
from tasks.gate.question import ApprovalAnswer
from tasks.gate_file.cost_terms import cost_json
from tasks.launchers.base import JobState, LaunchError, Placement
from tasks.render.context import NO_CONTEXT, EndMark, VerdictContext
from tasks.render.findings import verdict_json
from tasks.render.headline import basis, culprits, headline, images_json
from tasks.render.remedy_commands import NOWHERE
from tasks.store.base import Store, StoreError
from tasks.store.layout import logs_folder, outcome_key
from tasks.text.inert import clean, one_line
from tasks.text.redact import redact

NOT_STARTED = "Training was not started."
# The sentence is for a refused job whose nodes decide by themselves.
MAY_HAVE_STARTED = "It is not known whether the training was started: what its nodes wrote cannot be read."
STARTED_BY_NODES = "The nodes had started the training."
# What to do about a training that failed on machines that had passed.
TRAINING_FAILED = (
    "No node is blamed, because the checks had passed. Read the training's log and tell its owner. If you suspect a node, run the "
    "gate again with --check-only."
)
# The sentences stand above remedies that would end the training, and before each of them.
RUNS_ANYWAY = "The training was started all the same. To restart or drain one of its nodes would end it."
LEFT_OUT = "The job goes on with the other nodes."
HELD = f"{LEFT_OUT} A node that failed still belongs to it: restart or drain none of its nodes before it has ended."
# What to do where the engine refused a training whose nodes had passed.
REFUSED_JOB = "The checks had passed, and the engine refused the training. Correct what it says, and run the gate again."
AFTER_TRAINING = "When the training has ended:"
NOBODY_ASKED = "No training was requested, so nobody is asked."
# Together at most 4 MiB: they are for the artifacts of a pipeline, and the store has all of them.
MOST_LOGS, LOG_CHARACTERS = 128, 32 * 1024


class Decision(StrEnum):
    """What was done. PASSED: GO, and nothing was to be launched. OVERRIDDEN: launched in spite of a FAIL, because a person decided so.

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
    CANCELLED = "cancelled"


# What `prelaunch gate` exits with; a gate without a decision could not tell.
ENDING_EXITS = {
    Ending.REJECTED: Exit.REJECTED,
    Ending.JOB_FAILED: Exit.JOB_FAILED,
    Ending.NO_CAPACITY: Exit.NO_CAPACITY,
    Ending.CANCELLED: Exit.INTERRUPTED,  # the command line says 143 where SIGTERM did it
}
DECISION_EXITS = {
    **dict.fromkeys((Decision.LAUNCHED, Decision.PASSED, Decision.OVERRIDDEN, Decision.OBSERVED), Exit.GO),
    **dict.fromkeys((Decision.REFUSED, Decision.AWAITING, Decision.NOT_LAUNCHED), Exit.NO_GO),
    Decision.CANNOT_TELL: Exit.CANNOT_TELL,
}


@dataclass(frozen=True)
class JudgedReport:
    """A report, its verdict and what is shown beside it. `reused` is the gate that made them, "" for this one."""

    report: Report
    verdict: Verdict
    reused: str = ""
    context: VerdictContext = NO_CONTEXT


@dataclass(frozen=True)
class Training:
    """The training job as it was last seen. `cause` says in one sentence why it failed, `detail` what is known besides; `node` is the
    one whose log has the cause, "" where no single one has. `certain` is False where only its nodes know whether they started it.
    """

    job_id: str
    state: JobState
    detail: str = ""
    cause: str = ""
    node: str = ""
    certain: bool = True

    @property
    def text(self) -> str:
        """Both."""
        return "; ".join(filter(None, (self.cause, self.detail)))


@dataclass(frozen=True)
class PlacementProof:
    """How well it is proven that the training runs on the machines that were checked, and the evidence, one line each."""

    kind: Placement
    proof: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.value}{''.join(f'; {line}' for line in self.proof)}"


@dataclass(frozen=True)
class GateOutcome:
    """The end of a gate. `decision` and `judged` are None if nothing was judged; `answer` is a person's, where one was asked. `key` is
    the key of the gate file for which it was rejected, "" where it is not known. `started` says of a cancelled gate that a job of it
    may have been started. `left_out` are the nodes of the job that do not train, each with the reason.
    """

    gate_id: str
    ending: Ending
    decision: Decision | None
    judged: JudgedReport | None
    training: Training | None
    reason: str
    report: str | None = None
    html: str | None = None
    placement: PlacementProof | None = None
    answer: ApprovalAnswer | None = None
    key: str = ""
    started: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> Exit:
        """The exit code: of the ending where that says it already, else of the decision."""
        if self.ending in ENDING_EXITS:
            return ENDING_EXITS[self.ending]
        return DECISION_EXITS[self.decision] if self.decision is not None else Exit.CANNOT_TELL


# The first word about a gate that ended without a decision about its machines.
ENDING_WORDS = {
    Ending.REJECTED: EndMark.REJECTED,
    Ending.NO_CAPACITY: EndMark.NO_CAPACITY,
    Ending.JOB_FAILED: EndMark.TRAINING_FAILED,
    Ending.CANCELLED: EndMark.CANCELLED,
}
CANCELLED = ENDING_WORDS[Ending.CANCELLED]
# The words are shown where Prefect failed before there was anything to decide about.
SERVICE_ERROR = "SERVICE ERROR"


def end_mark(decision: Decision | None, ending: Ending) -> EndMark | None:
    """How a gate ended, where that is less than its verdict let it do."""
    return EndMark.NOT_LAUNCHED if decision is Decision.NOT_LAUNCHED else ENDING_WORDS.get(ending)


def first_line(outcome: GateOutcome, name: str) -> str:
    """The first line about a gate's end, the same on every channel. `name` is the gate's.

    Such as "NO-GO p5: node-1 sent no report (its process exited 7)", "NO CAPACITY p5: ...", "OVERRIDDEN p5: ana started the training
    despite NO-GO: ...".
    """
    judged, answer, decision = outcome.judged, outcome.answer, outcome.decision
    if (mark := end_mark(decision, outcome.ending)) is not None:
        by = f" (against the verdict, by {answer.by})" if answer and decision is Decision.OVERRIDDEN else ""
        return f"{mark} {one_line(name, 80)}: {outcome.reason}{by}"
    if judged is None or (answer is not None and decision is Decision.REFUSED):
        answer_name = ANSWER_WORDS[Answer.CANNOT_TELL if judged is None else Answer.NO_GO]
        return f"{answer_name} {one_line(name, 80)}: {outcome.reason}"
    short, text = one_line(name, 80), f"{ANSWER_WORDS[judged.verdict.answer]}: {basis(judged.verdict)}"
    if decision is Decision.OBSERVED:
        return f"OBSERVED {short}: the training was started whatever the verdict; {text}"
    if decision is Decision.OVERRIDDEN:
        return (
            f"OVERRIDDEN {short}: {answer.by if answer else 'a person'} started the training despite {text}"
        )
    if answer is not None and decision is Decision.LAUNCHED:
        return f"APPROVED {short}: {answer.by} started the training despite warnings: {basis(judged.verdict)}"
    if decision is Decision.REFUSED and outcome.left_out:
        return f"GOES ON WITHOUT {', '.join(outcome.left_out)} {short}: {basis(judged.verdict)}"
    more = "".join(f"; left out: {reason}" for reason in outcome.left_out.values())
    return f"{headline(judged.verdict, name)}{more}"


REFUSALS = (Decision.REFUSED, Decision.CANNOT_TELL, Decision.AWAITING, Decision.NOT_LAUNCHED)


def without_training(outcome: GateOutcome, launches: bool, requested: bool = True) -> GateOutcome:
    """The outcome, whose pages say that the training was not started if the gate was to start it (`launches`) and did not; and that
    nobody is asked where none was `requested`, although the policy leaves the verdict to a person.
    """
    refused = outcome.decision in REFUSALS and outcome.training is None
    unasked = outcome.decision is Decision.AWAITING and not requested
    if outcome.judged is None or not refused or not (launches or unasked):
        return outcome
    context = replace(outcome.judged.context, training=NOBODY_ASKED if unasked else NOT_STARTED)
    return replace(outcome, judged=replace(outcome.judged, context=context))


def cancelled_by(outcome: GateOutcome, reason: str, unended: str = "") -> GateOutcome:
    """The outcome of a gate that was ended, with its reason. `reason`: "cancelled by SIGTERM"; `unended`: what could not be ended."""
    if outcome.judged is None:
        left = "the jobs that it had started were ended" if outcome.started else "no job had been started"
        return replace(outcome, reason=f"{reason}; {unended or left}")
    answer_name, training = ANSWER_WORDS[outcome.judged.verdict.answer], outcome.training
    left = "no training was started"
    if training is not None:
        training = replace(training, state=JobState.UNKNOWN) if unended else training
        was = "ended" if training.state is JobState.CANCELLED else "left alone"
        reason = f"the training had failed ({training.text}); then {reason}" if training.text else reason
        job = "the training that it had started" if training.certain else "its job, which may have trained,"
        left = f"{job} was {was}"
    message = f"{reason} after the verdict {answer_name}; {unended or left}"
    return replace(outcome, training=training, reason=message)


def with_billed(outcome: GateOutcome, lines: tuple[str, ...]) -> GateOutcome:
    """The outcome, which says as well which machines may still be billed, what they cost and how they are released. The text of a
    verdict does not show the reason, so its lines below the headline have it.
    """
    judged = outcome.judged
    if judged is not None and outcome.ending is Ending.VERDICT:
        judged = replace(judged, context=replace(judged.context, notes=(*judged.context.notes, *lines)))
    reason = " ".join((outcome.reason.rstrip(".") + ".", *lines)) if lines else outcome.reason
    return replace(outcome, judged=judged, reason=reason)


def with_ending(outcome: GateOutcome, name: str) -> GateOutcome:
    """The outcome, whose pages begin with its first line and say what failed although the verdict let it go on."""
    if outcome.judged is None:
        return outcome
    failed = outcome.reason if outcome.ending is not Ending.VERDICT else ""
    end = end_mark(outcome.decision, outcome.ending)
    state = outcome.training.state if outcome.training is not None else None
    context = replace(outcome.judged.context, first_line=first_line(outcome, name), failed=failed, end=end)
    if end is None and outcome.decision in (Decision.OBSERVED, Decision.OVERRIDDEN):
        runs = state is not None and not state.final
        context = _while_training(context, RUNS_ANYWAY if runs else "")
    had_passed = outcome.judged.verdict.answer is not Answer.NO_GO
    if outcome.ending is Ending.JOB_FAILED and state is JobState.FAILED and had_passed:
        context = replace(context, training=TRAINING_FAILED)
    if outcome.ending is Ending.JOB_FAILED and outcome.decision is Decision.NOT_LAUNCHED:
        context = replace(context, training=REFUSED_JOB)
    if context.past is not None:
        context = replace(context, past=context.past.ended(end))
    return replace(outcome, judged=replace(outcome.judged, context=replace(context, may_start=False)))


def with_job_that_goes_on(judged: JudgedReport, holds_nodes: bool) -> JudgedReport:
    """A refusal after which its job goes on with the nodes that are left, and may hold the others."""
    context = replace(judged.context, may_start=False, training=LEFT_OUT)
    return replace(judged, context=_while_training(context, HELD) if holds_nodes else context)


def _while_training(context: VerdictContext, sentence: str) -> VerdictContext:
    """What is shown while a training runs, as the sentence says: a command that takes a node away would end it."""
    site = replace(NOWHERE, after=AFTER_TRAINING if sentence else "")
    return replace(context, site=site, retry="", training=sentence)


def ended_otherwise(judged: JudgedReport, name: str) -> bool:
    """Whether the gate's end is more than the pages say that were published with its verdict."""
    context = judged.context
    return bool(context.training) or context.first_line not in ("", headline(judged.verdict, name))


def refusal_decision(answer: Answer) -> Decision:
    """The decision for an answer that launches nothing. Raises KeyError for GO."""
    if answer is Answer.NO_GO:
        return Decision.REFUSED
    return {Answer.CANNOT_TELL: Decision.CANNOT_TELL, Answer.ASK: Decision.AWAITING}[answer]


def outcome_summary(outcome: GateOutcome) -> dict[str, object]:
    """The part of an outcome that is kept beside report and verdict."""
    training = outcome.training
    return {
        "gate_id": outcome.gate_id,
        "decision": outcome.decision,
        "ending": outcome.ending,
        "exit_code": int(outcome.code),
        "reason": outcome.reason,
        "answer": outcome.judged.verdict.answer if outcome.judged else None,
        "reused": outcome.judged.reused if outcome.judged else "",
        "training": {
            "job_id": training.job_id,
            "state": training.state,
            "detail": training.text,
            "node": training.node,
        }
        if training
        else None,
        "placement": outcome.placement,
        "approval": outcome.answer,
    }


def keep_outcome(store: Store, outcome: GateOutcome, code: Exit, cluster: str, delivery: object = ()) -> None:
    """Keep how a gate ended, and how people were notified of it. Raises StoreError."""
    table = {**outcome_summary(outcome), "exit_code": int(code), "cluster": cluster, "told": delivery}
    store.put(outcome_key(outcome.gate_id), dump_plain(table))


def kept_logs(store: Store, gate_id: str, training: str) -> str:
    """The ends of the logs that the store kept of the nodes of the job `training`, or else of the gate's other jobs;
    "" if they have no line. Without secrets of this process and control characters, and bounded. Raises StoreError.
    """
    own = store.list(logs_folder(gate_id, training)) if training else ()
    keys = sorted(own or store.list(logs_folder(gate_id)), key=natural)
    sections = []
    for key in keys[:MOST_LOGS]:
        text = redact((store.get(key) or b"").decode("utf-8", "replace"), os.environ)
        if not text.strip():
            continue
        *_, job, file = key.split("/")
        cut = f" (the last {LOG_CHARACTERS:,} characters)" if len(text) > LOG_CHARACTERS else ""
        sections.append(
            f"==> {job}, {file.removesuffix('.log')}{cut} <==\n{clean(text[-LOG_CHARACTERS:]).rstrip()}\n"
        )
    if sections and len(keys) > MOST_LOGS:
        folder = store.location(keys[0].rpartition("/")[0])
        sections.append(f"{len(keys) - MOST_LOGS} more logs are in {folder}\n")
    return "\n".join(sections)


def rejection_kind(error: Exception) -> RejectionKind:
    """Which kind of rejection an error is."""
    if isinstance(error, LeaseHeld):
        return RejectionKind.BUSY
    if isinstance(error, (LeaseError, StoreError)):
        return RejectionKind.STORE
    return RejectionKind.ENGINE if isinstance(error, LaunchError) else RejectionKind.REQUEST


def outcome_json(
    outcome: GateOutcome, name: str, line: str = "", rejected: RejectionKind | None = None
) -> dict[str, object]:
    """The whole outcome of the gate with this name. Its form: deployments/schemas/result.schema.json.

    `line` and `rejected` are given of a gate that ended before it could be asked, else they follow from the outcome.
    """
    judged, training = outcome.judged, outcome.training
    if outcome.ending is Ending.REJECTED:
        rejected = rejected or RejectionKind.ENGINE
    return {
        "answer": judged.verdict.answer.value if judged else None,
        "decision": outcome.decision.value if outcome.decision else None,
        "first_line": line or first_line(outcome, name),
        "culprits": list(culprits(judged.verdict)) if judged else [],
        "reason": outcome.reason,
        "rejected": rejected.value if rejected else None,
        "gate_id": outcome.gate_id,
        "verdict": verdict_json(judged.verdict) if judged else None,
        "training": {
            "job_id": training.job_id if training else None,
            "state": training.state.value if training else None,
        },
        "placement": plain(outcome.placement),
        "left_out": dict(outcome.left_out),
        "approval": plain(outcome.answer),
        "report": outcome.report,
        "html": outcome.html,
        "cost": cost_json(judged.context.cost if judged else None),
        "images": images_json(judged.context.images) if judged else None,
    }


def unjudged_json(
    reason: str, line: str, gate_id: str = "", rejected: RejectionKind | None = None
) -> dict[str, object]:
    """The document is the outcome of a gate that ended before anything was judged. `line` is its first line."""
    return outcome_json(GateOutcome(gate_id, Ending.VERDICT, None, None, None, reason), "", line, rejected)
