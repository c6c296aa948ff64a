"""Looks after one local job from its start to its end: python -m tasks.launchers.local.shepherd JOBFOLDER

There are two processes, so that no single SIGKILL leaves anything behind. The guard only waits: when the shepherd dies
before the job ended, all that the shepherd started becomes the guard's, which ends it and records FAILED. The shepherd
starts the nodes, enforces the maximum runtime and writes state.json; when the guard dies it ends the job. It also ends a training that
failed on one node, some time later: the ranks of the others may wait for those of that node for ever.
Each node's command dies with the shepherd, too. Exit codes: 0 done, 75 the job has a shepherd already.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import sys
import time
import traceback
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from checks.process.tree import become_subreaper, die_with_parent, end_children, how_it_ended, reap
from checks.runner.in_job.spares import next_attempt
from tasks.launchers.base import JobState, JobStatus
from tasks.launchers.local import container
from tasks.launchers.local import network as local_network
from tasks.launchers.local.job_folder import JobFolder, Submission
from tasks.launchers.local.network import NetworkError
from tasks.launchers.local.nodes import WITHHELD, RunningNode, node_environment, write_roster
from tasks.text.tables import counted

BUSY = 75
ENDS = (signal.SIGTERM, signal.SIGINT)
LOG_END_S = 2.0
LONGEST_SLEEP_S = 3600.0
# A node says that its training begins with a file, for which nothing wakes this process.
STARTED_POLL_S = 1.0
CANCELLED = "cancelled"
MOST_NAMED = 4
FINAL_TRIES_S = 2.0


def main(argv: Sequence[str]) -> int:
    """Return at the end of the job, in the guard."""
    folder = JobFolder(Path(argv[0]))
    with folder.life() as mine:
        if not mine:
            return BUSY
        submission = folder.submission()
        if submission is None:
            raise SystemExit(f"{folder.path}/job.json cannot be read.")
        if folder.keepers() is not None or folder.final():
            return 0
        become_subreaper()
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
        guard = os.getpid()
        shepherd = os.fork()
        if shepherd == 0:
            _be_shepherd(folder, submission, guard)
        return _be_guard(folder, submission, shepherd)


def _be_guard(folder: JobFolder, submission: Submission, shepherd: int) -> int:
    for number in ENDS:
        signal.signal(number, lambda number, _: os.kill(shepherd, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
    code = os.waitstatus_to_exitcode(os.waitpid(shepherd, 0)[1])
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)
    left = end_children(0.0)
    keepers = folder.keepers()
    if keepers is None or folder.final():
        return code
    resources = remove_resources(submission, folder)
    details = [f"the shepherd {how_it_ended(code)} early and its nodes with it", *_left(left), *resources]
    folder.write_status(JobStatus(JobState.FAILED, "; ".join(details), keepers.attempt, {}))
    return 1


def _be_shepherd(folder: JobFolder, submission: Submission, guard: int) -> None:
    """Never returns: what went wrong is in the log, and the guard says FAILED."""
    code = 1
    try:
        Shepherd(folder, submission, guard).run()
        code = 0
    finally:  # whatever happened, a forked process must not go on in its parent's code
        if code:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)


class Shepherd:
    """One job's nodes, from start to end."""

    def __init__(self, folder: JobFolder, submission: Submission, guard: int) -> None:
        self.folder, self.submission, self.guard = folder, submission, guard
        self.attempt = uuid.uuid4().hex
        self.nodes: tuple[RunningNode, ...] = ()
        self.asked_to_end = False
        self.grace_s = submission.grace_s
        self.failed_at: float | None = None
        self.cut_off: tuple[RunningNode, ...] = ()
        # A descriptor that becomes readable at each signal.
        wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, lambda *_: None)
        for number in ENDS:
            signal.signal(number, self._ask_to_end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        self.wake = wake

    def run(self) -> None:
        """From the first file to the last state. Raises OSError if nothing can be written."""
        die_with_parent(self.guard, signal.SIGTERM)
        become_subreaper()
        self.folder.write_keepers(self.guard, os.getpid(), self.attempt)
        try:
            self._start()
            status = self._end(self._watch(time.monotonic()))
        except (NetworkError, OSError) as error:
            left = end_children(0.0)
            status = self._status(JobState.FAILED, f"the nodes could not be started: {error}", _left(left))
        self._finish(status)

    def _ask_to_end(self, *_: object) -> None:
        self.asked_to_end = True

    def _start(self) -> None:
        """Make the network, write the roster, start every node; the log threads come after the last fork."""
        write_roster(self.folder, self.submission, self._addresses())
        withheld = json.loads(os.environ.pop(WITHHELD, "{}"))
        for node in self.submission.nodes:
            environment = node_environment(os.environ, node, withheld, self.attempt)
            self.nodes += (RunningNode(node, environment, self.submission.log_bytes),)
        for running in self.nodes:
            running.pump()
        self._save(self._status(JobState.RUNNING, f"{len(self.nodes)} nodes started"))

    def _addresses(self) -> tuple[str, ...]:
        job = self.submission
        if not job.network:
            return ("127.0.0.1",) * len(job.nodes)
        if job.prepared:
            return local_network.find(job.network, len(job.nodes)).addresses
        return local_network.create(job.network, len(job.nodes), job.subnet).addresses

    def _watch(self, begun: float) -> str:
        """Until every node's command ended ("") or the job has to end (why)."""
        deadline = begun + self.submission.max_runtime_s
        answer_by = begun + (self.submission.deadline_s or math.inf)
        while True:
            self._collect()
            if self.asked_to_end:
                return CANCELLED if os.getppid() == self.guard else "its guard was killed"
            if all(node.exit_code is not None for node in self.nodes):
                return ""
            if time.monotonic() >= deadline:
                return self._overdue()
            if time.monotonic() >= answer_by:
                self.grace_s = 0.0  # they had their time, and whoever stands still would not use more
                return f"its checks did not end within {self.submission.deadline_s:g} s"
            failed_by = self._failed_by()
            if time.monotonic() >= failed_by:
                return self._cut_off()
            self._sleep(min(deadline, answer_by, failed_by) - time.monotonic(), failed_by)

    def _failed_by(self) -> float:
        """When the job ends because its training failed on a node; infinite where it has not, or only its checks have begun."""
        grace_s = self.submission.failed_node_grace_s
        if grace_s is None or not self._failed():
            return math.inf
        if self.failed_at is None and any(self.folder.out.glob("*/started/*")):
            self.failed_at = time.monotonic()
            self._save(self._status(JobState.RUNNING, self._waits()))
        return math.inf if self.failed_at is None else self.failed_at + grace_s

    def _waits(self) -> str:
        """Who failed, and how long the others are waited for; "" where nobody is."""
        if self.failed_at is None or not self._running():
            return ""
        grace_s = self.submission.failed_node_grace_s
        return f"{self._said_failed()}; the other nodes have {grace_s:g} s from then on to end by themselves"

    def _cut_off(self) -> str:
        self.cut_off = self._running()
        later = f"{self.submission.failed_node_grace_s:g} s later and were ended"
        return f"{self._said_failed()}; the other nodes still ran {later}"

    def _overdue(self) -> str:
        limit = f"it did not end within its max runtime of {self.submission.max_runtime_s:g} s"
        if self.failed_at is None:
            return limit
        self.cut_off = self._running()  # the failure came first, and is the reason
        return f"{self._said_failed()}; {limit}"

    def _failed(self) -> tuple[RunningNode, ...]:
        return tuple(node for node in self.nodes if node.exit_code and not self._is_left_out(node))

    def _is_left_out(self, node: RunningNode) -> bool:
        """Whether the other nodes go on without this one, in a start of their own."""
        chosen = self.folder.out / next_attempt(self.attempt) / "nodes"
        return chosen.exists() and not (chosen / f"{node.name}.json").exists()

    def _running(self) -> tuple[RunningNode, ...]:
        return tuple(node for node in self.nodes if node.exit_code is None)

    def _said_failed(self) -> str:
        return "; ".join(
            f"{node.name} {how_it_ended(node.exit_code or 0)}" for node in self._failed()[:MOST_NAMED]
        )

    def _sleep(self, seconds: float, failed_by: float) -> None:
        waits_for_start = (
            math.isinf(failed_by) and self.submission.failed_node_grace_s is not None and self._failed()
        )
        longest_s = STARTED_POLL_S if waits_for_start else LONGEST_SLEEP_S
        if select.select([self.wake], [], [], min(max(seconds, 0.0), longest_s))[0]:
            os.read(self.wake, 4096)

    def _collect(self) -> None:
        codes = reap()
        for node in self.nodes:
            if node.pid in codes and node.exit_code is None:
                node.ended(codes[node.pid])
                detail = self._waits() or f"{node.name} {how_it_ended(codes[node.pid])}"
                self._save(self._status(JobState.RUNNING, detail))

    def _end(self, reason: str) -> JobStatus:
        """End what is left; what the nodes' commands left behind gets no grace."""
        cancelled = reason == CANCELLED
        if cancelled and self._failed():
            reason = f"{CANCELLED}, after {self._said_failed()}"
        left = end_children(self.grace_s if reason else 0.0)
        self._collect()
        for node in self.nodes:
            node.log.close(LOG_END_S)
        if reason:
            state = JobState.CANCELLED if cancelled else JobState.FAILED
            return self._status(state, reason, _left(left))
        failed = (node for node in self.nodes if node.exit_code != 0 and not self._is_left_out(node))
        bad = [f"{node.name} {_end_of(node)}" for node in failed]
        if bad:
            return self._status(JobState.FAILED, "; ".join(bad), _left(left))
        return self._status(JobState.SUCCEEDED, f"{counted(len(self.nodes), 'node')} ended well", _left(left))

    def _status(self, state: JobState, detail: str, more: Sequence[str] = ()) -> JobStatus:
        codes = {node.name: node.exit_code for node in self.nodes if node.exit_code is not None}
        ended = tuple(node.name for node in self.cut_off)
        return JobStatus(state, "; ".join([detail, *more]), self.attempt, codes, ended=ended)

    def _save(self, status: JobStatus) -> None:
        try:
            self.folder.write_status(status)
        except OSError as error:  # a full disk must not end the nodes; the last state is tried for longer
            print(f"{self.submission.name}: {error}", file=sys.stderr)

    def _finish(self, status: JobStatus) -> None:
        """Remove containers, network and keys, then write the last state, for some seconds where the disk is full."""
        detail = "; ".join([status.detail, *remove_resources(self.submission, self.folder)])
        deadline = time.monotonic() + FINAL_TRIES_S
        while True:
            try:
                return self.folder.write_status(replace(status, detail=detail))
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def remove_resources(submission: Submission | None, folder: JobFolder) -> list[str]:
    """Remove the containers, the network and the keys of a job; returns what is left of them, for people."""
    left = []
    if submission is not None:
        left.append(container.remove(submission.container_engine, submission.container_label))
    try:
        if submission is not None and submission.network and not submission.prepared:
            local_network.remove(submission.network)
    except NetworkError as error:
        left.append(f"its network is still there: {error}")
    try:
        folder.remove_keys()
    except OSError as error:
        left.append(f"{error.filename} is still there: {error.strerror}")
    return [problem for problem in left if problem]


def _left(pids: Sequence[int]) -> tuple[str, ...]:
    return (f"these processes cannot be ended: {', '.join(map(str, pids))}",) if pids else ()


def _end_of(node: RunningNode) -> str:
    return "left no record of how it ended" if node.exit_code is None else how_it_ended(node.exit_code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
