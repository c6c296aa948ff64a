"""The record of unbroken rounds that a watch keeps on its machine, for the gates that may skip checks because of it."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from checks.documents.open_findings import OpenFindings
from checks.facts.instances import Facts
from checks.judge.certificates.record import RecordState, WatchRound, after
from checks.model import Outcome
from checks.policy import Policy
from checks.process import machine_state
from checks.version import ENGINE
from checks.watch.rounds import RoundResult


class RecordFile:
    """The record of this process's rounds. Nothing of another process's rounds is continued: nobody saw what was in between."""

    def __init__(
        self, state: Path, boot_id: str, instance_type: str, policy: Policy, facts: Facts, interval_s: float
    ) -> None:
        self._folder, self._boot_id, self._interval_s = state, boot_id, interval_s
        self._instance_type = instance_type
        self._policy, self._facts = policy.digest, facts.digest
        self._number, self._began_boot_s = 0, 0.0
        self._state: RecordState | None = None
        self.lost()

    def begin(self) -> None:
        """Call it before each round."""
        self._number += 1
        self._began_boot_s = machine_state.boot_s()

    def end(self, result: RoundResult, findings: OpenFindings) -> None:
        """Call it after each round whose findings are on disk; `findings` are those that are open now. Raises OSError."""
        whole = result.in_time and all(row.outcome is Outcome.MEASURED for row in result.rows)
        seen = WatchRound(
            self._number, self._boot_id, self._instance_type, self._policy, self._facts, ENGINE, self._interval_s,
            time.time(), self._began_boot_s, machine_state.boot_s(),
            whole and not findings.open and not findings.omitted,
        )  # fmt: skip
        self._state = after(self._state, seen)
        machine_state.keep_record(self._folder, self._state.record)

    def lost(self) -> None:
        """The last round was lost: the next one begins a new record."""
        self._state = None
        with suppress(OSError):
            machine_state.keep_record(self._folder, None)
