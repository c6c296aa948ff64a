"""Where a job's files are: in S3 below the gate's prefix, and in the container. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checks.exchange import secret_key
from tasks.launchers.sagemaker.options import SageMakerOptions

# "How Amazon SageMaker provides training information": /opt/ml/input/data/<channel>, /opt/ml/output/data.
CHANNEL = "prelaunch"
FOLDER = f"/opt/ml/input/data/{CHANNEL}"
OUT = "/opt/ml/output/data"
BUNDLE, PASS, COMMAND, CODE, START = (
    f"{FOLDER}/{name}"
    for name in ("bundle.json", "pass.json", "command.json", "prelaunch.tar.gz", "start.sh")
)
# Where the report of the health check that this gate replaces lies, so that what reads that one finds
# this one, with that one's tables in it (tasks/render/seed_report.py).
SEED = "metrics/health_check_metrics.json"


@dataclass(frozen=True)
class Places:
    """The S3 addresses of one job. `root` is the gate's prefix without a slash at its end."""

    root: str
    job: str

    @property
    def inputs(self) -> str:
        """What the job is given: its input channel. With a slash, so that no other job's name begins with it."""
        return f"{self.root}/{self.job}/in/"

    @property
    def reports(self) -> str:
        """What the agents copy their reports to."""
        return f"{self.root}/{self.job}/reports"

    @property
    def answers(self) -> str:
        """Where the agents look for a person's answer while their checks hold."""
        return f"{self.root}/{self.job}/answers"

    @property
    def output(self) -> str:
        """S3OutputPath: SageMaker puts <job>/output/ below it."""
        return f"{self.root}/output"

    @property
    def seed(self) -> str:
        """Where other tools look for the merged report."""
        return f"s3://{bucket_of(self.root)}/{self.job}/{SEED}"

    def answer(self, attempt: str) -> str:
        """A person's answer to one attempt."""
        return f"{self.answers}/{attempt}.json"


def key_in(inputs: str) -> str:
    """Where the key of the exchange lies, in the input channel of a job."""
    return f"{inputs}{secret_key.FILE}"


def places_of(options: SageMakerOptions, job: str) -> Places:
    """The places of a job under these options."""
    return Places(options.prefix.rstrip("/"), job)


def object_of(url: str) -> dict[str, Any]:
    """The arguments of a call to S3 that name the object s3://bucket/key."""
    return {"Bucket": bucket_of(url), "Key": key_of(url)}


def bucket_of(url: str) -> str:
    """The bucket in s3://bucket/key."""
    return url.removeprefix("s3://").partition("/")[0]


def key_of(url: str) -> str:
    """The key in s3://bucket/key."""
    return url.removeprefix("s3://").partition("/")[2]
