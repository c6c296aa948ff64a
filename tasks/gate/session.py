"""One gate while it runs: its context, its lock, and the jobs and machines that end with it."""

from __future__ import annotations

import contextlib
import logging
import math
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from uuid import UUID

from checks.documents.certificates import NO_CERTIFICATES
from checks.runner.deadline import limited
from checks.runner.in_job.spares import without_spares
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.jobs import cancel_jobs, job_tags, new_gate_id, running_jobs
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import CHECK, ENDING_S, TRAIN, TTL_S, HeldLease, Lease, LeaseError, LeaseLost
from tasks.gate.lease.owner import this_process
from tasks.gate.lease.renewal import LeaseRenewal
from tasks.gate.outcome import GateOutcome, JudgedReport, PlacementProof
from tasks.gate.progress import Progress, report_progress
from tasks.gate.question import ApprovalAnswer
from tasks.gate.record.request import keep_request, require_names, require_strict_policy
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobStatus, LaunchError, Placement
from tasks.notifiers.deliver import still_paid
from tasks.store.base import Store, StoreError
from tasks.store.call_timeout import PatientStore

LOG = logging.getLogger("prelaunch")
# Whether the flow run of this id has ended, so that it never comes back for the lock that it parked.
RunOver = Callable[[str], bool]
REJECTIONS = (GateFileError, LeaseError, StoreError, LaunchError)


class ExpiryHandler(Protocol):
    """Keeps the end of a gate whose question is over, and notifies people of it. `why` says what ended it."""

    def __call__(self, context: GateContext, lease: Lease, reason: str = ...) -> None:
        """Idempotent."""


