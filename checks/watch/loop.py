"""`watch`: rounds at an interval until it is stopped; after each one the open findings and the metrics are brought up to date."""

from __future__ import annotations

import argparse
import errno
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread

from checks.command_line import PlaceError
from checks.documents.open_findings import OpenFinding, OpenFindings
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.facts.instances import Facts
from checks.judge.certificates.record import RecordState, WatchRound
from checks.judge.certificates.record import after as continued
from checks.judge.open_findings.update import after_round
from checks.model import Outcome
from checks.policy import Policy
from checks.process import machine_state
from checks.process.stderr import log, say
from checks.process.whole_file import write_whole
from checks.runner.single_node import declare, read_policy
from checks.value_types import DecodeError
from checks.version import ENGINE
from checks.watch.exposition import GROWN, WatchNumbers, exposition, read
from checks.watch.families import CONTENT_TYPE
from checks.watch.rounds import RoundResult, Rounds
from checks.watch.server import METRICS, Page, PageServer, address_of

TEXTFILE = "prelaunch.prom"
# How many seconds a round may take.
DEADLINE_S = 45.0


class RecordFile:
    """The record of unbroken rounds that a watch keeps on its machine, for the gates that may skip checks because of it. Nothing of
    another process's rounds is continued: nobody saw what was in between.
    """

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
        whole = result.in_time and all(entry.outcome is Outcome.MEASURED for entry in result.observations)
        watch_round = WatchRound(
            self._number, self._boot_id, self._instance_type, self._policy, self._facts, ENGINE, self._interval_s,
            time.time(), self._began_boot_s, machine_state.boot_s(),
            whole and not findings.open and not findings.omitted,
        )  # fmt: skip
        self._state = continued(self._state, watch_round)
        machine_state.keep_record(self._folder, self._state.record)

    def lost(self) -> None:
        """The last round was lost: the next one begins a new record."""
        self._state = None
        with suppress(OSError):
            machine_state.keep_record(self._folder, None)


def run(arguments: argparse.Namespace) -> int:
    """Rounds until a signal ends them, or as many as --rounds says. Raises PlaceError for what cannot be watched."""
    state = machine_state.folder()
    declared = declare(arguments.instance_type, 1, builtin())
    policy = read_policy(arguments.policy, declared)
    try:
        _, findings = machine_state.change(state, lambda findings: findings)
        rounds = Rounds(state, declared, policy, DEADLINE_S)
    except DecodeError as error:
        file = state / machine_state.FINDINGS
        raise PlaceError(
            f"{file} cannot be read: {error}. Mend it, or move it away and run a gate."
        ) from error
    except OSError as error:
        fault = f"{error.filename or state}: {error.strerror}"
        raise PlaceError(f"{fault}. Set {machine_state.VARIABLE} to a folder that can be written.") from error
    if not rounds.required:
        raise PlaceError(
            f"the policy {policy.name} has no check that is safe beside a job: nothing would be watched."
        )
    numbers = WatchNumbers(
        declared.instance_type, declared.gpus_per_node, arguments.every, rounds.required, findings
    )
    pages = dict[str, Page]()
    _publish(numbers, pages)
    server = _serve(arguments.listen, pages)
    record = RecordFile(
        state, rounds.boot_id, declared.instance_type, policy, builtin().merged(declared), arguments.every
    )
    rounds_made = 0
    try:
        while not arguments.rounds or rounds_made < arguments.rounds:
            begun = time.monotonic()
            try:
                _once(rounds, numbers, state, record)
            except (OSError, DecodeError) as error:
                record.lost()
                # The time of the last round stays as it was, which is what shows outside that this watch sees nothing.
                log(f"this round is lost: {error}")
            _publish(numbers, pages)
            if arguments.textfile:
                _write(arguments.textfile, pages[METRICS][1])
            rounds_made += 1
            if not arguments.rounds or rounds_made < arguments.rounds:
                time.sleep(max(0.0, begun + arguments.every - time.monotonic()))
    finally:
        if server is not None:
            server.server_close()
    return Exit.GO


def _publish(numbers: WatchNumbers, pages: dict[str, Page]) -> None:
    """Makes the page of metrics anew."""
    pages[METRICS] = CONTENT_TYPE, exposition(numbers).encode()


def _serve(listen: str, pages: Mapping[str, Page]) -> PageServer | None:
    if not listen:
        return None
    try:
        server = PageServer(address_of(listen), pages.get)
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise PlaceError(f"--listen {listen}: {problem}.") from error
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def _once(rounds: Rounds, numbers: WatchNumbers, state: Path, record: RecordFile) -> None:
    record.begin()
    result = rounds.make_round()
    try:
        before, after = machine_state.change(
            state, lambda current: after_round(current, result.machine), numbers.findings
        )
    except (OSError, DecodeError):
        # What was found is shown all the same.
        numbers.findings = after_round(numbers.findings, result.machine)
        raise
    for family, labels, grown in read(GROWN, result.observations):
        numbers.totals[family, labels] += max(int(grown), 0)
    numbers.in_time, numbers.late = numbers.in_time + result.in_time, numbers.late + (not result.in_time)
    numbers.findings, numbers.last = after, result
    _announce(before, after, result)
    record.end(result, after)


def _announce(before: OpenFindings, after: OpenFindings, result: RoundResult) -> None:
    for finding in opened(before, after):
        key = finding.key
        subject = f"{key.check} {key.part}" if key.part else key.check
        log(f"opened {finding.level.value} {key.cause.value} {subject}: {finding.message}")
    closings = sum(after.closed_total.values()) - sum(before.closed_total.values())
    for done in after.closed[-closings:] if closings else ():
        log(f"closed {done.finding.key.name} ({done.closer.value})")
    if not result.in_time:
        missing = sum(not observation.metrics for observation in result.observations)
        log(f"the round was ended at its deadline; {missing} checks are missing")


def opened(before: OpenFindings, after: OpenFindings) -> list[OpenFinding]:
    """The findings that are open now and were not before."""
    before_keys = {finding.key for finding in before.open}
    return [finding for finding in after.open if finding.key not in before_keys]


def _write(folder: Path, data: bytes) -> None:
    """The textfile of node_exporter's collector, replaced as a whole. A folder that is not there is not made: nobody would read it."""
    try:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is no folder", str(folder))
        write_whole(folder / TEXTFILE, data, machine_state.READABLE)
    except OSError as error:
        say(f"checks: {error.filename or folder / TEXTFILE}: {error.strerror}")
