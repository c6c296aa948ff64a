"""Merges all hosts' reports into one report on the first host, with the verdict for all of them.

It runs in a thread of its own: if a command follows the checks, the merge happens while the command runs. It always ends: a host
that does not deliver in time, or whose agent is gone, is missing, and the report says so.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checks.bundle import Bundle
from checks.documents import report as reports
from checks.exchange.authentication import Op
from checks.exchange.exchange import ExchangeError, ask
from checks.exchange.secret_key import Access
from checks.exit_codes import EXIT_CODES, Exit
from checks.merge import merge
from checks.model import Verdict
from checks.process.whole_file import write_whole
from checks.roster import Member
from checks.runner.deadline import ANSWER_S
from checks.runner.journal import now
from container.agent.hosts.roll_call import AttemptMembers, RollCallResponder

NAME = "health_check_metrics.json"
POLL_S = 0.2
ASK_S = 3.0
GONE_AFTER = 3
LINGER_S = 5.0


@dataclass(frozen=True)
class Answer:
    """The result of the attempt: the exit code of the verdict, and its first finding for people."""

    code: int
    said: str


@dataclass(frozen=True)
class Attempt:
    """One attempt as this host sees it. `members` are the agents that answered the roll call."""

    bundle: Bundle
    token: str
    node: str
    names: tuple[str, ...]
    members: tuple[Member, ...]
    responder: RollCallResponder
    access: Access
    joined: AttemptMembers
    out: Path

    @property
    def keeps(self) -> bool:
        """Whether this host merges: the first one, or one that found itself alone."""
        return self.node == self.members[0].name

    @property
    def folder(self) -> Path:
        """Where this attempt's files lie."""
        return self.out / self.token


class Settlement:
    """Delivers this host's report, or collects all. `finish` says that the child has ended, and how.

    `whole` is called once the report grows no more, with a command after the checks while that runs.
    """

    def __init__(self, attempt: Attempt, whole: Callable[[], None] = lambda: None) -> None:
        self._attempt, self._whole = attempt, whole
        self._begun, self._begun_at = now(), time.monotonic()
        self._ended = threading.Event()
        self._hurry = threading.Event()
        self._last_words = ""
        self.answer: Answer | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self, last_words: str) -> None:
        """Record that the child ended; `last_words` say how if it failed."""
        self._last_words = last_words
        self._ended.set()

    def wait(self, until: Callable[[], bool]) -> Answer:
        """Wait for the answer while `until` is false; without one by then the result is CANNOT TELL."""
        while self._thread.is_alive() and not until():
            self._thread.join(POLL_S)
        self._hurry.set()
        self._thread.join(LINGER_S)
        return self.answer or Answer(
            Exit.CANNOT_TELL, "cannot_tell: the reports of all hosts did not come together"
        )

    def _run(self) -> None:
        attempt = self._attempt
        path = attempt.folder / "nodes" / f"{attempt.node}.json"
        verdict = attempt.folder / "verdicts" / path.name  # the gate leaves it once its report is whole
        while not self._ended.wait(POLL_S) and not verdict.exists():
            continue
        if not path.exists() and (attempt.folder / "started" / attempt.node).exists():
            return  # the proven machines were confirmed: nothing was checked
        self._whole()
        note = json.dumps({"report": _text(path), "last_words": self._last_words})
        if attempt.keeps:
            attempt.responder.put(self._key(attempt.node), note)
            self._collect()
        else:
            self._deliver(note)

    def _spoken(self, answer: Answer) -> dict[str, object]:
        """The answer as a line of the log, which is the last channel if neither disk nor S3 works."""
        ids = {"gate_id": self._attempt.bundle.gate_id, "attempt": self._attempt.token}
        return {**ids, "exit_code": answer.code, "said": answer.said}

    def _key(self, node: str) -> str:
        return f"{self._attempt.token}/report/{node}"

    @property
    def _patience_s(self) -> float:
        """How long the others are waited for: no longer than the checks' deadline, and the time to start them, leave."""
        bundle = self._attempt.bundle
        left_s = self._begun_at + bundle.deadline_s + ANSWER_S - time.monotonic()
        return min(bundle.network_s + bundle.stage_s, max(left_s, LINGER_S))

    def _deliver(self, note: str) -> None:
        attempt = self._attempt
        first, access = attempt.members[0], attempt.access
        delivered, refused, until = False, 0, time.monotonic() + self._patience_s
        while refused < GONE_AFTER and time.monotonic() < until and not self._hurry.is_set():
            try:
                if not delivered:
                    said = ask(first, access, Op.PUT, ASK_S, key=self._key(attempt.node), value=note)
                    delivered = said.get("ok") is True
                said = ask(first, access, Op.GET, 2 * ASK_S, key=f"{attempt.token}/verdict", wait_ms=1000)
                refused = 0
            except ExchangeError as error:
                refused += error.refused
                time.sleep(POLL_S * 2)
                continue
            if isinstance(text := said.get("value"), str):
                self.answer = _read_answer(text)
                ask_quietly(first, access, f"{attempt.token}/seen/{attempt.node}")
                return

    def _collect(self) -> None:
        attempt = self._attempt
        missing = _Missing(attempt, self._patience_s)
        while missing.any(lambda member: self._key(member.name) in attempt.responder.notes):
            if self._hurry.wait(POLL_S):
                break
        notes = {
            member.name: attempt.responder.notes.get(self._key(member.name), "") for member in attempt.members
        }
        try:
            self.answer = answer_of(write_merged(attempt, notes, self._begun))
        except OSError as error:
            said = f"cannot_tell: {attempt.folder / NAME} cannot be written: {error.strerror or error}"
            self.answer = Answer(Exit.CANNOT_TELL, said)
        print(f"PRELAUNCH_VERDICT {json.dumps(self._spoken(self.answer))}", flush=True)
        attempt.responder.put(f"{attempt.token}/verdict", json.dumps(dataclasses.asdict(self.answer)))
        others = [member for member in attempt.members if member.name != attempt.node and notes[member.name]]
        until = time.monotonic() + LINGER_S
        seen = [f"{attempt.token}/seen/{member.name}" for member in others]
        while time.monotonic() < until and not all(key in attempt.responder.notes for key in seen):
            time.sleep(POLL_S / 2)


