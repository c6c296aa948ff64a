"""DescribeTrainingJob's answer as our job states and kinds of failure: literal tables. Everything SageMaker said is kept. Pure.

TrainingJobStatus decides, and SecondaryStatus is detail. The words are those of the API's documentation
(DescribeTrainingJob, SecondaryStatus) and of botocore 1.44.5. AWS reserves the right to add more of them.

The beginning of FailureReason gives the kind of failure; none of them proves that hardware is broken. The beginnings are those of
AWS's documentation ("DescribeTrainingJob", FailureReason; "Troubleshooting: training jobs"). What follows them is for people: AWS
asks not to branch on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tasks.launchers.base import JobState, Trouble
from tasks.text.inert import one_line

STATUS: Mapping[str, JobState] = {
    "Stopping": JobState.RUNNING,
    "Completed": JobState.SUCCEEDED,
    "Failed": JobState.FAILED,
    "Stopped": JobState.CANCELLED,
}
# A job in progress that waits for machines; a word that is in neither list is answered by the job's own steps.
WAITS = (
    "Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack", "Downloading", "DownloadingTrainingImage",
    "Interrupted",  # spot: it waits for other machines
    "Restarting",  # cluster repair, or a retry after a service error
)  # fmt: skip
RUNS = (
    "Training",
    "Updating",
    "Uploading",
    "Stopping",
    "Completed",
    "Failed",
    "Stopped",
    "MaxRuntimeExceeded",
)
# SageMaker says Stopped as well where nobody stopped the job: its own time was up.
STOPPED: Mapping[str, str] = {
    "MaxRuntimeExceeded": "it reached its max runtime",
    "MaxWaitTimeExceeded": "it reached its max wait time",
}
SAID_CHARACTERS = 1100  # FailureReason has up to 1024 (botocore 1.44.5), and its kind stands in front
# The container ended badly, the request is wrong, there are no machines, SageMaker itself failed.
REASONS: Mapping[str, Trouble] = {
    "AlgorithmError": Trouble.ENDED,
    "ClientError": Trouble.CONFIGURATION,
    "CapacityError": Trouble.NO_CAPACITY,
    "InsufficientCapacityError": Trouble.NO_CAPACITY,
    "InternalServerError": Trouble.SERVICE,
    "ResourceLimitExceeded": Trouble.QUOTA,
    "ValidationException": Trouble.CONFIGURATION,
}


def state_of(described: Mapping[str, Any]) -> JobState:
    """The state; UNKNOWN if the main status itself is not known. It is final exactly where the main status is."""
    status, secondary = pair(described)
    if status == "InProgress":
        waits = secondary in WAITS or not (trained(described) or secondary in RUNS)
        return JobState.PENDING if waits else JobState.RUNNING
    if status == "Stopped":
        return JobState.FAILED if secondary in STOPPED else JobState.CANCELLED
    return STATUS.get(status, JobState.UNKNOWN)


def pair(described: Mapping[str, Any]) -> tuple[str, str]:
    """The status and the secondary status, in SageMaker's words.

    Only a job that has ended can be deleted (DeleteTrainingJob), and how it ended is the second word.
    """
    status, secondary = str(described.get("TrainingJobStatus", "")), str(described.get("SecondaryStatus", ""))
    if status == "Deleting":
        status = secondary if secondary in ("Completed", "Failed") else "Stopped"
    return status, secondary


def detail_of(described: Mapping[str, Any]) -> str:
    """What SageMaker reports about the job now, for people."""
    status, secondary = pair(described)
    phrases = [status if status == secondary else f"{status}/{secondary}"]
    phrases += [STOPPED[secondary]] if secondary in STOPPED else []
    reason = str(described.get("FailureReason") or "")
    steps = described.get("SecondaryStatusTransitions") or [{}]
    message = str(steps[-1].get("StatusMessage") or "")
    if message and message not in (secondary, reason):
        phrases.append(one_line(message))
    if reason:
        phrases.append(one_line(reason, SAID_CHARACTERS))
    return ": ".join(phrases)


def history_of(described: Mapping[str, Any]) -> tuple[str, ...]:
    """Every state of the job: when, which, and SageMaker's own message."""
    lines = []
    for step in described.get("SecondaryStatusTransitions") or ():
        message = one_line(str(step.get("StatusMessage") or ""))
        lines.append(f"{utc(step.get('StartTime'))} {step.get('Status', '')}: {message}".rstrip(": "))
    reason = str(described.get("FailureReason") or "")
    if reason:
        lines.append(f"{utc(described.get('TrainingEndTime'))} {one_line(reason, SAID_CHARACTERS)}")
    return tuple(lines)


def trained(described: Mapping[str, Any]) -> bool:
    """Whether the job's containers ever ran."""
    steps = described.get("SecondaryStatusTransitions") or ()
    return bool(described.get("TrainingStartTime")) or any(step.get("Status") == "Training" for step in steps)


def starts(described: Mapping[str, Any]) -> list[datetime]:
    """The starts of the job's containers: one more after each restart or interruption that led to training again. Each is dated with
    the step before it, in full seconds as S3 dates objects: all that the start leaves is younger.
    """
    dates, fresh = list[datetime](), True
    before = datetime.min.replace(tzinfo=UTC)
    for step in described.get("SecondaryStatusTransitions") or ():
        trains = step.get("Status") == "Training"
        if trains and fresh:
            dates.append(before)
        fresh = step.get("Status") in ("Restarting", "Interrupted") or (fresh and not trains)
        before = step["StartTime"].replace(microsecond=0)
    return dates


def keeps(described: Mapping[str, Any]) -> bool:
    """Whether the request asked to keep its machines afterwards."""
    return bool((described.get("ResourceConfig") or {}).get("KeepAlivePeriodInSeconds"))


def utc(when: object) -> str:
    """ "2026-11-21T08:30:00Z"; "?" for no time."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(when, datetime) else "?"


def trouble_of(status: str, secondary: str, reason: str, trained: bool) -> Trouble:
    """What went wrong with a job that ended; NONE for one that ended well or still runs.

    `trained` says whether its containers ever ran. A reason of no known kind is ENDED: judge by the report.
    """
    if status == "Stopped":
        if secondary == "MaxRuntimeExceeded":
            return Trouble.MAX_RUNTIME
        if secondary == "MaxWaitTimeExceeded":  # the wait for spot instances counts as well
            return Trouble.MAX_RUNTIME if trained else Trouble.NO_CAPACITY
        return Trouble.STOPPED
    if status != "Failed":
        return Trouble.NONE
    return REASONS.get(reason.partition(":")[0].strip(), Trouble.ENDED)
