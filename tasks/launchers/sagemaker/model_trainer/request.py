"""A team's own `sagemaker.train.ModelTrainer` as the training job: `[training] model_trainer = "package.module:object"`.

`request_of` has the SDK build the trainer's request in a process of its own (child.py), which holds no credentials and
reaches nobody: neither a plan nor a submit makes a call that is not ours. What the SDK would upload comes back as bytes, at
addresses below the job's own prefix that contain a digest of their content, so that writing them twice changes nothing.

overlay.py combines that request with the gate's own.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.documents.decode import parse_json
from checks.process import own_packages
from checks.value_types import DecodeError
from tasks.launchers.base import LaunchRejected
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.request.locations import Places
from tasks.launchers.sagemaker.request.validate import at

# The builder is private: what was read and tried is 3.27.0 (sagemaker-train 1.27.0). The child looks at its signature, too.
DISTRIBUTION, OLDEST, TOO_NEW = "sagemaker", (3, 27), (4,)
INSTALL = "Install it where the gate runs: pip install 'prelaunch[sagemaker]'."
CHILD = "tasks.launchers.sagemaker.model_trainer.child"
CHILD_S = 180  # the import takes 1.5 to 3 s; the rest is for reading the source folder from a slow disk
ANSWER_BYTES = 64 << 20
SAID_LAST = 600
# Credentials stay with the gate: a request can be built without any, and what is not there cannot be used.
WITHHELD = re.compile(
    r"AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|SECURITY_TOKEN|(DEFAULT_)?PROFILE|CONTAINER_\w+|WEB_IDENTITY_\w+)"
)


@dataclass(frozen=True)
class TrainerRequest:
    """A trainer's own CreateTrainingJob request, and what has to lie in S3 for it: address -> bytes."""

    body: Mapping[str, Any]
    uploads: Mapping[str, bytes]


def request_of(reference: str, places: Places, options: SageMakerOptions) -> TrainerRequest:
    """What the ModelTrainer behind "package.module:object" asks for. Touches no network; raises LaunchRejected.

    The object is a ModelTrainer, or a function without arguments that returns one. A relative source_dir is relative to
    the folder where the command runs.
    """
    # Raise LaunchRejected if the SDK is not there, or is none whose private builder was read. Imports nothing of it.
    version = "none"
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version(DISTRIBUTION)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if not OLDEST <= numbers < TOO_NEW:
        raise LaunchRejected(
            f"model_trainer {reference}: the SageMaker Python SDK here is {version}; its request is built by a private function that"
            f" is known from 3.27 to before 4. {INSTALL} Or use command, image and request of [training] instead."
        )
    with tempfile.TemporaryDirectory(prefix="prelaunch-trainer-") as folder:
        work = Path(folder)
        question = {"reference": reference, "job": places.job, "root": places.root, "output": places.output}
        question |= {"role_arn": options.role_arn, "region": options.region}
        (work / "asked.json").write_text(json.dumps({**question, "seconds": CHILD_S}))
        return _answer(reference, work, _run(reference, work, options.region))


def words_of(body: Mapping[str, object]) -> tuple[str, ...]:
    """What the trainer's container would run, entrypoint and arguments: it comes behind our agent."""
    command: list[str] = []
    for key in ("ContainerEntrypoint", "ContainerArguments"):
        value = at(body, f"AlgorithmSpecification.{key}")
        command += map(str, value) if isinstance(value, list | tuple) else ()
    return tuple(command)


def _environment(work: Path, region: str) -> dict[str, str]:
    """The child's environment: ours without credentials, with a temporary folder of this call and the SDK's role validation off."""
    inherited = {key: value for key, value in os.environ.items() if not WITHHELD.fullmatch(key)}
    return {
        **inherited,
        "AWS_ACCESS_KEY_ID": "none",  # so that nobody goes looking for some
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "SAGEMAKER_VALIDATE_ROLE": "false",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(work),
    }


def _run(reference: str, work: Path, region: str) -> str:
    """Run the child to its end; returns the end of what it said, for an error message."""
    command = (sys.executable, "-P", *own_packages.module(CHILD, str(work)))
    output = work / "said.txt"
    with open(output, "wb") as log:
        child = subprocess.Popen(
            command,
            env=_environment(work, region),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            child.wait(CHILD_S)
        except subprocess.TimeoutExpired:
            raise LaunchRejected(
                f"model_trainer {reference} was not built within {CHILD_S} s. Let its module build the object and do nothing else."
            ) from None
        finally:
            _end(child)
    return output.read_text("utf-8", "replace").strip()[-SAID_LAST:]


def _end(child: subprocess.Popen[bytes]) -> None:
    """End everything that the trainer's module started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _answer(reference: str, work: Path, output: str) -> TrainerRequest:
    """What the child left; raises LaunchRejected with its reason, or with the end of what it said."""
    try:
        answer = parse_json((work / "answer.json").read_bytes(), ANSWER_BYTES)
    except (OSError, DecodeError):
        message = f"model_trainer {reference}: no request came of it. It said: {output!r}."
        raise LaunchRejected(message) from None
    if not isinstance(answer, dict) or "refused" in answer:
        refused = answer.get("refused", "") if isinstance(answer, dict) else ""
        raise LaunchRejected(f"model_trainer {reference}: {refused}")
    files: Mapping[str, str] = answer["files"]
    uploads = {url: (work / name).read_bytes() for url, name in files.items()}
    return TrainerRequest(answer["body"], uploads)
