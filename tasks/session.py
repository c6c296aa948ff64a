"""One gate while it runs: its setting, its lease, and the jobs that end with it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from tasks import lease as leases
from tasks.gateread import GateFileError
from tasks.jobs import new_gate_id
from tasks.keeper import Keeper
from tasks.launchers.base import JobState, LaunchError
from tasks.lease import TTL_S, Held, Lease, LeaseError
from tasks.outcome import Judged
from tasks.owner import this_process
from tasks.request import GateRequest
from tasks.setting import Setting, launcher_of, open_setting
from tasks.store.base import StoreError

LOG = logging.getLogger("prelaunch")
REJECTIONS = (GateFileError, LeaseError, StoreError)


class Session:
    """Use it in a `with`: whatever ends the block, its jobs are ended and the lease is given back.

    A job that was handed over (`let_go`) runs on. `judged` is what the verdict was, once there is one.
    """

    def __init__(self, setting: Setting, keeper: Keeper) -> None:
        self.setting, self.keeper = setting, keeper
        self.gate_id = keeper.lease.gate_id
        self.judged: Judged | None = None
        lease = keeper.lease
        self._jobs = dict.fromkeys(lease.jobs if lease.adopted else ())

    @property
    def folder(self) -> Path:
        """Where what the jobs wrote is fetched to; removed at the end."""
        return self.setting.work / self.gate_id

    def remember(self, job: str) -> None:
        """This job may run from now on."""
        self._jobs[job] = None

    def let_go(self, job: str) -> None:
        """This job ended, or shall outlive the gate."""
        self._jobs.pop(job, None)

    def __enter__(self) -> Session:
        self.keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        # Nothing here awaits: a second cancellation cannot get in between.
        try:
            if self._ours():
                for job in self._jobs:
                    self._cancel(job)
        finally:
            remove_folder(self.folder)
            with _said("the lease could not be given back, it expires by itself"):
                self.keeper.release()

    def _ours(self) -> bool:
        with _said("whether the lease is still ours is not known, its jobs are ended"):
            return self.keeper.ours()
        return True

    def _cancel(self, job: str) -> None:
        with _said(f"job {job} could not be ended, its own time limit will"):
            self.setting.launcher.cancel(job)


def take(setting: Setting) -> Held:
    """Hold the cluster for this process, adopting what a dead one left. Raises LeaseHeld, StoreError."""
    now = time.time()
    gate = setting.gate
    wanted = Lease(
        schema_version=1,
        cluster=gate.cluster.name,
        gate_id=new_gate_id(gate.name, now),
        attempt=1,
        digest=setting.digest,
        gate_file=setting.file,
        adopted=False,
        engine=setting.engine,
        owner=this_process(),
        taken_at=now,
        renewed_at=now,
        expires_at=now + TTL_S,
    )
    return leases.acquire(setting.store, wanted, running_jobs, cancel_jobs)


def open_session(request: GateRequest, flow_run_id: str) -> Session:
    """Everything that a gate needs before it starts. Raises GateFileError, LeaseHeld, StoreError."""
    setting = open_setting(request)
    setting.store.probe()
    held = leases.bind(setting.store, take(setting), flow_run_id)
    return Session(setting, Keeper(setting.store, held))


def running_jobs(lease: Lease) -> tuple[str, ...]:
    """Which jobs of a lease still run, asked of the launcher that it names."""
    launcher = launcher_of(lease.engine)
    going = (JobState.PENDING, JobState.RUNNING)
    return tuple(job for job in lease.jobs if launcher.state(job).state in going)


def cancel_jobs(lease: Lease) -> None:
    """End every job of a lease."""
    launcher = launcher_of(lease.engine)
    for job in lease.jobs:
        launcher.cancel(job)


def end_run(request: GateRequest, flow_run_id: str) -> None:
    """What a hook does in another process: end the run's jobs and give its lease back. Idempotent."""
    setting = open_setting(request)
    held = leases.of_run(setting.store, flow_run_id)
    if held is not None:
        cancel_jobs(held.lease)
        leases.release(setting.store, held)


def remove_folder(folder: Path) -> None:
    """Remove a folder of copies; what cannot be removed stays."""
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _said(message: str) -> Iterator[None]:
    """Cleaning up goes on after a failure, and the failure is said."""
    try:
        yield
    except (LaunchError, LeaseError, StoreError, OSError) as error:
        LOG.error("%s: %s", message, error)
