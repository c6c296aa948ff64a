"""Nodes that wait for a person's approval before their command starts: all of them continue with one answer, or none does."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from checks.documents.answer import ASKING, AnswerWord, GateAnswer, load_answer, wait_for_answer
from checks.documents.report import dump_plain
from checks.exchange.authentication import Op
from checks.exchange.exchange import ExchangeError, ask
from checks.exit_codes import Exit
from checks.process.stderr import say
from checks.process.whole_file import write_whole
from checks.roster import Member
from checks.runner.barrier import NodeBarrier
from checks.runner.deadline import WRITE_S
from checks.runner.node_context import NodeContext
from checks.value_types import DecodeError


@dataclass(frozen=True)
class Refusal:
    """Why the command does not start, and the exit code that says the same."""

    code: int
    reason: str


# Each host looks for the answer by itself, every 15 s at the latest, and a store that throttles makes some of these fail
# (judgement). The barrier after the wait is open this much longer.
APART_S = 90.0
LOOK_S, HELLO_S = 2.0, 1.0
GONE_AFTER = 3


def hold(
    node_context: NodeContext, attempt: str, out: Path, barrier: NodeBarrier, ask_s: float, question: str
) -> GateAnswer | Refusal:
    """A person's leave to launch, of which every host has seen an answer itself. Raises OSError."""
    why = barrier.agree("asking", "", WRITE_S)
    if why:
        return Refusal(
            Exit.CANNOT_TELL,
            f"cannot_tell: the approval was not requested, because not all hosts are waiting: {why}",
        )
    found = _wait(node_context, attempt, out, barrier, ask_s, question)
    if isinstance(found, GateAnswer) and found.word is AnswerWord.REFUSE:
        found = _refused(found, question)
    if isinstance(found, Refusal):
        barrier.agree("answered", found.reason)
        return found
    return _agreed(node_context, attempt, barrier, found, question)


def _wait(
    node_context: NodeContext, attempt: str, out: Path, barrier: NodeBarrier, ask_s: float, question: str
) -> GateAnswer | Refusal:
    """The answer that this host sees, or why it waits no more. out/<attempt>/asking/<node> is there meanwhile."""
    asking, peers = out / attempt / ASKING / node_context.node, _Peers(node_context, barrier)
    say(f"{node_context.node} waits {ask_s:g} s for an approval: {question}")
    try:
        write_whole(asking, question.encode("utf-8", "replace") + b"\n")
        found = wait_for_answer(out, node_context.bundle.gate_id, attempt, ask_s, say, peers.gone)
    finally:
        asking.unlink(missing_ok=True)
    if found is not None:
        return found
    if peers.refusal is not None:
        return peers.refusal
    return Refusal(Exit.NO_GO, f"no approval was given within {ask_s:g} s: {question}")


def _agreed(
    node_context: NodeContext, attempt: str, barrier: NodeBarrier, own: GateAnswer, question: str
) -> GateAnswer | Refusal:
    """The first host's answer, once every host saw one. An answer that is given twice may differ in its time."""
    deadline = time.monotonic() + node_context.bundle.network_s
    if node_context.node_rank == 0:
        barrier.put("answer", dump_plain(own).decode(), deadline)
    why = barrier.agree("answered", "", APART_S)
    text = None if why else barrier.get("answer", time.monotonic() + node_context.bundle.network_s)
    if text is None:
        said = f"the hosts did not see the same answer: {why or 'the first host lost it'}"
        return Refusal(Exit.CANNOT_TELL, f"cannot_tell: {said}")
    try:
        first = load_answer(text.encode(), node_context.bundle.gate_id, attempt)
    except DecodeError as error:
        return Refusal(Exit.CANNOT_TELL, f"cannot_tell: the first host's answer cannot be read: {error}")
    return first if first.word is AnswerWord.LAUNCH else _refused(first, question)


def _refused(answer: GateAnswer, question: str) -> Refusal:
    return Refusal(Exit.NO_GO, f"refused by {answer.by}: {answer.why} ({question})")


class _Peers:
    """Watches whether the hosts that are needed for a start still wait. `refusal` says why waiting is over."""

    def __init__(self, node_context: NodeContext, barrier: NodeBarrier) -> None:
        members = node_context.roster.members
        # The first host stores the notes, so it watches all others, one at a time; the others watch the first.
        self._members = members[1:] if node_context.node_rank == 0 else members[:1]
        self._names = tuple(member.name for member in members if member.name != node_context.node)
        self._access, self._barrier, self._first = node_context.access, barrier, node_context.node_rank == 0
        self._next, self._at = 0, 0.0
        self._silent: dict[str, int] = {}
        self.refusal: Refusal | None = None

    def gone(self) -> bool:
        """Whether a host refused, or is no longer there."""
        if self._members and time.monotonic() >= self._at:
            self._at = time.monotonic() + LOOK_S / len(self._members)
            self._look(self._members[self._next % len(self._members)])
            self._next += 1
        return self.refusal is not None

    def _look(self, member: Member) -> None:
        try:
            note = ask(member, self._access, Op.GET, HELLO_S, key=f"answered/{member.name}", wait_ms=0).get(
                "value"
            )
            self._silent[member.name] = 0
        except ExchangeError as error:
            self._silent[member.name] = self._silent.get(member.name, 0) + error.refused
            note = None
        if self._first:  # all notes of the others are stored here
            notes = (self._barrier.responder.get(f"answered/{name}", 0.0) for name in self._names)
            note = next((said for said in notes if said not in (None, "ok")), None)
        if isinstance(note, str) and note != "ok":
            code = Exit.CANNOT_TELL if note.startswith("cannot_tell") else Exit.NO_GO
            self.refusal = Refusal(code, note)
        elif self._silent[member.name] >= GONE_AFTER:
            said = f"cannot_tell: {member.name} no longer waits: its gate ended"
            self.refusal = Refusal(Exit.CANNOT_TELL, said)