class Session:
    """Use it in a `with`: whatever ends the block, its jobs are ended, and its pools and its lock are released.

    A job that was handed over (`let_go`) runs on. `judged` is the verdict, once there is one; `proof` is what was seen of the
    placement, `restarts` how often the engine restarted the job; `unreleased` says which machines may still be billing, and
    `notified` of how many of these people were notified. Without `launches` nothing follows a go. `rounds` counts how often the
    checks began, `waiting_since` when the engine first had no machines, None once it had some. `training` is its job once it was
    submitted, `trained` that it was seen to run. `answer` is a person's; `open_question` is the one with which the run continues,
    None for a run that begins. One that is `parked` leaves everything for the process in which the run comes back. `previous` is the
    verdict after which the checks began again, without the nodes in `excluded`, each with the reason; `left_out` are likewise nodes of
    the job that do not train; `replaced` are refusals that a
    later verdict replaced, and `blamed` the machines of which an audience was notified. `certificates` were offered to the checks.
    `statuses` are what the engine said last of each job, and `begun` are the jobs that may have been started.
    """

    def __init__(self, context: GateContext, renewal: LeaseRenewal, launches: bool = True) -> None:
        self.context = self._whole = context
        self.renewal, self.launches = renewal, launches
        self.gate_id = renewal.lease.gate_id
        self.judged: JudgedReport | None = None
        self.proof, self.unreleased = list[str](), list[str]()
        self.restarts: tuple[str, ...] = ()
        self.preflight_done, self.rounds = renewal.lease.adopted, 1
        self.waiting_since: float | None = None
        self.previous: JudgedReport | None = None
        self.replaced, self.blamed = list[GateOutcome](), set[tuple[str, str]]()
        self.excluded, self.certificates = dict[str, str](), NO_CERTIFICATES
        self.left_out: dict[str, str] = {}
        self._patient = context.store if isinstance(context.store, PatientStore) else None
        self._answer_by = math.inf
        self._ending: list[threading.Thread] = []
        self.training, self.trained, self.notified = "", False, 0
        self.announcement: UUID | None = None
        lease = renewal.lease
        self.answer: ApprovalAnswer | None = None
        self.open_question, self.parked = lease.asking, False
        self._jobs = dict.fromkeys(lease.jobs if lease.adopted and self.open_question is None else ())
        self._kept_since: dict[str, float] = {}
        self.begun, self.statuses = set(self._jobs), dict[str, JobStatus]()
        if self.open_question is not None:
            self.ended(lease.job(CHECK))

    @property
    def answer_by(self) -> float:
        """The time by which the verdict must exist (time.monotonic()); infinite while no check was seen to begin."""
        return self._answer_by

    @answer_by.setter
    def answer_by(self, at: float) -> None:
        self._answer_by = at
        if self._patient is not None:
            self._patient.answer_by = at if at < math.inf else None

    @property
    def folder(self) -> Path:
        """The folder into which the jobs' files are fetched; it is removed at the end."""
        return self.context.work / self.gate_id

    @property
    def tags(self) -> dict[str, str]:
        """What the engine's console shows of a job."""
        return job_tags(self.context, self.gate_id, self.renewal.lease.owner.flow_run_id)

    @property
    def in_job(self) -> bool:
        """Whether checks and training are one job."""
        return self.launches and self.context.launcher.placement is Placement.IN_JOB

    @property
    def checking(self) -> str:
        """The job whose nodes check."""
        return self.renewal.lease.job(TRAIN if self.in_job else CHECK)

    @property
    def placed(self) -> PlacementProof:
        """How well it is proven, so far, that the training runs on the machines that were checked."""
        return PlacementProof(self.context.launcher.placement, (*self.restarts, *self.proof))

    def expect_spares(self, left_out: bool) -> None:
        """What is read from now on is of a start in which as many nodes as there are spares were `left_out`, or of one with all."""
        self.context = (
            replace(self._whole, declared=without_spares(self._whole.declared)) if left_out else self._whole
        )

    def remember(self, job: str) -> None:
        """Record that this job may run from now on."""
        self._jobs[job] = None
        self.begun.add(job)

    def ended(self, job: str) -> None:
        """Record that this job ended. If its engine keeps machines, they are released with the gate unless the training gets them."""
        self._jobs.pop(job, None)
        if self.context.launcher.placement is Placement.POOLED:
            self._kept_since.setdefault(job, time.monotonic())

    def let_go(self, job: str) -> None:
        """Forget this job: nothing of it is left, or it has to outlive the gate."""
        self._jobs.pop(job, None)
        self._kept_since.pop(job, None)

    def kept_s(self, job: str) -> float | None:
        """For how long the machines of an ended job have been kept by now, as far as this process knows; None: they are not."""
        since = self._kept_since.get(job)
        return None if since is None else time.monotonic() - since

    def end_now(self, job: str) -> bool:
        """End a job whose time is up; whether it is ended. If not, that is logged, and what it wrote is judged all the same."""
        try:
            limited(ENDING_S, lambda: self.context.launcher.cancel(job))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other jobs are ended all the same
            self._still_paid(f"job {job} could not be ended; its own time limit will end it: {error}")
            return False
        self.let_go(job)
        return True

    def may_run(self, job: str) -> bool:
        """Whether this job may still run, and ends with the gate."""
        return job in self._jobs

    def end_jobs(self) -> bool:
        """End what may still run. False where another run has the lock: the jobs are its own then, and none is touched."""
        self.ends()
        if not self._ours():
            return False
        for job in tuple(self._jobs):
            self.end_now(job)
        return True

    def end_soon(self, job: str) -> None:
        """A thread of its own ends the job, because the verdict must not wait for it. `ends` waits for the thread."""
        self._ending.append(threading.Thread(target=lambda: self._ours() and self.end_now(job), daemon=True))
        self._ending[-1].start()

    def ends(self) -> None:
        """Wait for what `end_soon` has begun, at most for as long as an engine may take to answer."""
        for thread in self._ending:
            thread.join(self.context.launcher.silence_s)
        self._ending.clear()

    def left_s(self, least_s: float = 0.5) -> float:
        """How long something may take from now, so that the verdict is there in time; at least `least_s`."""
        return max(self.answer_by - time.monotonic(), least_s)

    def begin_again(self) -> Lease:
        """End what is left of this attempt's jobs, and give the next ones new names. Raises LaunchError, LeaseLost."""
        self.ends()
        self.require_lock()
        self.answer_by = math.inf
        for job in self.renewal.lease.jobs:
            self.context.launcher.cancel(job)
            self.let_go(job)
        self.previous, self.judged = self.judged or self.previous, None
        self.answer = None
        self.proof.clear()
        return self.renewal.change(attempt=self.renewal.lease.attempt + 1, trainings=1, adopted=False)

    def train_again(self) -> Lease:
        """End what is left of a training that got no machines, and give the next one a new name. The checks' pool stays.

        Raises LaunchError, LeaseLost, StoreError.
        """
        self.require_lock()
        job = self.renewal.lease.job(TRAIN)
        self.context.launcher.cancel(job)
        self.let_go(job)
        return self.renewal.change(trainings=self.renewal.lease.trainings + 1)

    def release_machines(self) -> None:
        """Release the machines that are kept for a training which will not start, unless another run has the lock, and with it the
        machines. Machines that may still be kept are reported.
        """
        if self._kept_since and not self._ours():
            return
        for job in tuple(self._kept_since):
            try:
                reply = self.context.launcher.release(job)
                self.let_go(job)
                if reply:
                    LOG.info("the machines of %s were released: %s", job, reply)
                    self.proof.append(reply)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are let go all the same
                self._still_paid(f"the machines of {job} may still be kept: {error}")

    def __enter__(self) -> Session:
        self.renewal.start()
        return self

    def __exit__(self, *raised: object) -> None:
        # Nothing here awaits: a second cancellation cannot get in between.
        if self.parked:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.renewal.park()
            return
        try:
            if self.end_jobs():
                self.release_machines()
            if untold := self.unreleased[self.notified :]:
                notify_unreleased(self.context, self.gate_id, tuple(untold))
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            with _logged("the cluster's lock could not be released; it expires by itself"):
                self.renewal.release()

    def require_lock(self) -> None:
        """Raise LeaseLost where another run has the lock by now, and with it the jobs."""
        if not self._ours():
            raise LeaseLost(self.renewal.loss)

    def _ours(self) -> bool:
        with _logged("it is not known whether this gate still has the cluster's lock; it goes on"):
            return self.renewal.ours()
        return not self.renewal.lost.is_set()

    def _still_paid(self, line: str) -> None:
        LOG.error("%s", line)
        report_progress(Progress("end", line, unended=True))
        if line not in self.unreleased:
            self.unreleased.append(line)


