"""Resumes the runs that wait for an answer which their gate's store has.

Nothing is remembered here: a run that is paused names its question (tasks.gate.approval.answers.pause_name), and the answer is in the
store before anything is tried. So an answer reaches its run after a restart of this process or of the server as well. A run whose
process waits, and one that has not paused yet when somebody answers, read the store themselves.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from checks.value_types import DecodeError
from tasks.gate.question import read_answer
from tasks.gate_file.read import GateFileError
from tasks.slackbot.config import ListedGate
from tasks.slackbot.prefect_client import NotStarted, PrefectError, PrefectRun, PrefectRuns
from tasks.store.base import StoreError

LOG = logging.getLogger("prelaunch.slack")
EVERY_S = 5.0


class AnswerDelivery:
    """One thread, which looks regularly, and at once after `wake`. Use `start` and `stop`."""

    def __init__(self, runs: PrefectRuns, gates: Sequence[ListedGate]) -> None:
        self._runs, self._gates = runs, gates
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="slack-handing-over", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def wake(self) -> None:
        """Look now: somebody has answered."""
        self._wake.set()

    def stop(self, patience_s: float) -> None:
        """End the thread. What waits is in the stores."""
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(patience_s)

    def _run(self) -> None:
        reported = set[str]()
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                problems = deliver_answers(self._runs, self._gates)
            except PrefectError as error:
                problems = {f"{error} Answers are stored, and will be delivered later."}
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                problems = {f"no answer could be delivered: {type(error).__name__}: {error}"}
            for problem in sorted(problems - reported):  # once for as long as it lasts
                LOG.error("%s", problem)
            reported = problems
            self._wake.wait(EVERY_S)


def deliver_answers(runs: PrefectRuns, gates: Sequence[ListedGate]) -> set[str]:
    """Resume every paused run of these gates whose question was answered; returns what failed. Raises PrefectUnreachable."""
    problems = set[str]()
    for run in runs.going(("PAUSED",)):
        for allowed in gates:
            if run.gate_file == allowed.file and run.question is not None:
                problems |= _deliver(runs, run, allowed, *run.question)
                break  # two gates of the list may have one file
    return problems


def _deliver(runs: PrefectRuns, run: PrefectRun, allowed: ListedGate, gate_id: str, key: str) -> set[str]:
    from tasks.gate.approval.answers import form_of

    try:
        answer = read_answer(allowed.store(), gate_id, key)
    except (GateFileError, StoreError, DecodeError) as error:
        return {f"the answer to {gate_id} cannot be read: {error}"}
    if answer is None:
        return set()
    try:
        refused = runs.resume(run.id, form_of(answer))
    except NotStarted as error:  # of this run alone
        refused = str(error)
    if refused:
        return {f"gate {gate_id}: Prefect refused to resume the run: {refused}"}
    LOG.info("gate %s: %s by %s; the run goes on", gate_id, answer.action.value, answer.who)
    return set()
