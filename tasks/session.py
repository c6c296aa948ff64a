"""One gate while it runs: its setting, its lease, and the jobs and machines that end with it."""

from __future__ import annotations

import contextlib
import logging
import math
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from uuid import UUID

from tasks import lease as leases
from tasks.deliver import still_paid
from tasks.gateread import GateFileError
from tasks.jobs import new_gate_id, tags_of
from tasks.keeper import Keeper
from tasks.launchers.base import EngineUnavailable, JobState, JobStatus, LaunchError, Placement
from tasks.lease import CHECK, TRAIN, TTL_S, Held, Lease, LeaseError, LeaseLost
from tasks.outcome import Judged, Placed
from tasks.owner import this_process
from tasks.parked import run_over
from tasks.question import Answer
from tasks.request import GateRequest
from tasks.requested import keep_request, require_names, require_own_places
from tasks.setting import Setting, launcher_of, open_setting
from tasks.store.base import StoreError
from tasks.store.patient import PatientStore

LOG = logging.getLogger("prelaunch")
REJECTIONS = (GateFileError, LeaseError, StoreError, LaunchError)


class Session:
    """Use it in a `with`: whatever ends the block, its jobs are ended, its pools released and the lease is given back.

    A job that was handed over (`let_go`) runs on. `judged` is what the verdict was, once there is one; `proof` is what
    was seen of the placement; `unreleased` says which machines may still be paid for. Without `launches` nothing follows
    a go. `rounds` counts how often the checks began, `waiting_since` is when the engine first had no machines, None once it had
    some. `trained` says that the training was seen to run. `answer` is
    a person's; `asked` the question that the run comes back with, None for a run that begins. One that is `parked` leaves
    everything as it is, for the process in which the run comes back.
    """

    def __init__(self, setting: Setting, keeper: Keeper, launches: bool = True) -> None:
        self.setting, self.keeper, self.launches = setting, keeper, launches
        self.gate_id = keeper.lease.gate_id
        self.judged: Judged | None = None
        self.proof: list[str] = []
        self.unreleased: list[str] = []
        self.looked = keeper.lease.adopted
        self.rounds = 1
        self.waiting_since: float | None = None
        self._patient = setting.store if isinstance(setting.store, PatientStore) else None
        self._answer_by = math.inf
        self._ending: list[threading.Thread] = []
        self.trained = False
        self.announcement: UUID | None = None
        lease = keeper.lease
        self.answer: Answer | None = None
        self.asked = lease.asking
        self.parked = False
        self._jobs = dict.fromkeys(lease.jobs if lease.adopted and self.asked is None else ())
        self._kept: dict[str, float] = {}
        if self.asked is not None:
            self.ended(lease.job(CHECK))

    @property
    def answer_by(self) -> float:
        """When the verdict has to be there (time.monotonic()); infinite while no check was seen to begin."""
        return self._answer_by

    @answer_by.setter
    def answer_by(self, at: float) -> None:
        self._answer_by = at
        if self._patient is not None:
            self._patient.answer_by = at if at < math.inf else None

    @property
    def folder(self) -> Path:
        """Where what the jobs wrote is fetched to; removed at the end."""
        return self.setting.work / self.gate_id

    @property
    def tags(self) -> dict[str, str]:
        """What the engine's console shows of a job."""
        return tags_of(self.setting, self.gate_id, self.keeper.lease.owner.flow_run_id)

    @property
    def in_job(self) -> bool:
        """Whether checks and training are one job."""
        return self.launches and self.setting.launcher.placement is Placement.IN_JOB

    @property
    def checking(self) -> str:
        """The job whose nodes check."""
        return self.keeper.lease.job(TRAIN if self.in_job else CHECK)

    @property
    def placed(self) -> Placed:
        """How the training is held to the machines that were checked, as far as was seen."""
        return Placed(self.setting.launcher.placement, tuple(self.proof))

    def remember(self, job: str) -> None:
        """This job may run from now on."""
        self._jobs[job] = None

    def ended(self, job: str) -> None:
        """This job ended; where its engine keeps machines, they are let go with the gate, unless somebody gets them."""
        self._jobs.pop(job, None)
        if self.setting.launcher.placement is Placement.POOLED:
            self._kept.setdefault(job, time.monotonic())

    def let_go(self, job: str) -> None:
        """Nothing of this job is left, or it shall outlive the gate."""
        self._jobs.pop(job, None)
        self._kept.pop(job, None)

    def kept_s(self, job: str) -> float | None:
        """For how long the machines of an ended job have been kept by now, as far as this process knows; None: they are not."""
        since = self._kept.get(job)
        return None if since is None else time.monotonic() - since

    def end_now(self, job: str) -> None:
        """End a job whose time is up. One that cannot be ended is said: what it wrote is judged all the same."""
        if self._cancel(job):
            self.let_go(job)

    def end_soon(self, job: str) -> None:
        """The same in a thread of its own, for a job whose end the verdict must not wait for; `ends` waits for it."""
        self._ending.append(threading.Thread(target=self.end_now, args=(job,), daemon=True))
        self._ending[-1].start()

    def ends(self) -> None:
        """Wait for what `end_soon` has begun, as long as an engine may be silent."""
        for thread in self._ending:
            thread.join(self.setting.launcher.silence_s)
        self._ending.clear()

    def left_s(self, least_s: float = 0.5) -> float:
        """How long something may take from here, so that the verdict is there in time; at least `least_s`."""
        return max(self.answer_by - time.monotonic(), least_s)

    def begin_again(self) -> Lease:
        """End what is left of this attempt's jobs, and give the next ones new names. Raises LaunchError, LeaseLost."""
        self.ends()
        self.answer_by = math.inf
        for job in self.keeper.lease.jobs:
            self.setting.launcher.cancel(job)
            self.let_go(job)
        self.judged = None
        self.proof.clear()
        return self.keeper.next_attempt()

    def train_again(self) -> Lease:
        """End what is left of a training that got no machines, and give the next one a new name. The checks' pool stays.

        Raises LaunchError, LeaseLost, StoreError.
        """
        job = self.keeper.lease.job(TRAIN)
        self.setting.launcher.cancel(job)
        self.let_go(job)
        return self.keeper.next_training()

    def release(self) -> None:
        """Let the machines go that are kept for a training which does not come. What may still be kept is said."""
        for job in tuple(self._kept):
            try:
                said = self.setting.launcher.release(job)
                self.let_go(job)
                if said:
                    LOG.info("the machines of %s were released: %s", job, said)
                    self.proof.append(said)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are let go all the same
                self._still_paid(f"the machines of {job} may still be kept: {error}")

    def __enter__(self) -> Session:
        self.keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        # Nothing here awaits: a second cancellation cannot get in between.
        if self.parked:
            remove_folder(self.folder)
            self.keeper.park()
            return
        self.ends()
        told = len(self.unreleased)
        try:
            if self._ours():
                for job in self._jobs:
                    self._cancel(job)
                self.release()
            if len(self.unreleased) > told:
                still_paid(self.setting, self.gate_id, tuple(self.unreleased[told:]))
        finally:
            remove_folder(self.folder)
            with _said("the lease could not be given back, it expires by itself"):
                self.keeper.release()

    def _ours(self) -> bool:
        with _said("whether the lease is still ours is not known, its jobs are ended"):
            return self.keeper.ours()
        return True

    def _cancel(self, job: str) -> bool:
        try:
            self.setting.launcher.cancel(job)
            return True
        except Exception as error:  # noqa: BLE001 - whatever it is, the other jobs are ended all the same
            self._still_paid(f"job {job} could not be ended, its own time limit will: {error}")
            return False

    def _still_paid(self, said: str) -> None:
        LOG.error("%s", said)
        if said not in self.unreleased:
            self.unreleased.append(said)