def take_lease(
    context: GateContext, launches: bool, *, on_expired: ExpiryHandler, run_over: RunOver
) -> HeldLease:
    """Take the cluster's lock, adopting what a dead process left; `on_expired` gets a gate whose question is over.

    A gate that only checks adopts none that `launches`: it ends it, and says so. Raises LeaseHeld, StoreError, LaunchError.
    """
    gate, now = context.gate, time.time()
    wanted = Lease(
        schema_version=1, cluster=gate.cluster.name, gate_id=new_gate_id(gate.name, now), attempt=1, digest=context.digest,
        gate_file=context.file, adopted=False, engine=context.engine, owner=this_process(), taken_at=now, renewed_at=now,
        expires_at=now + TTL_S, launches=launches,
    )  # fmt: skip

    def cancel(lease: Lease) -> None:
        try:
            cancel_jobs(lease)
        except LaunchError as error:
            notify_unreleased(context, lease.gate_id, (str(error),))
            raise
        if lease.asking is not None:
            on_expired(context, lease)
        elif lease.launches and not launches:
            LOG.warning("%s", leases.not_continued(lease))

    return leases.acquire(context.store, wanted, running_jobs, cancel, run_over)


def open_session(
    request: GateRequest,
    flow_run_id: str,
    resumed: bool = False,
    context: GateContext | None = None,
    *,
    on_expired: ExpiryHandler,
    run_over: RunOver,
) -> Session:
    """Open everything that a gate needs before it starts; a run that is `resumed` continues with the lock that it parked. `context` is
    the context of the request, where it was opened already. Raises GateFileError, LeaseError, StoreError, LaunchError.
    """
    require_names((request.gate_file,), request.advanced)
    context = context or open_gate_context(request)
    require_strict_policy(request, context.gate)
    context.store.probe()
    if (back := _come_back(context, request, flow_run_id, on_expired)) is not None:
        return Session(context, LeaseRenewal(context.store, back), request.launch)
    if resumed:
        raise LeaseLost(
            f"cluster {context.gate.cluster.name}: this run waited for approval, and its question is closed: the "
            "cluster's lock was released, or another gate took it. Nothing was launched. Start a new run."
        )
    held = take_lease(context, request.launch, on_expired=on_expired, run_over=run_over)
    held = leases.bind_run(context.store, held, flow_run_id)
    try:
        keep_request(context.store, held.lease.gate_id, request, flow_run_id)
    except StoreError as error:
        if left := leases.leave(context.store, held):
            raise StoreError(f"{error} {left}", error.instead) from error
        raise
    return Session(context, LeaseRenewal(context.store, held), request.launch)


