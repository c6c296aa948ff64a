"""For tests: `with stand_in(tmp_path, machines={"ml.m5.large": 3}) as cloud:` is an AWS account with SageMaker in it.

A SIMULATION, see tests/fakes/sagemaker/plane.py. The server is a process of its own, a fork of one that has imported what it needs;
with the block's end, or this process's, it and every container are gone.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tasks.launchers.local.network import lacks_rights
from tests.fakes.forks import Forking
from tests.fakes.sagemaker.dials import Dials
from tests.fakes.sagemaker.images import OURS, ROOT
from tests.fakes.sagemaker.job import FINAL

BUCKET = "prelaunch-test"
REGION = "us-west-2"
ROLE = "arn:aws:iam::123456789012:role/PrelaunchTraining"
IMAGE = f"{OURS}:test"
END_S, POLL_S = 20.0, 0.03
UNPRIVILEGED = ("unshare", "--user", "--map-root-user", "--mount", "true")


class StandInError(Exception):
    """The stand-in did not start, or refused a control call. The message has its words."""


@dataclass(frozen=True)
class Cloud:
    """The account as a test sees it. `folder` holds the hosts' files and the server's own log."""

    url: str
    folder: Path
    bucket: str = BUCKET
    region: str = REGION

    @property
    def environment(self) -> dict[str, str]:
        """What boto3 reads from a process's environment."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIATESTOPERATOR",
            "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-test",
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str) -> Any:
        """boto3, for this account, whatever the environment says."""
        import boto3
        from botocore.config import Config

        given, names = self.environment, ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        keys = {name.lower(): given[name] for name in names}
        once = Config(retries={"total_max_attempts": 1})
        return boto3.client(service, endpoint_url=self.url, region_name=self.region, config=once, **keys)

    def dial(self, name: str, value: Any) -> None:
        """Turn a dial: see tests/fakes/sagemaker/dials.py."""
        self._ask("dial", name=name, value=value)

    @contextmanager
    def turned(self, **values: Any) -> Iterator[None]:
        """Dials that are turned back to their defaults at the block's end."""
        for name, value in values.items():
            self.dial(name, value)
        try:
            yield
        finally:
            for name in values:
                self.dial(name, getattr(Dials(), name))

    def create(self, name: str, *words: str, **changes: Any) -> str:
        """Create the training job of `request`: its name."""
        self.client("sagemaker").create_training_job(**request(name, *words, **changes))
        return name

    def machines(self) -> list[dict[str, Any]]:
        """Every machine: id, type, boot_id, gpus, owner."""
        return list(self._ask("machines"))

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Every job by name, as described, with machines, lives and repairs."""
        return dict(self._ask("jobs"))

    def hosts(self, job: str) -> list[dict[str, Any]]:
        """The hosts of its last life: machine, address."""
        return list(self._ask("hosts", job=job))

    def running(self) -> list[int]:
        """Process ids of the containers that run."""
        return list(self._ask("running"))

    def repair(self, job: str, index: int = 0) -> str:
        """AWS replaces a machine inside the job's pool: its id afterwards."""
        return str(self._ask("repair", job=job, index=index))

    def keys(self, prefix: str = "") -> list[str]:
        """The bucket's keys below a prefix."""
        pages = self.client("s3").get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def put(self, key: str, data: bytes) -> None:
        """An object in the bucket."""
        self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=data)

    def read(self, key: str) -> bytes:
        """An object of the bucket."""
        return bytes(self.client("s3").get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def log(self, job: str) -> dict[str, list[str]]:
        """Lines in CloudWatch, by stream."""
        client, group = self.client("logs"), "/aws/sagemaker/TrainingJobs"
        try:
            found = client.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{job}/")
        except client.exceptions.ResourceNotFoundException:
            return {}
        names = [stream["logStreamName"] for stream in found["logStreams"]]
        get = client.get_log_events
        events = {n: get(logGroupName=group, logStreamName=n, startFromHead=True)["events"] for n in names}
        return {n: [event["message"] for event in lines] for n, lines in events.items()}

    def wait(self, job: str, timeout_s: float = 240) -> dict[str, Any]:
        """Until the job is over, and its pool where it should be."""

        def over(seen: dict[str, Any]) -> bool:
            return seen["TrainingJobStatus"] in FINAL and bool(seen["settled"])

        return self.until(lambda: self.jobs()[job], over, timeout_s)

    def reach(self, job: str, secondary: str, timeout_s: float = 240.0) -> dict[str, Any]:
        """Until the job's secondary status is, or was, this one."""

        def there(seen: dict[str, Any]) -> bool:
            return secondary in [entry["Status"] for entry in seen["SecondaryStatusTransitions"]]

        return self.until(lambda: self.jobs()[job], there, timeout_s)

    def until(
        self, look: Callable[[], dict[str, Any]], is_so: Callable[[dict[str, Any]], bool], timeout_s: float
    ) -> dict[str, Any]:
        """What is seen once it is so. Raises StandInError."""
        deadline = time.monotonic() + timeout_s
        while not is_so(seen := look()):
            if time.monotonic() > deadline:
                raise StandInError(f"not so after {timeout_s:g} s: {json.dumps(seen, indent=1, default=str)}")
            time.sleep(POLL_S)
        return seen

    def _ask(self, verb: str, **given: Any) -> Any:
        request = urllib.request.Request(f"{self.url}/_stand_in/{verb}", json.dumps(given).encode())
        try:
            with _direct.open(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise StandInError(error.read().decode(errors="replace")) from None


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(name: str, *words: str, **changes: Any) -> dict[str, Any]:
    """A CreateTrainingJob request that the stand-in takes: one ml.m5.large that runs `words`, in our image.

    `instances`, `type`, `keep_alive_s` and `volume_gb` are shorthands; other keys are the request's own members.
    """
    resources = {
        "InstanceType": changes.pop("type", "ml.m5.large"),
        "InstanceCount": changes.pop("instances", 1),
        "VolumeSizeInGB": changes.pop("volume_gb", 10),
    }
    if keep_alive_s := changes.pop("keep_alive_s", 0):
        resources["KeepAlivePeriodInSeconds"] = keep_alive_s
    algorithm: dict[str, Any] = {"TrainingImage": IMAGE, "TrainingInputMode": "File"}
    if words:
        algorithm["ContainerEntrypoint"] = list(words)
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": algorithm,
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out"},
        "ResourceConfig": resources,
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        **changes,
    }


def unavailable() -> str:
    """Why this process can make no containers, or ""."""
    if os.geteuid() == 0:
        return lacks_rights()
    able = subprocess.run(UNPRIVILEGED, check=False, capture_output=True).returncode == 0
    return "" if able else "containers need root, or user namespaces (sysctl user.max_user_namespaces)"


@contextmanager
def stand_in(
    folder: Path,
    machines: Mapping[str, Any],
    images: Mapping[str, Mapping[str, Any]] | None = None,
    dials: Mapping[str, Any] | None = None,
    network: str = "loopback",
    bucket: str = BUCKET,
    region: str = REGION,
) -> Iterator[Cloud]:
    """An account with these machines (type -> count, or a list of them), images and dials. Raises StandInError.

    `images`: URI prefix -> path, environment, entrypoint, working_directory; `IMAGE` runs this repository's agent.
    """
    home = folder / "sagemaker"
    home.mkdir(parents=True)
    config = {"folder": str(home), "machines": dict(machines), "images": dict(images or {})}
    config |= {"dials": dict(dials or {}), "network": network, "region": region, "bucket": bucket}
    (home / "config.json").write_text(json.dumps(config))
    server = _fork(home)
    try:
        yield Cloud(_url(server, home), home, bucket, region)
    finally:
        server.end()


@dataclass
class _Server:
    """A stand-in's process, which is no child of this one."""

    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]

    def end(self) -> None:
        """With its standard input it ends in order; SIGKILL where it does not."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            descriptor = -1
        self.stdin.close()
        self.stdout.close()
        if descriptor < 0:
            return
        if not select.select([descriptor], [], [], END_S)[0]:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], END_S)
        os.close(descriptor)


def _environment() -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    return clean | {"PYTHONPATH": str(ROOT)}


@functools.cache
def _forking() -> Forking:
    """The process that has imported everything."""
    argv = (sys.executable, "-m", "tests.fakes.sagemaker")
    return Forking(*argv, cwd=ROOT, env=_environment(), stdout=subprocess.DEVNULL)


def end_forking() -> None:
    """End the process that stand-ins are forks of, if there is one; a later stand-in makes another."""
    if _forking.cache_info().currsize:
        _forking().end()
        _forking.cache_clear()


def _fork(home: Path) -> _Server:
    request = {"config": str(home / "config.json"), "environment": _environment()}
    its_stdin, stdin = os.pipe()
    stdout, its_stdout = os.pipe()
    with open(home / "stand_in.log", "wb") as log:
        pid = _forking().fork(request, [its_stdin, its_stdout, log.fileno()])
    os.close(its_stdin)
    os.close(its_stdout)
    server = _Server(pid, os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"))
    (home / "pid").write_text(str(server.pid))
    return server


def _url(process: _Server, home: Path) -> str:
    line = process.stdout.readline()
    if not line:
        said = (home / "stand_in.log").read_text(errors="replace")
        raise StandInError(f"the stand-in did not start: {said[-2000:]}")
    return str(json.loads(line)["url"])
