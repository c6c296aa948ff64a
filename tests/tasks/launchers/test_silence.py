"""An engine that gives no answer about a job is not an engine that has no such job, whatever the reason: every launcher says UNKNOWN.

Nodes of this machine have no engine that could be silent.
"""

from __future__ import annotations

from itertools import repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from tasks.launchers.base import EngineUnavailable, JobState, JobStatus, Trouble
from tasks.launchers.kubernetes import job_record
from tasks.launchers.kubernetes.api import ApiRefused
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.slurm import commands
from tasks.launchers.slurm.commands import MissingCommand, SlurmReply
from tasks.launchers.slurm.launcher import SlurmLauncher
from tests.tasks.launchers.kubernetes.planned import options
from tests.tasks.launchers.sagemaker.stubbed import JOB, stubbed


def aws(code: str, status: int) -> ClientError:
    """AWS's answer."""
    error: Any = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(error, "DescribeTrainingJob")


def of_sagemaker(folder: Path, patch: pytest.MonkeyPatch, error: Exception) -> JobStatus:
    """What is said where DescribeTrainingJob raises this."""
    patch.setattr("tasks.launchers.sagemaker.launcher.ANSWER_S", 0.1)
    with stubbed() as made:
        client = made.launcher.clients.client("sagemaker")
        patch.setattr(client, "describe_training_job", Mock(side_effect=error))
        return made.launcher.state(JOB)


def of_slurm(folder: Path, patch: pytest.MonkeyPatch, answer: Exception | SlurmReply) -> JobStatus:
    """What is said where squeue and sacct answer this."""
    patch.setattr(commands, "run", Mock(side_effect=repeat(answer)))
    return SlurmLauncher(folder).state(JOB)


def of_kubernetes(folder: Path, patch: pytest.MonkeyPatch, error: Exception) -> JobStatus:
    """What is said where every call to the API server raises this."""
    launcher = KubernetesLauncher(folder, options())
    patch.setattr(launcher.api, "_call", Mock(side_effect=error))
    return launcher.state(JOB)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (of_sagemaker, EndpointConnectionError(endpoint_url="https://sagemaker")),
        (of_sagemaker, aws("ServiceUnavailable", 503)),
        (of_sagemaker, aws("ThrottlingException", 400)),
        (of_sagemaker, aws("UnrecognizedClientException", 400)),
        (of_sagemaker, NoCredentialsError()),
        (of_slurm, SlurmReply(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")),
        (of_slurm, SlurmReply(1, "", "slurm_load_jobs error: Invalid authentication credential")),
        (of_slurm, SlurmReply(0, "no row", "")),
        (of_slurm, EngineUnavailable("squeue did not answer within 60 s.")),
        (of_slurm, MissingCommand("there is no squeue on this machine")),
        (of_kubernetes, EngineUnavailable("the API server does not answer")),
        (of_kubernetes, ApiRefused("get", "configmaps", 401, "Unauthorized", "the token has expired")),
        (of_kubernetes, ApiRefused("get", "configmaps", 403, "Forbidden", "no")),
    ],
)  # fmt: skip
def test_no_answer_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Any, answer: Exception | SlurmReply
) -> None:
    """It is neither final nor absent, so that a training goes on and the next look asks again."""
    status = ask(tmp_path, monkeypatch, answer)

    assert (status.state, status.absent, bool(status.detail)) == (JobState.UNKNOWN, False, True)


def test_a_deletion_that_the_engine_itself_says_is_an_end_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes: the job's record is there, and its Jobs are not. (SageMaker's Deleting, sacct's CANCELLED: the launchers' tests.)"""
    launcher = KubernetesLauncher(tmp_path, options())
    monkeypatch.setattr(job_record, "read", lambda api, name: job_record.JobRecord(True, True, 2, None, None))
    monkeypatch.setattr(job_record, "write_final", lambda api, name, final: None)
    monkeypatch.setattr(launcher.api, "items", lambda kind, selector: iter(()))
    monkeypatch.setattr(launcher.api, "delete", lambda kind, name: None)
    status = launcher.state(JOB)

    assert (status.state, status.trouble) == (JobState.CANCELLED, Trouble.STOPPED)
