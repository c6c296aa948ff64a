"""Nodes that are processes of this machine; for root, each in a network namespace of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from checks.process import machine_state
from checks.process.machine_state import lock_within
from checks.runner.in_job.spares import next_attempt
from tasks.launchers import base
from tasks.launchers.job_files import FolderLauncher, file_errors, read_end
from tasks.launchers.job_rules import no_job
from tasks.launchers.local import network, start_stop
from tasks.launchers.local.container import Submitter
from tasks.launchers.local.job_folder import LOG, JobFolder
from tasks.launchers.local.network import NetworkError
from tasks.launchers.local.plan import JOB_NAME, LocalNetwork, LocalOptions, make_plan, node_names
from tasks.launchers.local.preflight import check

Options = LocalOptions
LOCK_S = 30.0
POLL_S = 0.01


def launcher(options: LocalOptions, root: Path) -> LocalLauncher:
    """Make the launcher, for the registry."""
    return LocalLauncher(root, options)


class LocalLauncher(FolderLauncher):
    """Jobs in root/jobs/<name> (see job_folder.py); `root` is made when the first one is submitted."""

    poll_s = 0.2
    start_s = 120.0
    silence_s = 120.0
    delays = base.Delays(begins_s=5.0)  # judgement: Python starts within them on a busy machine

    def __init__(self, root: Path, options: LocalOptions | None = None) -> None:
        self.root = root.absolute()
        self.options = options or LocalOptions()
        self.placement = base.Placement.IN_JOB if self.options.in_job else base.Placement.PINNED
        state = machine_state.folder()
        # Without the folder no watch ever found anything here, and an engine would refuse to mount it or make it.
        self._submitter = Submitter(os.geteuid(), os.getegid(), state if state.is_dir() else None)

    def node_names(self, nodes: int) -> tuple[str, ...]:
        return node_names(nodes)

    def plan(self, job: base.JobSpec) -> base.Plan:
        return make_plan(job, self._folder(job.name).path, self.options, self._submitter)

    def submit(self, plan: base.Plan) -> base.JobHandle:
        name = plan.job.name
        self._require_own(plan)
        self._refuse_network(plan)
        folder = self._folder(name)
        with file_errors(f"{name} cannot be started", self.root), self._lock(name):
            adopted = folder.exists()
            if not adopted:
                start_stop.stage(plan, folder, self.root / "staging" / name, self.options)
            if folder.keepers() is None and not folder.final():
                start_stop.start(plan, folder, remove=not adopted)
        return base.JobHandle(name, adopted)

    def state(self, name: str) -> base.JobStatus:
        folder = self._existing(name)
        if folder is None:
            return no_job(f"no job {name!r:.80} under {self.root}")
        status, keepers = folder.status(), folder.keepers()
        if status is not None and status.state.final:
            start_stop.settle(keepers)
            return _with_choice(folder, status)
        if keepers is None:
            return no_job(f"{name} was submitted and never started. Submit it again.")
        if not keepers.alive():
            return start_stop.bury(
                folder, keepers, base.JobState.FAILED, "its shepherd died before the job ended"
            )
        begins = "the processes of its nodes are being started"
        status = status or base.JobStatus(base.JobState.PENDING, begins, keepers.attempt, {})
        return _with_choice(folder, status)

    def logs(self, name: str, node: str, last_bytes: int = 65536) -> str:
        folder = self._existing(name)
        if folder is None or not re.fullmatch(r"node-\d+", node):
            return ""
        with file_errors(f"{name}: the log of {node} cannot be read", folder.path):
            return read_end(folder.nodes / node / LOG, last_bytes)

    def cancel(self, name: str) -> None:
        folder = self._existing(name)
        if folder is None:
            return
        submission = folder.submission()
        grace_s = submission.grace_s if submission else self.options.grace_s
        with (
            file_errors(f"{name} cannot be cancelled", folder.path),
            self._lock(name, grace_s + start_stop.MARGIN_S),
        ):
            left = start_stop.cancel(folder, grace_s)
        if left:
            raise base.LaunchError(f"{name}: {left}. End them by hand.")

    def preflight(self, plans: tuple[base.Plan, ...]) -> tuple[base.PreflightCheck, ...]:
        return check(plans, self.options, self._submitter)

    def _refuse_network(self, plan: base.Plan) -> None:
        if self.options.network != LocalNetwork.NAMESPACES:
            return
        if reason := network.unavailable():
            message = f"{plan.job.name}: {reason}. Run as root with iproute2, or set network = 'loopback'."
            raise base.LaunchRejected(message)
        if self.options.prepared:
            try:
                network.find(self.options.prepared, plan.job.nodes)
            except NetworkError as error:
                message = f"{plan.job.name}: the prepared network cannot be used: {error}"
                raise base.LaunchRejected(message) from error

    def _folder(self, name: str) -> JobFolder:
        return JobFolder(self.root / "jobs" / name)

    def _existing(self, name: str) -> JobFolder | None:
        folder = self._folder(name) if re.fullmatch(JOB_NAME, name) else None
        return folder if folder is not None and folder.exists() else None

    def _out(self, name: str) -> Path | None:
        folder = self._existing(name)
        return None if folder is None else folder.out

    @contextmanager
    def _lock(self, name: str, more_s: float = 0.0) -> Iterator[None]:
        """One submit or cancel of a job at a time; EngineUnavailable where another holds on too long."""
        path = self.root / "locks" / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        with open(path, "rb") as file:  # to read: a job must be ended on a disk that cannot be written, too
            if not lock_within(file, LOCK_S + more_s, POLL_S):
                raise base.EngineUnavailable(
                    f"another process is submitting or cancelling {name}. Try again."
                )
            yield


def _with_choice(folder: JobFolder, status: base.JobStatus) -> base.JobStatus:
    """The status; the start of the nodes that go on without the spares is the current one once they began it."""
    chosen = next_attempt(status.attempt)
    if not (folder.out / chosen).exists():
        return status
    return replace(status, attempt=chosen, earlier=(status.attempt,))
