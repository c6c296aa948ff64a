"""A job from Starting to its end: one thread, one method a stage.

API reference, SecondaryStatusTransition: the statuses and their messages ("subject to change": nobody may branch on them).
"Cluster repair" (Amazon SageMaker AI, "Resume training from a checkpoint"): at most 10 repairs a job, by AWS's own decision.
"""

from __future__ import annotations

import time
import traceback
from typing import TYPE_CHECKING

from tests.fakes.sagemaker import cluster, images
from tests.fakes.sagemaker.cluster import Ended
from tests.fakes.sagemaker.images import Image
from tests.fakes.sagemaker.job import Job, Pool
from tests.fakes.sagemaker.storage import DataError

if TYPE_CHECKING:
    from tests.fakes.sagemaker.plane import Plane

REASON_CHARACTERS = 1024  # FailureReason: its maximum length
RETRYING = "Insufficient capacity error from EC2 while launching instances, retrying!"
NO_CAPACITY = "InsufficientCapacityError: Unable to provision requested ML compute capacity."
MESSAGES = {
    "Completed": "Training job completed",
    "Failed": "Training job failed",
    "Stopped": "Training job stopped",
    "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
}


class Lifecycle:
    """Runs one job. What goes wrong in the stand-in itself ends the job too, with words that say so."""

    def __init__(self, plane: Plane, job: Job) -> None:
        self._plane, self._job, self._dials = plane, job, plane.dials

    def run(self) -> None:
        """The whole life."""
        try:
            self._run()
        except Exception:
            if not self._plane.closing:
                said = traceback.format_exc(limit=-3)
                cluster.end(self._job, 0.0)
                self._finish("Failed", "Failed", f"InternalServerError: the stand-in: {said}", False)
        finally:
            self._job.done.set()

    def _run(self) -> None:
        job = self._job
        if job.status == "InProgress":
            job.move("Starting", "Starting the training job")
        if job.pause(self._dials.starting_s):
            return self._finish("Stopped", "Stopped")
        uri = job.request["AlgorithmSpecification"].get("TrainingImage", "")
        image, again = images.find(self._plane.images, uri), True
        if not self._acquire():
            return None
        if image is None:
            return self._finish("Failed", "Failed", images.missing(uri, job.request["RoleArn"]))
        while again:
            try:
                ended = self._live(image)
            except DataError as error:
                cluster.end(job, 0.0)
                return self._finish("Failed", "Failed", str(error))
            again = self._another_life(ended)
            if again:
                job.pause(self._dials.restarting_s)
        return None

    def _acquire(self) -> bool:
        """Machines for the job: a warm pool that matches, else free ones, else Pending until there are some."""
        job = self._job
        with self._plane.lock:
            fails = self._dials.next_capacity_errors > 0
            self._dials.next_capacity_errors -= fails
        if fails:
            job.move("Pending", RETRYING)
            self._finish("Failed", "Failed", NO_CAPACITY)
            return False
        while not self._take():
            if job.secondary != "Pending":
                job.move("Pending", RETRYING)
            if job.pause(0.05):
                self._finish("Stopped", "Stopped")
                return False
        if job.status == "InProgress":
            job.move("Starting", "Preparing the instances for training")
        return True

    def _take(self) -> bool:
        job, plane = self._job, self._plane
        with plane.lock:
            job.machines = plane.pools.claim(job) or plane.fleet.take(job.type, job.count, job.name)
            if job.machines and job.keep_alive_s:
                # "Considerations": no pool with Spot.
                job.pool = Pool.TERMINATED if job.request.get("EnableManagedSpotTraining") else Pool.IN_USE
            return bool(job.machines)

    def _live(self, image: Image) -> Ended:
        """Download, run, end. Raises DataError."""
        job, plane = self._job, self._plane
        job.life += 1
        job.hosts = cluster.lay_out(job, plane.folder / "jobs" / job.name / str(job.life), plane.network)
        self._move("Downloading", "Downloading input data")
        cluster.download(job, plane.storage)
        if job.pause(self._dials.downloading_s):
            cluster.end(job, 0.0)
            return Ended("Stopped")
        job.training_from = job.training_from or time.time()
        self._move("Training", "Training image download completed. Training in progress.")
        cluster.start(job, image, plane)
        ended = cluster.watch(job, job.training_from + self._max_runtime())
        if ended.why == "MaxRuntimeExceeded":
            job.status = "Stopping"
            job.move("Stopping", "Stopping the training job")
        cluster.end(job, self._dials.grace_s)
        return ended

    def _another_life(self, ended: Ended) -> bool:
        """Whether the containers start again in this job; else it is finished."""
        if ended.why == "Failed" and self._repaired(ended):
            return True
        self._upload()
        self._conclude(ended)
        return False

    def _repaired(self, ended: Ended) -> bool:
        job, plane = self._job, self._plane
        with plane.lock:
            if self._dials.repair == "off" or job.repairs >= self._dials.repairs_most or ended.first is None:
                return False
            job.repairs += 1
            job.machines = [plane.fleet.replace(m) if m is ended.first.machine else m for m in job.machines]
        job.move("Restarting", "Repairing training cluster due to hardware failure")
        return True

    def _upload(self) -> None:
        self._move("Uploading", "Uploading generated training model")
        self._plane.storage.upload(self._job, [host.opt_ml for host in self._job.hosts])
        time.sleep(self._dials.uploading_s)

    def _conclude(self, ended: Ended) -> None:
        if ended.why in ("Stopped", "MaxRuntimeExceeded"):
            return self._finish("Stopped", ended.why)
        if ended.first is not None:
            said, code = f"AlgorithmError: {ended.first.failure()}", f", exit code: {ended.first.code}"
            reason = said[: REASON_CHARACTERS - len(code)] + code
            return self._finish("Failed", "Failed", reason)
        return self._finish("Completed", "Completed")

    def _finish(self, status: str, secondary: str, reason: str = "", keep: bool = True) -> None:
        """The end, as everybody sees it; then the pool, a while later. `keep`: not where the stand-in itself failed.

        "Warm pools": retained after success, after a stop, and after algorithm and client errors.
        """
        job, plane = self._job, self._plane
        with plane.lock:
            job.ended, job.failure = time.time(), reason[:REASON_CHARACTERS]
            job.move(secondary, MESSAGES[secondary])
            keep = keep and bool(job.machines) and job.pool is Pool.IN_USE
            if not keep:
                self._release()
            job.status = status
        if keep:
            time.sleep(self._dials.pool_s)
            with plane.lock:
                job.pool_from = job.ended
                plane.pools.retain(job)

    def _release(self) -> None:
        with self._plane.lock:
            self._plane.fleet.give_back(self._job.machines)
            self._job.machines = []
            if self._job.pool:
                self._job.pool = Pool.TERMINATED

    def _move(self, status: str, message: str) -> None:
        """A job that is being stopped says Stopping until its end."""
        if self._job.status == "InProgress" or status == "Uploading":
            self._job.move(status, message)

    def _max_runtime(self) -> float:
        # StoppingCondition: MaxRuntimeInSeconds, "The default value is 1 day"
        given = (self._job.request.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds", 86400)
        return float(given)
