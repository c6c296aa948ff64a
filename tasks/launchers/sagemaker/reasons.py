"""SageMaker's FailureReason -> what kind of trouble it is. None of it condemns hardware. Pure.

The beginnings are those of AWS's documentation ("DescribeTrainingJob", FailureReason; "Troubleshooting: training jobs"). What
follows them is for people: AWS asks not to branch on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tasks.launchers.base import Trouble

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
