"""What launchers require of a job before they plan it, say of one that is not there, and start its containers with, whatever the
engine. Pure.

Each requirement raises LaunchRejected, with the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from checks import bundle as bundles
from checks.bundle import PassedNode
from checks.value_types import DecodeError
from tasks.launchers.base import JobSpec, JobState, JobStatus, LaunchRejected, Work

PASSED = "pass.json"
FILE_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
# What a person may tell the agent.
KNOBS = ("PRELAUNCH_JOIN_S", "PRELAUNCH_GRACE_S", "PRELAUNCH_PORT")


def require_name(job: JobSpec, form: str, remedy: str) -> None:
    """Its name has the form that the engine takes."""
    if not re.fullmatch(form, job.name):
        raise LaunchRejected(f"job name {job.name!r:.80} is not of the form {form}. {remedy}")


def require_end(job: JobSpec) -> None:
    """Its longest time is one that ends."""
    if not 0 < job.max_runtime_s < float("inf"):
        raise LaunchRejected(f"{job.name} may run for {job.max_runtime_s} s. Give a time above 0 that ends.")


def require_files(job: JobSpec, own: Collection[str]) -> None:
    """Its files have plain names, and none of the launcher's `own`."""
    for name in job.files:
        if name in own or not re.fullmatch(FILE_NAME, name):
            raise LaunchRejected(f"{job.name}: a file cannot be named {name!r:.80}. Use a plain, free name.")


def passed_nodes(job: JobSpec) -> tuple[PassedNode, ...]:
    """The nodes that passed, for the training behind them."""
    try:
        return bundles.load_pass(job.files.get(PASSED, b"")).nodes
    except DecodeError as error:
        raise LaunchRejected(f"{job.name}: the pass of its nodes cannot be read: {error}") from error


def require_no_request(job: JobSpec, remedy: str) -> None:
    """It has nothing that only SageMaker understands."""
    if job.request or job.trainer:
        raise LaunchRejected(f"{job.name}: [training] request and model_trainer are for SageMaker. {remedy}")


def require_variables(job: JobSpec, reserved: tuple[str, ...], names: Collection[str], readers: str) -> None:
    """Its variables can be set, and none tells the `readers` what to do: none begins as the `reserved` ones, except for the KNOBS,
    and none is one of the `names`.
    """
    for name, value in job.environment.items():
        if not re.fullmatch(VARIABLE, name) or "\0" in value:
            raise LaunchRejected(f"{job.name}: {name!r:.80} cannot be an environment variable.")
        if (name.startswith(reserved) and name not in KNOBS) or name in names:
            message = f"{job.name}: the variable {name:.80} would tell {readers} what to do. Take it out of [training.environment]."
            raise LaunchRejected(message)


def no_job(detail: str) -> JobStatus:
    """The engine answered, and has no such job."""
    return JobStatus(JobState.UNKNOWN, detail, "", {}, absent=True)


def agent_arguments(
    job: JobSpec, common: tuple[str, ...] = (), confirm: tuple[str, ...] = (), ask: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Verb and options, up to the command. `common` are for checks and gates, `confirm` and `ask` follow these two options."""
    observe = ("--observe",) if job.observe else ()
    asks = ("--ask-s", f"{job.ask_s:g}", *ask) if job.ask_s else ()
    match job.work:
        case Work.COMMAND:
            return ("exec",)
        case Work.CHECK:
            return ("check", *common)
        case Work.CONFIRM:
            return ("gate", *common, "--confirm", *confirm, *observe)
        case Work.GATE:
            return ("gate", *common, *observe, *asks)


def filled(command: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The command with these placeholders replaced; a value is not read again."""
    names = "|".join(map(re.escape, values))
    return tuple(re.sub(names, lambda match: values[match[0]], argument) for argument in command)
