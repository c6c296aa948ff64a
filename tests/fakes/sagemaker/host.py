"""One host of one life of a job: its /opt/ml, its environment, its process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.sagemaker.images import Image
from tests.fakes.sagemaker.job import GROUP, Job
from tests.fakes.sagemaker.logs import Logs, Pump
from tests.fakes.sagemaker.machines import Machine
from tests.fakes.sagemaker.network import Place

INSIDE = Path(__file__).with_name("inside.py")
FOLDERS = ("input/config", "input/data", "output/data", "model", "checkpoints", "code", "sagemaker")
CACHE = "/opt/ml/sagemaker/warmpoolcache"
# By these a process that is left behind is found, and what was found on this machine before is not.
PASSED_ON = ("PRELAUNCH_STATE", "PYTEST_SESSION_MARK", "PYTEST_CURRENT_TEST")


@dataclass
class Host:
    """What a job has on one machine."""

    name: str
    machine: Machine
    place: Place
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    pump: Pump | None = None
    stream: str = ""
    closed: bool = False

    @property
    def opt_ml(self) -> Path:
        """What is /opt/ml inside."""
        return self.folder / "opt_ml"

    @property
    def code(self) -> int | None:
        """The exit code, 128 + N after signal N as Docker has it, None while it runs."""
        found = self.process.poll() if self.process else None
        return 128 - found if found is not None and found < 0 else found

    def furnish(self, job: Job, hosts: list[Host]) -> None:
        """Folders and the files of input/config.

        "How Amazon SageMaker provides training information": names and keys of the three files.
        """
        for name in FOLDERS:
            (self.opt_ml / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "scratch").mkdir(exist_ok=True)
        self._config("hyperparameters", job.request.get("HyperParameters", {}))
        self._config("inputdataconfig", _channels(job))
        self._config("resourceconfig", self._resources(hosts))
        lines = ["127.0.0.1 localhost", *(f"{host.place.address} {host.name}" for host in hosts)]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")

    def start(self, command: list[str], environment: dict[str, str], directory: str, cache: str) -> None:
        """Raises OSError."""
        if cache:
            (self.opt_ml / "sagemaker" / "warmpoolcache").mkdir(exist_ok=True)
        own = ("boot_id", "gpus", "driver", "devices", "mounts", "shm_bytes")
        spec = {
            **{name: getattr(self.machine, name) for name in own},
            **{name: str(self.folder / name) for name in ("opt_ml", "hosts", "scratch")},
            "host": self.name,
            "network": self.place.namespace,
            "cache": cache,
            "command": command,
            "environment": environment,
            "working_directory": directory,
        }
        path = self.folder / "container.json"
        path.write_text(json.dumps(spec))
        argv = (sys.executable, "-I", "-S", "-B", str(INSIDE), str(path), str(os.getpid()))
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def read(self, logs: Logs, job: str) -> None:
        """Bring its output to CloudWatch."""
        assert self.process is not None and self.process.stdout is not None
        self.stream = logs.stream(job, self.name)
        self.pump = Pump(logs, self.stream, self.process.stdout)

    def signal(self, number: int) -> None:
        """To its first process; SIGKILL ends everything inside."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def close(self) -> None:
        """After its end: the rest of its log, and what held its network. Twice is fine."""
        if self.closed:
            return
        self.closed = True
        if self.pump:
            self.pump.join()
        if self.process and self.process.stdout:
            self.process.stdout.close()

    def failure(self) -> str:
        """The first 1024 characters of /opt/ml/output/failure, as "FailureReason" shows them."""
        path = self.opt_ml / "output" / "failure"
        return path.read_text(errors="replace")[:1024] if path.is_file() else ""

    def _config(self, name: str, value: object) -> None:
        (self.opt_ml / "input" / "config" / f"{name}.json").write_text(json.dumps(value))

    def _resources(self, hosts: list[Host]) -> dict[str, Any]:
        names, kind = [host.name for host in hosts], self.machine.type
        return {
            "current_host": self.name,
            "current_instance_type": kind,
            "current_group_name": GROUP,
            "hosts": names,
            "instance_groups": [{"instance_group_name": GROUP, "instance_type": kind, "hosts": names}],
            "network_interface_name": self.place.interface,
            "topology": None,
        }


def environment(job: Job, image: Image, machine: Machine, aws: dict[str, str]) -> dict[str, str]:
    """What the entrypoint sees: the image's, SageMaker's, the request's, and the machine's for fake tools."""
    given = {"PATH": image.search, "HOME": "/root", "LANG": "C.UTF-8", **image.environment, **aws}
    given |= {"TRAINING_JOB_NAME": job.name, "TRAINING_JOB_ARN": job.arn}
    given |= {key: os.environ[key] for key in PASSED_ON if key in os.environ}
    return {**given, **job.request.get("Environment", {}), **machine.environment}


def _channels(job: Job) -> dict[str, dict[str, str]]:
    made = {}
    for channel in job.request.get("InputDataConfig", ()):
        source = channel["DataSource"].get("S3DataSource", {})
        made[channel["ChannelName"]] = {
            "TrainingInputMode": channel.get("InputMode", "File"),
            "S3DistributionType": source.get("S3DataDistributionType", "FullyReplicated"),
            "RecordWrapperType": channel.get("RecordWrapperType", "None"),
        }
    return made
