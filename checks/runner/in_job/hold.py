"""Nodes that wait for a person's approval before their command starts: all of them continue with one answer, or none does."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checks.documents.answer import ASKING, AnswerWord, GateAnswer, load_answer, wait_for_answer
from checks.documents.report import dump_plain
from checks.exit_codes import Exit
from checks.process.stderr import say
from checks.process.whole_file import write_whole
from checks.runner.barrier import OK, NodeBarrier
from checks.runner.deadline import WRITE_S
from checks.value_types import DecodeError


@dataclass(frozen=True)
class Refusal:
    """Why the command does not start, and the exit code that says the same."""

    code: int
    reason: str


# Each host looks for the answer by itself, every 15 s at the latest, and a store that throttles makes some of these fail
# (judgement). The barrier after the wait is open this much longer.
APART_S = 90.0
LOOK_S, NOTE_S = 2.0, 0.1


def hold(
    gate_id: str, attempt: str, out: Path, barrier: NodeBarrier, ask_s: float, question: str
) -> GateAnswer | Refusal:
    """A person's leave to launch, of which every host has seen an answer itself. Raises OSError."""
    objection = barrier.agree("asking", "", WRITE_S)
    if objection:
        reason = f"the approval was not requested, because not all hosts are waiting: {objection}"
        return Refusal(Exit.CANNOT_TELL, f"cannot_tell: {reason}")
    answer = _wait(gate_id, attempt, out, barrier, ask_s, question)
    if isinstance(answer, GateAnswer) and answer.word is AnswerWord.REFUSE:
        answer = _refused(answer, question)
    if isinstance(answer, Refusal):
        barrier.agree("answered", answer.reason)
        return answer
    return _agreed(gate_id, attempt, barrier, answer, question)


def _wait(
    gate_id: str, attempt: str, out: Path, barrier: NodeBarrier, ask_s: float, question: str
) -> GateAnswer | Refusal:
    """The answer that this host sees, or why it waits no more. out/<attempt>/asking/<node> is there meanwhile."""
    asking, reasons = out / attempt / ASKING / barrier.node, list[str]()
    say(f"{barrier.node} waits {ask_s:g} s for an approval: {question}")
    try:
        write_whole(asking, question.encode("utf-8", "replace") + b"\n")
        answer = wait_for_answer(out, gate_id, attempt, ask_s, say, _is_over(barrier, reasons))
    finally:
        asking.unlink(missing_ok=True)
    if answer is not None:
        return answer
    reason = reasons[0] if reasons else f"no approval was given within {ask_s:g} s: {question}"
    return Refusal(Exit.CANNOT_TELL if reason.startswith("cannot_tell") else Exit.NO_GO, reason)


def _is_over(barrier: NodeBarrier, reasons: list[str]) -> Callable[[], bool]:
    """Whether a host that a start needs has refused, or is no longer there; the reason is then among `reasons`.

    The first host stores the notes, so it watches all others, one at a time; the others watch the first one.
    """
    watched = barrier.members[1:] if barrier.rank == 0 else barrier.members[:1]
    turns, at = itertools.cycle(watched), 0.0

    def is_over() -> bool:
        nonlocal at
        if watched and time.monotonic() >= at:
            at = time.monotonic() + LOOK_S / len(watched)
            keys = [f"answered/{member.name}" for member in watched]
            notes = barrier.get_all(keys, time.monotonic() + NOTE_S * (barrier.rank > 0), alike=OK)
            reasons.extend(note for note in notes if note not in (None, OK))
            if barrier.has_left(member := next(turns)):
                reasons.append(f"cannot_tell: {member.name} no longer waits: its gate ended")
        return bool(reasons)

    return is_over


def _agreed(
    gate_id: str, attempt: str, barrier: NodeBarrier, own: GateAnswer, question: str
) -> GateAnswer | Refusal:
    """The first host's answer, once every host saw one. An answer that is given twice may differ in its time."""
    if barrier.rank == 0:
        barrier.put("answer", dump_plain(own).decode(), 0.0)
    objection = barrier.agree("answered", "", APART_S)
    text = None if objection else barrier.get("answer", time.monotonic() + barrier.network_s)
    if text is None:
        reason = f"the hosts did not see the same answer: {objection or 'the first host lost it'}"
        return Refusal(Exit.CANNOT_TELL, f"cannot_tell: {reason}")
    try:
        first = load_answer(text.encode(), gate_id, attempt)
    except DecodeError as error:
        return Refusal(Exit.CANNOT_TELL, f"cannot_tell: the first host's answer cannot be read: {error}")
    return first if first.word is AnswerWord.LAUNCH else _refused(first, question)


def _refused(answer: GateAnswer, question: str) -> Refusal:
    return Refusal(Exit.NO_GO, f"refused by {answer.by}: {answer.why} ({question})")
