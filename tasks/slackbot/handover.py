"""Hands answers to the runs that wait for them: it resumes them, again and again until the question's deadline.

The answer itself is in the gate's store before anything is tried here. handing-over/<gate id>/<key>.json beside it records that
somebody still has to resume the run, so that a restart of this process forgets nobody.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from checks.documents.decode import decode, parse_json
from checks.documents.report import dump_plain
from checks.value_types import DecodeError
from tasks.gate.question import ApprovalAnswer
from tasks.gate_file.read import GateFileError
from tasks.slackbot.answer_check import Named, NotAnswerable, Open, answer_of, belongs, find
from tasks.slackbot.config import Allowed
from tasks.slackbot.prefect_client import PrefectError, Runs, Unreachable
from tasks.store.base import Store, StoreError
from tasks.store.layout import HANDING_OVER, handing_over_key

LOG = logging.getLogger("prelaunch.slack")
EVERY_S = 3.0
# Between the message with the buttons and the pause itself: a click may be quicker than the run.
SETTLES_S = 60.0
FILE_BYTES = 1 << 16


@dataclass(frozen=True)
class Waiting:
    """An answer that has not reached its run yet."""

    found: Open
    answer: ApprovalAnswer


class AnswerDelivery:
    """One thread; `add` wakes it. Use `start` and `stop`."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._waiting: dict[tuple[str, str], Waiting] = {}
        self._said: set[tuple[str, str]] = set()
        self._lock, self._wake, self._stopped = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="slack-handing-over", daemon=True)

    def start(self, gates: Sequence[Allowed]) -> None:
        """Go on with what an earlier process left, then wait for more."""
        for found in left(gates):
            try:
                answer = answer_of(found)
            except NotAnswerable as error:
                LOG.error("an earlier answer was not delivered: %s", error)
                continue
            if answer is None:
                forget(found)
            else:
                self.add(found, answer)
        self._thread.start()

    def add(self, found: Open, answer: ApprovalAnswer) -> None:
        """Hand the answer over as soon as possible."""
        with self._lock:
            self._waiting[(answer.gate_id, answer.key)] = Waiting(found, answer)
        self._wake.set()

    @property
    def waiting(self) -> int:
        """How many answers have not reached their runs."""
        with self._lock:
            return len(self._waiting)

    def stop(self, patience_s: float) -> None:
        """End the thread. What waits is in the stores."""
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(patience_s)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.wait(EVERY_S if self.waiting else None)
            self._wake.clear()
            with self._lock:
                now = list(self._waiting.items())
            for key, waiting in now:
                if self._stopped.is_set():
                    return
                if self._tried(key, waiting):
                    forget(waiting.found)
                    with self._lock:
                        self._waiting.pop(key, None)

    def _tried(self, key: tuple[str, str], waiting: Waiting) -> bool:
        try:
            return hand_over(self._runs, waiting)
        except Unreachable as error:
            if key not in self._said:
                self._said.add(key)
                LOG.warning("gate %s: %s The answer is stored and will be delivered later.", key[0], error)
            return False
        except Exception as error:  # noqa: BLE001 - one answer that fails must not hold up the others
            LOG.error("gate %s: the answer was not delivered: %s: %s", key[0], type(error).__name__, error)
            return _is_over(waiting)


def hand_over(runs: Runs, waiting: Waiting) -> bool:
    """Try once to hand over the answer. Returns whether nothing is left to do. Raises Unreachable before the deadline."""
    from tasks.gate.approval.answers import keyset_of

    question, answer = waiting.found.question, waiting.answer
    try:
        run = runs.run(question.flow_run_id)
        if run is None or run.over or not belongs(run, waiting.found):
            said = "is unknown" if run is None else "has ended" if run.over else "is of another gate file"
            LOG.warning("gate %s: nobody waits for the answer: the run %s", question.gate_id, said)
            return True
        if run.form != keyset_of(question.key)["schema"]:
            # A run that goes on has read the answer in the store itself; one that has not paused yet will soon.
            return time.time() - answer.at > SETTLES_S
        refused = runs.resume(question.flow_run_id, form_of(answer))
    except PrefectError:
        if not _is_over(waiting):
            raise
        LOG.error("gate %s: the deadline passed before the answer reached the run", question.gate_id)
        return True
    if refused:
        LOG.error("gate %s: Prefect refused to resume the run: %s", question.gate_id, refused)
        return _is_over(waiting)
    LOG.info("gate %s: %s by %s; the run goes on", question.gate_id, answer.action.value, answer.who)
    return True


def form_of(answer: ApprovalAnswer) -> dict[str, object]:
    """The answer in the fields of Prefect's own form (tasks.gate.approval.answers), which the server holds against its schema."""
    from tasks.gate.approval.answers import GateDecision

    values = {"action": answer.action.value, "reason": answer.reason, "approver": answer.who}
    return {name: value for name, value in values.items() if name in GateDecision.model_fields}


def note(found: Open) -> None:
    """Record in the store that the run has to be resumed; this is written before the answer. Raises StoreError."""
    named = {"gate_id": found.question.gate_id, "key": found.question.key}
    found.store.put(_place(found), dump_plain({**named, "flow_run_id": found.question.flow_run_id}))


def forget(found: Open) -> None:
    """Record that nobody has to resume the run any more. If that cannot be written, the next start looks again."""
    try:
        found.store.delete(_place(found))
    except StoreError as error:
        LOG.warning("%s could not be removed: %s", _place(found), error)


def left(gates: Sequence[Allowed]) -> list[Open]:
    """What earlier processes did not finish, in the stores of all gates. Unreadable entries are logged."""
    found: dict[tuple[str, str], Open] = {}
    for allowed in gates:
        try:
            store = allowed.store()
            named = [_read(store, key) for key in store.list(HANDING_OVER)]
        except (GateFileError, StoreError, DecodeError) as error:
            LOG.error("the store of gate %s cannot be asked for answers that wait: %s", allowed.name, error)
            continue
        for one in named:
            try:
                if one is not None:
                    found.setdefault((one.gate_id, one.key), find(gates, one))
            except NotAnswerable as error:
                LOG.warning("gate %s: an earlier answer was not delivered: %s", one and one.gate_id, error)
    return list(found.values())


def _read(store: Store, key: str) -> Named | None:
    data = store.get(key)
    return None if data is None else decode(Named, parse_json(data, FILE_BYTES))


def _place(found: Open) -> str:
    return handing_over_key(found.question.gate_id, found.question.key)


def _is_over(waiting: Waiting) -> bool:
    return time.time() >= waiting.found.question.deadline
