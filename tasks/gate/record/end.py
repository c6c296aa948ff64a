"""How a gate ended, as its store keeps it: gates/<gate id>/outcome.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from checks.documents.decode import decode
from checks.model import ANSWER_WORDS, Answer, Verdict
from tasks.gate.outcome import (
    Decision,
    Ending,
    GateOutcome,
    JudgedReport,
    Training,
    end_mark,
    with_ending,
    without_training,
)
from tasks.gate.question import ApprovalAnswer
from tasks.launchers.base import JobState
from tasks.render.context import EndMark
from tasks.reports.gate_folder.decision import outcome_beside, requested_launch
from tasks.reports.read import JudgedFile
from tasks.store.base import Store, table_at
from tasks.store.layout import outcome_key
from tasks.text.inert import one_line

OUTCOME_BYTES = 1 << 22
AT_ONCE = 16  # an outcome is a file of its own, and a store may be far away


@dataclass(frozen=True)
class KeptEnd:
    """What the store keeps of a gate's end: the decision, None if there was none; a person's answer; the training's state as the gate
    last saw it, and the node whose log says why it failed, "" where no single one does; how the gate ended and why; and its
    cluster, "" if an older version kept none. `verdict_answer` is the answer of the verdict with which it ended, None without one.
    """

    decision: Decision | None
    answer: ApprovalAnswer | None
    training: JobState | None
    ending: Ending
    reason: str = ""
    cluster: str = ""
    node: str = ""
    gate_id: str = ""
    verdict_answer: Answer | None = None

    @property
    def mark(self) -> EndMark | None:
        """How it ended, where that is less than its verdict let it do."""
        return end_mark(self.decision, self.ending)

    @property
    def failure(self) -> str:
        """The text says that the gate's training failed, and why. It is empty for every other end."""
        return f"{EndMark.TRAINING_FAILED}: {self.reason}" if self.mark is EndMark.TRAINING_FAILED else ""


def kept_end(store: Store, gate_id: str) -> KeptEnd | None:
    """How a gate ended; None where it did not end, or an older version kept something else. Raises StoreError."""
    table = table_at(store, outcome_key(gate_id), OUTCOME_BYTES)
    return None if table is None else _end_in(table)


def _end_in(table: Mapping[str, object]) -> KeptEnd | None:
    try:
        judged = table.get("answer")
        decision, answer, training = (table.get(key) for key in ("decision", "approval", "training"))
        return KeptEnd(
            None if decision is None else Decision(str(decision)),
            None if answer is None else decode(ApprovalAnswer, answer),
            JobState(str(training.get("state"))) if isinstance(training, dict) else None,
            Ending(table.get("ending", Ending.VERDICT.value)),
            str(table.get("reason") or ""),
            str(table.get("cluster") or ""),
            str(training.get("node") or "") if isinstance(training, dict) else "",
            str(table.get("gate_id") or ""),
            None if judged is None else Answer(str(judged)),
        )
    except ValueError:  # also DecodeError
        return None


def kept_ends(store: Store, gate_ids: Iterable[str]) -> dict[str, KeptEnd]:
    """How each of these gates ended, as far as it is known. Raises StoreError."""
    ids = list(gate_ids)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = zip(ids, pool.map(lambda gate_id: kept_end(store, gate_id), ids), strict=True)
        return {gate_id: end for gate_id, end in ends if end is not None}


def end_marks(store: Store, gate_ids: Iterable[str]) -> dict[str, EndMark]:
    """The result holds the mark of each gate that ended otherwise than its verdict says. Raises StoreError."""
    return {gate_id: end.mark for gate_id, end in kept_ends(store, gate_ids).items() if end.mark is not None}


def with_kept_end(file: JudgedFile) -> JudgedFile:
    """The returned page begins with how the gate ended, where outcome.json beside the report says that. The file is data. It is not
    believed if it cannot be read, is another gate's, or says more than the verdict allows, and the page says so.
    """
    gate, report = file.record, file.report
    table = outcome_beside(Path(gate.folder)) if gate is not None and gate.verdict is not None else None
    if table is None or gate is None or report is None:
        return file
    end, folder = _end_in(table) if table else None, Path(gate.folder)
    problem = _problem(end, file.verdict, (folder.name, report.gate_id), file.is_kept)
    if end is None or problem:
        sentence = f"How the gate ended is not known: outcome.json beside the report {problem}."
        return _with_context(file, own_decision=_joined(file, sentence))
    if not file.is_kept:
        sentence = f"The gate itself ended as {end.mark}: {one_line(end.reason, 600)}" if end.mark else ""
        return _with_context(file, own_decision=_joined(file, sentence))
    answer_name = ANSWER_WORDS[end.verdict_answer or Answer.CANNOT_TELL]
    if end.mark is None and "answer" in table and end.verdict_answer is not file.verdict.answer:
        # Its nodes were checked again, or its verdict could not be kept: it ended with another one.
        first_line = f"{answer_name} {one_line(file.name, 80)}: {end.reason}"
        return _with_context(file, first_line=first_line, failed=end.reason or answer_name)
    training = None if end.training is None else Training("", end.training)
    judged = JudgedReport(report, file.verdict, context=file.context)
    launches = requested_launch(folder)
    outcome = GateOutcome(
        end.gate_id, end.ending, end.decision, judged, training, end.reason, answer=end.answer
    )
    ended = with_ending(without_training(outcome, launches, launches), file.name)
    return replace(file, context=ended.judged.context if ended.judged else file.context)


def _problem(end: KeptEnd | None, verdict: Verdict, gates: tuple[str, ...], is_kept: bool) -> str:
    """Why the end is not believed, "" if it is."""
    if end is None:
        return "cannot be read"
    if end.gate_id not in gates:
        return f"is of another gate ({one_line(end.gate_id, 100) or 'without a name'})"
    approved = end.answer is not None and end.answer.launches
    launched = end.decision in (Decision.LAUNCHED, Decision.PASSED) and end.ending is Ending.VERDICT
    overrode = end.decision is Decision.OVERRIDDEN and not approved
    other = is_kept and end.verdict_answer is Answer.GO
    contradicts = verdict.answer is not Answer.GO and ((launched and not approved) or overrode or other)
    return "contradicts the verdict" if is_kept and contradicts else ""


def _joined(file: JudgedFile, sentence: str) -> str:
    return " ".join(filter(None, (file.context.own_decision, sentence)))


def _with_context(file: JudgedFile, **changes: str) -> JudgedFile:
    return replace(file, context=replace(file.context, **changes))  # type: ignore[arg-type]
