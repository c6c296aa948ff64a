"""The control plane: jobs, machines and pools, and the operations of SageMaker's API on them.

A SIMULATION. The rules are copied from AWS's documentation, each with its page beside it; times, words and repairs are copies,
never observations. What passes here has not passed on AWS.
"""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

from tests.fakes.sagemaker import admission, validate
from tests.fakes.sagemaker.dials import Dials
from tests.fakes.sagemaker.errors import ApiError, invalid
from tests.fakes.sagemaker.images import Image
from tests.fakes.sagemaker.job import FINAL, Job
from tests.fakes.sagemaker.lifecycle import Lifecycle
from tests.fakes.sagemaker.logs import Logs
from tests.fakes.sagemaker.machines import Fleet, Machine
from tests.fakes.sagemaker.network import Loopback, Namespaces
from tests.fakes.sagemaker.pools import Pools
from tests.fakes.sagemaker.storage import Storage

PAGE = 10  # ListTrainingJobs: the default of MaxResults


class Plane:
    """One account in one region. `network` and `access` are set once the server listens."""

    def __init__(
        self,
        region: str,
        folder: Path,
        machines: list[Machine],
        images: dict[str, Image],
        dials: Dials,
        storage: Storage,
        logs: Logs,
    ) -> None:
        self.region, self.folder, self.images, self.dials = region, folder, images, dials
        self.storage, self.logs = storage, logs
        self.lock = threading.RLock()
        self.fleet = Fleet(machines, folder)
        self.pools = Pools(self.fleet, dials)
        self.jobs: dict[str, Job] = {}
        self.roles: dict[str, str] = {}  # token of a job's credentials -> its role
        self.network: Loopback | Namespaces
        self.endpoint, self.credentials = "", ""
        self.closing = False

    def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """One API call. Raises ApiError."""
        problems = validate.problems(operation, request)
        if problems:
            raise invalid(problems)
        with self.lock:
            self.pools.expire()
            return OPERATIONS[operation](self, request)

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """CreateTrainingJob."""
        job = Job(request, self.region, tags={t["Key"]: t["Value"] for t in request.get("Tags", ())})
        if job.name in self.jobs:
            raise ApiError(
                "ResourceInUse",
                "Training job names must be unique within an AWS account and region, but a training job with the name "
                f"{job.name} already exists ({self.jobs[job.name].arn})",
            )
        admission.admit(job, list(self.jobs.values()), self.dials)
        self.jobs[job.name] = job
        threading.Thread(target=Lifecycle(self, job).run, daemon=True, name=job.name).start()
        return {"TrainingJobArn": job.arn}

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """DescribeTrainingJob."""
        return self.find(request["TrainingJobName"]).describe(self.dials.clock_skew_s)

    def stop(self, request: dict[str, Any]) -> dict[str, Any]:
        """StopTrainingJob: "changes the status of the job to Stopping"."""
        job = self.find(request["TrainingJobName"])
        if job.status in FINAL:
            raise invalid(f"The request was rejected because the training job is in status {job.status}.")
        if job.status == "InProgress":
            job.status = "Stopping"
            job.move("Stopping", "Stopping the training job")
            job.stop.set()
        return {}

    def update(self, request: dict[str, Any]) -> dict[str, Any]:
        """UpdateTrainingJob: "You can only update the keep-alive period of a warm pool that is Available"."""
        job = self.find(request["TrainingJobName"])
        wanted = request.get("ResourceConfig")
        if wanted is not None and not self.pools.update(job, wanted["KeepAlivePeriodInSeconds"]):
            status = job.pool.value or "absent"
            raise invalid(
                f"Invalid KeepAlivePeriodInSeconds update for training job {job.name}: its warm pool is {status}, not Available."
            )
        return {"TrainingJobArn": job.arn}

    def list(self, request: dict[str, Any]) -> dict[str, Any]:
        """ListTrainingJobs: newest first, page by page."""
        skew = self.dials.clock_skew_s
        found = [job for job in self.jobs.values() if _selected(job, request, skew)]
        key = {"Name": lambda j: j.name, "Status": lambda j: j.status}.get(
            request.get("SortBy", ""), lambda j: str(f"{j.created:020.6f}")
        )
        found.sort(key=key, reverse=request.get("SortOrder", "Descending") == "Descending")
        start, count = int(request.get("NextToken") or 0), request.get("MaxResults", PAGE)
        answer: dict[str, Any] = {
            "TrainingJobSummaries": [job.summary(skew) for job in found[start:][:count]]
        }
        return answer | ({"NextToken": str(start + count)} if start + count < len(found) else {})

    def plan(self, request: dict[str, Any]) -> dict[str, Any]:
        """DescribeTrainingPlan: as the dial says."""
        name = request["TrainingPlanName"].rpartition("/")[2]
        if name not in self.dials.training_plans:
            raise ApiError("ResourceNotFound", f"Training plan {name} does not exist.")
        arn = f"arn:aws:sagemaker:{self.region}:123456789012:training-plan/{name}"
        return {
            "TrainingPlanArn": arn,
            "TrainingPlanName": name,
            "Status": "Active",
            **self.dials.training_plans[name],
        }

    def list_tags(self, request: dict[str, Any]) -> dict[str, Any]:
        """ListTags, of training jobs."""
        tags = self._by_arn(request["ResourceArn"]).tags
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def add_tags(self, request: dict[str, Any]) -> dict[str, Any]:
        """AddTags, to training jobs."""
        self._by_arn(request["ResourceArn"]).tags |= {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        return self.list_tags(request)

    def find(self, name: str) -> Job:
        """Raises ApiError."""
        if name not in self.jobs:
            raise ApiError(self.dials.not_found, "Requested resource not found.")
        return self.jobs[name]

    def access(self, job: Job) -> dict[str, str]:
        """How a job's containers get to AWS: temporary credentials of its role, from an address that the SDKs know.

        "Run training in internet-free mode": no calls to AWS, and no credentials.
        """
        region = {"AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region}
        if job.request.get("EnableNetworkIsolation"):
            return region
        token = uuid.uuid4().hex
        with self.lock:
            self.roles[token] = job.request["RoleArn"]
        there = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.credentials}/_stand_in/credentials/{token}"}
        return region | there | {"AWS_ENDPOINT_URL": self.endpoint, "AWS_EC2_METADATA_DISABLED": "true"}

    def close(self) -> None:
        """Every host dies; what its threads then do no longer matters."""
        with self.lock:
            self.closing = True
            running = [host for job in self.jobs.values() for host in job.hosts]
        for host in running:
            host.die()
        until = time.monotonic() + 5
        while any(host.code is None for host in running if host.process) and time.monotonic() < until:
            time.sleep(0.01)

    def _by_arn(self, arn: str) -> Job:
        return self.find(arn.rpartition("/")[2])


OPERATIONS = {
    "CreateTrainingJob": Plane.create,
    "DescribeTrainingJob": Plane.describe,
    "StopTrainingJob": Plane.stop,
    "UpdateTrainingJob": Plane.update,
    "ListTrainingJobs": Plane.list,
    "DescribeTrainingPlan": Plane.plan,
    "ListTags": Plane.list_tags,
    "AddTags": Plane.add_tags,
}


def _selected(job: Job, request: dict[str, Any], skew_s: float) -> bool:
    times = {"CreationTime": job.created + skew_s, "LastModifiedTime": (job.changed or job.created) + skew_s}
    wanted = {"StatusEquals": job.status, "WarmPoolStatusEquals": job.pool.value}
    wanted["TrainingPlanArnEquals"] = job.resources.get("TrainingPlanArn", "")
    return (
        request.get("NameContains", "") in job.name
        and all(request.get(key, value) == value for key, value in wanted.items())
        and all(float(request.get(f"{key}After", value)) <= value for key, value in times.items())
        and all(float(request.get(f"{key}Before", value)) >= value for key, value in times.items())
    )