def take(setting: Setting) -> Held:
    """Hold the cluster for this process, adopting what a dead one left. Raises LeaseHeld, StoreError, LaunchError."""
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

    def cancel(lease: Lease) -> None:
        try:
            cancel_jobs(lease)
        except LaunchError as error:
            still_paid(setting, lease.gate_id, (str(error),))
            raise
        if lease.asking is not None:
            from tasks.overdue import close  # it pages, and so needs a session

            close(setting, lease)

    return leases.acquire(setting.store, wanted, running_jobs, cancel, run_over)


def open_session(request: GateRequest, flow_run_id: str, resumed: bool = False) -> Session:
    """Everything that a gate needs before it starts; a run that is `resumed` goes on with what it had parked.

    Raises GateFileError, LeaseError, StoreError, LaunchError.
    """
    require_names((request.gate_file,))
    require_own_places(request.advanced)
    setting = open_setting(request)
    setting.store.probe()
    if (back := _come_back(setting, request, flow_run_id)) is not None:
        return Session(setting, Keeper(setting.store, back), request.launch)
    if resumed:
        raise LeaseLost(
            f"cluster {setting.gate.cluster.name}: this run waited for a person, and its question is over: the cluster "
            "was let go, or another gate took it. Nothing was launched. Start a new run."
        )
    held = leases.bind(setting.store, take(setting), flow_run_id)
    try:
        keep_request(setting.store, held.lease.gate_id, request, flow_run_id)
    except StoreError:
        leases.release(setting.store, held)
        raise
    return Session(setting, Keeper(setting.store, held), request.launch)