def _come_back(
    context: GateContext, request: GateRequest, flow_run_id: str, on_expired: ExpiryHandler
) -> HeldLease | None:
    """The lock that this very run has parked, taken over from the process that waited. Raises LeaseLost."""
    held = leases.lease_of_run(context.store, flow_run_id)
    if held is None or held.lease.asking is None:
        return None
    if held.lease.digest != context.digest:
        reason = (
            "the gate file, its policy or the version of Prelaunch was changed while its question waited, "
            "so the answer is about something else"
        )
        on_expired(context, held.lease, reason)
        end_run(request, flow_run_id)
        raise LeaseLost(f"{held.lease.gate_file}: {reason}. Nothing was launched. Start a new run.")
    return leases.resume(context.store, held, this_process(flow_run_id), time.time())


def end_held_jobs(store: Store, held: HeldLease) -> bool:
    """End the jobs of a dead run, and release its machines and its lock. The lock is ours meanwhile, so that no gate adopts a job that
    is being ended. False where another gate has taken it over. Raises LaunchError, StoreError; then it is the dead run's lock again.
    """
    try:
        mine = leases.resume(store, held, this_process(held.lease.owner.flow_run_id), time.time())
    except LeaseLost:
        return False
    renewal = LeaseRenewal(store, mine)
    renewal.start()
    try:
        cancel_jobs(mine.lease)
    except LaunchError:
        renewal.park()
        with _logged("the lock of the dead run still bears the name of this process"):
            renewal.change(owner=held.lease.owner)
        raise
    renewal.release()
    return True


def end_run(request: GateRequest, flow_run_id: str) -> str | None:
    """End the run's jobs, and release its machines and its lock. A hook calls this in another process. Idempotent.

    If that fails people are notified, and the lock stays: the next gate of the cluster ends the jobs first. Returns what could not be
    ended, "" for nothing, None where the run has no lock or another gate took it over.
    """
    context = open_gate_context(request)
    held = leases.lease_of_run(context.store, flow_run_id)
    try:
        return "" if held is not None and end_held_jobs(context.store, held) else None
    except LaunchError as error:
        gate_id = held.lease.gate_id if held is not None else ""
        LOG.error("the jobs of %s could not be ended: %s", gate_id, error)
        notify_unreleased(context, gate_id, (str(error),))
        return str(error)


def notify_unreleased(context: GateContext, gate_id: str, lines: tuple[str, ...]) -> None:
    """Notify people that machines of this gate may still run or be kept, and may still be billing."""
    still_paid(context.gate, context.file, context.store, gate_id, lines)


@contextlib.contextmanager
def _logged(message: str) -> Iterator[None]:
    """Continue cleaning up after a failure, and log the failure."""
    try:
        yield
    except (LaunchError, LeaseError, StoreError, OSError) as error:
        LOG.error("%s: %s", message, error)
