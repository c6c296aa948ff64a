"""How a gate ended, as its store keeps it: gates/<gate id>/outcome.json."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from checks.documents.decode import decode, parse_json
from tasks.gate.outcome import Decision, Ending, end_mark
from tasks.gate.question import ApprovalAnswer
from tasks.launchers.base import JobState
from tasks.render.context import EndMark
from tasks.store.base import Store
from tasks.store.layout import outcome_key

OUTCOME_BYTES = 1 << 22
AT_ONCE = 16  # an outcome is a file of its own, and a store may be far away


@dataclass(frozen=True)
class KeptEnd:
    """What the store keeps of a gate's end: the decision, None if there was none; a person's answer; the training's state as the gate
    last saw it, and the node whose log says why it failed, "" where no single one does; how the gate ended and why; and its
    cluster, "" if an older version kept none.
    """

    decision: Decision | None
    answer: ApprovalAnswer | None
    training: JobState | None
    ending: Ending
    reason: str = ""
    cluster: str = ""
    node: str = ""

    @property
    def mark(self) -> EndMark | None:
        """How it ended, where that is less than its verdict let it do."""
        return end_mark(self.decision, self.ending)

    @property
    def failure(self) -> str:
        """That its training failed, and why; "" for every other end."""
        return f"{EndMark.TRAINING_FAILED}: {self.reason}" if self.mark is EndMark.TRAINING_FAILED else ""


def kept_end(store: Store, gate_id: str) -> KeptEnd | None:
    """How a gate ended; None where it did not end, or an older version kept something else. Raises StoreError."""
    try:
        data = store.get(outcome_key(gate_id))
        table = parse_json(data, OUTCOME_BYTES) if data is not None else None
        if not isinstance(table, dict):
            return None
        decision, answer, training = (table.get(key) for key in ("decision", "approval", "training"))
        return KeptEnd(
            None if decision is None else Decision(str(decision)),
            None if answer is None else decode(ApprovalAnswer, answer),
            JobState(str(training.get("state"))) if isinstance(training, dict) else None,
            Ending(table.get("ending", Ending.VERDICT.value)),
            str(table.get("reason") or ""),
            str(table.get("cluster") or ""),
            str(training.get("node") or "") if isinstance(training, dict) else "",
        )
    except ValueError:  # also DecodeError
        return None


def kept_ends(store: Store, gate_ids: Iterable[str]) -> dict[str, KeptEnd]:
    """How each of these gates ended, as far as it is known. Raises StoreError."""
    ids = list(gate_ids)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = zip(ids, pool.map(lambda gate_id: kept_end(store, gate_id), ids), strict=True)
        return {gate_id: end for gate_id, end in found if end is not None}


def end_marks(store: Store, gate_ids: Iterable[str]) -> dict[str, EndMark]:
    """The same for those that ended otherwise than their verdict says. Raises StoreError."""
    return {gate_id: end.mark for gate_id, end in kept_ends(store, gate_ids).items() if end.mark is not None}
