"""What a job leaves: reports and records of its hosts, and an account in moto that they lie in."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checks.documents.report import NodeReport, dump_plain
from checks.model import SCHEMA_VERSION, Declared, Node, Profile
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.output.fetch import SageMakerOutput
from tasks.launchers.sagemaker.request.locations import Places
from tests.tasks.launchers.sagemaker.stubbed import JOB, ended
from tests.tasks.store.servers import Flaky

A, B = "a" * 32, "b" * 32
GROUP = "/aws/sagemaker/TrainingJobs"


def report(host: str, complete: bool = True) -> bytes:
    """A node's report: sound, and of nothing."""
    node = Node(host, 0, A, "c", complete, {"host": host})
    declared = Declared("cpu", 2, 0, 1)
    return dump_plain(NodeReport(SCHEMA_VERSION, "gate", "", Profile.QUICK, declared, (), node, ()))


def record(exit_code: int | None) -> bytes:
    """What its agent says of itself."""
    return json.dumps({"exit_code": exit_code}).encode()


def told(token: str = A, *hosts: str, code: int | None = 0, complete: bool = True) -> dict[str, bytes]:
    """The files of an attempt."""
    files = {}
    for host in hosts or ("algo-1", "algo-2"):
        files[f"{token}/agent/{host}.json"] = record(code)
        files[f"{token}/nodes/{host}.json"] = report(host, complete)
    return files


def packed(files: Mapping[str, bytes], *others: tarfile.TarInfo) -> bytes:
    """output.tar.gz."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for info in others:
            archive.addfile(info, io.BytesIO(b"x" * info.size))
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


@dataclass(frozen=True)
class Account:
    """A bucket with the proxy before it that fails on demand."""

    clients: Clients
    proxy: Flaky
    bucket: str

    @property
    def places(self) -> Places:
        """Of the job."""
        return Places(f"s3://{self.bucket}/gates", JOB)

    def output(self) -> SageMakerOutput:
        """What another launcher would see."""
        return SageMakerOutput(self.clients, self.places)

    def writes(self, files: Mapping[str, bytes], below: str = "") -> None:
        """Agents copy these; `below` is another place under the prefix."""
        for path, data in files.items():
            key = f"gates/{below or f'{JOB}/reports/gate'}/{path}"
            self.clients.client("s3").put_object(Bucket=self.bucket, Key=key, Body=data)

    def prints(self, host: str, lines: list[str], epoch: int = 1700000000) -> None:
        """A container prints these."""
        logs, stream = self.clients.client("logs"), f"{JOB}/{host}-{epoch}"
        if not logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]:
            logs.create_log_group(logGroupName=GROUP)
        logs.create_log_stream(logGroupName=GROUP, logStreamName=stream)
        now = int(time.time() * 1000)  # CloudWatch takes nothing that is older than 14 days
        events = [{"timestamp": now + number, "message": line} for number, line in enumerate(lines)]
        logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)

    def ended(self, status: str = "Completed", **more: Any) -> dict[str, Any]:
        """The job's end, as SageMaker describes it."""
        return ended(status, OutputDataConfig={"S3OutputPath": f"s3://{self.bucket}/gates/output"}, **more)

    def reads(self) -> int:
        """How many objects were read since the last question."""
        count = sum(seen.startswith("GET") for seen in self.proxy.seen)
        self.proxy.seen.clear()
        return count


def files_in(folder: Any) -> dict[str, bytes]:
    """Every file below."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