class _Missing:
    """The hosts that have not delivered. A host whose agent refuses connections is gone, and nobody waits for it."""

    def __init__(self, attempt: Attempt, patience_s: float) -> None:
        self._attempt, self._until = attempt, time.monotonic() + patience_s
        self._refused: dict[str, int] = {}

    def any(self, delivered: Callable[[Member], bool]) -> bool:
        """Whether waiting longer makes sense."""
        late = [m for m in self._attempt.members if not delivered(m) and not self._gone(m)]
        for member in late[:8]:
            try:
                ask(member, self._attempt.access, Op.HELLO, 1.0)
                self._refused[member.name] = 0
            except ExchangeError as error:
                self._refused[member.name] = self._refused.get(member.name, 0) + (error.refused)
        return bool(late) and time.monotonic() < self._until

    def _gone(self, member: Member) -> bool:
        return self._refused.get(member.name, 0) >= GONE_AFTER


def write_merged(attempt: Attempt, notes: dict[str, str], begun: str) -> Verdict:
    """Merge, write the report, and judge it. Raises OSError."""
    files, words = {}, []
    for name in attempt.names:
        text, last = _read_note(notes.get(name, ""))
        if text:
            files[name] = text.encode()
        if name not in attempt.joined.members:
            words.append(f"{name}: it did not answer the roll call")
        elif last or not text:
            words.append(f"{name}: {last or 'it delivered no report'}"[:500])
    if attempt.joined.alone:
        words.append(f"{attempt.node}: {attempt.joined.alone}"[:500])
    merged = merge(attempt.bundle, attempt.token, files, begun)
    merged = dataclasses.replace(merged, collection=(*merged.collection, *words))
    data = reports.dump(merged)
    write_whole(attempt.folder / NAME, data)
    if not attempt.joined.alone:
        write_whole(attempt.out / NAME, data)
    # One host judges; the others, and a command without checks, need not import all that judges.
    from checks.facts.builtin import builtin
    from checks.judge.verdict import decide

    return decide(merged, attempt.bundle.policy, builtin())


def answer_of(verdict: Verdict) -> Answer:
    """The exit code of a verdict, and a line for people."""
    first = verdict.findings[0] if verdict.findings else None
    said = f"{first.subject}: {first.check}: {first.message}" if first else "nothing was found"
    return Answer(EXIT_CODES[verdict.answer], f"{verdict.answer.value}: {said}"[:900])


def ask_quietly(first: Member, access: Access, key: str) -> None:
    """Leave a note that nothing depends on."""
    try:
        ask(first, access, Op.PUT, ASK_S, key=key, value="ok")
    except ExchangeError:
        return


def _read_answer(text: str) -> Answer | None:
    try:
        value = json.loads(text)
        code, said = value["code"], value["said"]
    except (ValueError, TypeError, KeyError):
        return None
    return Answer(code, str(said)) if type(code) is int and code in EXIT_CODES.values() else None


def _read_note(text: str) -> tuple[str, str]:
    try:
        value = json.loads(text)
        return str(value["report"]), str(value["last_words"])
    except (ValueError, TypeError, KeyError):
        return "", ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
