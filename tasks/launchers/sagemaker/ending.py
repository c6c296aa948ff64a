"""End a job: StopTrainingJob, and nothing of it left. SIGTERM, up to 120 s, SIGKILL, then what it wrote is uploaded."""

from __future__ import annotations

import time

from tasks.launchers.base import LaunchError
from tasks.launchers.sagemaker import pool
from tasks.launchers.sagemaker.calls import Clients
from tasks.launchers.sagemaker.describe import Described, describe
from tasks.launchers.sagemaker.refusals import Refused, explained
from tasks.launchers.sagemaker.states import detail_of, state_of

# "StopTrainingJob": the container has 120 s; the rest is for the upload of its output.
STOP_S = 600.0
FIRST_LOOK_S = 0.2


def cancel(clients: Clients, name: str, poll_s: float, within_s: float = STOP_S) -> None:
    """Stop it, wait for its end, let its machines go. Unknown and ended jobs are fine.

    Raises LaunchError, with what to type where something may be left.
    """
    try:
        described = describe(clients, name)
        if described is not None and not state_of(described).final:
            _stop(clients, name)
            _wait(clients, name, poll_s, within_s)
    except LaunchError as error:
        raise pool.with_command(error, clients, name, pool.STOP) from error
    if described is not None:
        pool.release(clients, name, poll_s)


def _stop(clients: Clients, name: str) -> None:
    try:
        clients.tried(
            "sagemaker:StopTrainingJob", lambda: clients.sagemaker.stop_training_job(TrainingJobName=name)
        )
    except Refused as refusal:
        # "The request was rejected because the training job is in status ...": it ended meanwhile.
        if not refusal.missing and refusal.code != "ValidationException":
            raise explained(refusal) from refusal


def _wait(clients: Clients, name: str, poll_s: float, within_s: float) -> Described | None:
    end, pause = time.monotonic() + within_s, min(FIRST_LOOK_S, poll_s)
    while (described := describe(clients, name)) and not state_of(described).final:
        if time.monotonic() >= end:
            raise LaunchError(
                f"{name} was told to stop and has not ended after {within_s:g} s: {detail_of(described)}."
            )
        time.sleep(pause)
        pause = min(poll_s, pause * 1.5)
    return described
