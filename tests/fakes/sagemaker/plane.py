"""The control plane: jobs, machines and pools, and the operations of SageMaker's API on them.

A SIMULATION. The rules are copied from AWS's documentation, each with its page beside it; times, words and repairs are copies,
never observations. What passes here has not passed on AWS.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from functools import cache
from pathlib import Path
from typing import Any

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
        if problems := _problems(operation, request):
            raise invalid(problems)
        with self.lock:
            self.pools.expire()
            return OPERATIONS[operation](self, request)

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """CreateTrainingJob."""
        job = Job(request, self.region)
        if job.name in self.jobs:
            raise ApiError(
                "ResourceInUse",
                "Training job names must be unique within an AWS account and region, but a training job with the name "
                f"{job.name} already exists ({self.jobs[job.name].arn})",
            )
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

    def find(self, name: str) -> Job:
        """Raises ApiError."""
        if name not in self.jobs:
            raise invalid("Requested resource not found.")
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
            host.signal(signal.SIGKILL)
        until = time.monotonic() + 5
        while any(host.code is None for host in running if host.process) and time.monotonic() < until:
            time.sleep(0.01)


OPERATIONS = {
    "CreateTrainingJob": Plane.create,
    "DescribeTrainingJob": Plane.describe,
    "StopTrainingJob": Plane.stop,
    "UpdateTrainingJob": Plane.update,
}


@cache
def _service() -> Any:
    """botocore's model of SageMaker."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("sagemaker", "service-2"))


def _problems(operation: str, request: dict[str, Any]) -> str:
    """What botocore's own validation says of the request; "" where it takes it."""
    from botocore.validate import ParamValidator

    shape = _service().operation_model(operation).input_shape
    return str(ParamValidator().validate(request, shape).generate_report())