def _come_back(setting: Setting, request: GateRequest, flow_run_id: str) -> Held | None:
    """The lease that this very run has parked, taken over from the process that waited. Raises LeaseLost."""
    held = leases.of_run(setting.store, flow_run_id)
    if held is None or held.lease.asking is None:
        return None
    if held.lease.digest != setting.digest:
        from tasks.overdue import close  # it pages, and so needs a session

        said = "the gate file or its policy was changed while its question waited, so the answer is about something else"
        close(setting, held.lease, said)
        end_run(request, flow_run_id)
        raise LeaseLost(f"{held.lease.gate_file}: {said}. Nothing was launched. Start a new run.")
    for _ in range(20):
        # The process that waited may still renew it, for a moment.
        try:
            return leases.come_back(setting.store, held, this_process(flow_run_id), time.time())
        except LeaseLost:
            held = leases.of_run(setting.store, flow_run_id) or held
    return leases.come_back(setting.store, held, this_process(flow_run_id), time.time())


def running_jobs(lease: Lease) -> tuple[str, ...]:
    """Which jobs of a lease still run, asked of the launcher that it names.

    Raises EngineUnavailable where it does not answer: a job that is not seen may run.
    """
    launcher = launcher_of(lease.engine)
    going = (JobState.PENDING, JobState.RUNNING)
    seen = {job: launcher.state(job) for job in lease.jobs}
    for job, status in seen.items():
        if unanswered(status):
            raise EngineUnavailable(
                f"cluster {lease.cluster}: {lease} is gone, and whether its job {job} runs is not known: "
                f"{status.detail}. Nothing was started: try again."
            )
    return tuple(job for job, status in seen.items() if status.state in going)


def unanswered(status: JobStatus) -> bool:
    """Whether the engine did not say what became of the job, not even that there is none."""
    return status.state is JobState.UNKNOWN and not status.absent


def cancel_jobs(lease: Lease) -> None:
    """End every job of a lease, and let its machines go. Each is tried; all that failed is said (LaunchError)."""
    launcher, failures = launcher_of(lease.engine), []
    for job in lease.jobs:
        try:
            launcher.cancel(job)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other job is ended all the same
            failures.append(error)
    if failures:
        raise LaunchError(" ".join(map(str, failures)))


def end_run(request: GateRequest, flow_run_id: str) -> None:
    """What a hook does in another process: end the run's jobs, let its machines go, give its lease back. Idempotent.

    Where that fails somebody is paged, and the lease stays: whoever wants the cluster next ends the jobs first.
    """
    setting = open_setting(request)
    held = leases.of_run(setting.store, flow_run_id)
    if held is None:
        return
    try:
        cancel_jobs(held.lease)
    except LaunchError as error:
        LOG.error("the jobs of %s could not be ended: %s", held.lease.gate_id, error)
        still_paid(setting, held.lease.gate_id, (str(error),))
        return
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
