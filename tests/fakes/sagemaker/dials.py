"""What a test may turn on the stand-in, while it runs: times, quotas and everything that goes wrong on AWS.

The defaults are a good day in a hurry: AWS takes minutes for what takes tenths of a second here.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any


class NoSuchDial(Exception):
    """A test turned a dial that is not there."""


@dataclasses.dataclass
class Dials:
    """Seconds end in `_s`. Each fault stays until it is turned back, those that count (`next_...`) are used up."""

    # Times. None takes what the request says.
    starting_s: float = 0.05
    downloading_s: float = 0.05
    uploading_s: float = 0.05
    pool_s: float = 0.1  # from the job's end until its warm pool is Available
    # Between two lives of a job's containers, minutes on AWS: S3 tells lives apart by LastModified, which has whole seconds.
    restarting_s: float = 1.1
    grace_s: float = 120.0  # StopTrainingJob: "SIGTERM ... delays job termination for 120 seconds"
    pending_s: float | None = None  # for MaxPendingTimeInSeconds, which is never below 1800
    max_runtime_s: float | None = None
    keep_alive_s: float | None = None
    keep_alive_most_s: int = 3600  # "Train using SageMaker-managed warm pools": at most 3600 s
    clock_skew_s: float = 0.0  # AWS's clock less ours

    # Capacity and quotas. A type that is not listed has enough.
    capacity_after_s: float = 0.0  # how long each job waits for machines, at least
    capacity: bool = True
    next_capacity_errors: int = 0
    capacity_error: str = "InsufficientCapacityError"  # older jobs: "CapacityError"
    quotas: dict[str, int] = dataclasses.field(default_factory=dict)
    spot_quotas: dict[str, int] = dataclasses.field(default_factory=dict)
    # next_capacity_errors and quotas are for jobs alone whose name holds this; such quotas are not listed.
    meant: str = ""
    pool_quotas: dict[str, int] = dataclasses.field(default_factory=dict)
    # "Amazon SageMaker AI endpoints and quotas", AWS General Reference: the defaults of one job.
    most_instances: int = 20
    longest_run_s: int = 432_000

    # The service.
    unassumable: list[str] = dataclasses.field(default_factory=list)
    denied: dict[str, str] = dataclasses.field(default_factory=dict)  # "s3:PutObject": "explicitDeny"
    next_internal_errors: int = 0  # lives that end in InternalServerError ...
    internal_after_s: float = 0.1  # ... so long after training began
    throttle: dict[str, Any] = dataclasses.field(default_factory=dict)  # see faults.Throttle
    s3_faults: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # see faults.Broken
    not_found: str = "ValidationException"  # what AWS answers; its model names ResourceNotFound
    training_plans: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    # Clusters and pools.
    repair: str = "off"  # or "faulty": where a machine has a fault; or "always"
    repairs_most: int = 10  # "Cluster repair": at most 10 times
    pool_order: str = "kept"  # or "reversed": the hosts of a reused pool get other names
    lose_output: bool = False

    def turn(self, name: str, value: Any) -> None:
        """Set one. Raises NoSuchDial."""
        names = [field.name for field in dataclasses.fields(self)]
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            raise NoSuchDial(f"no dial {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        setattr(self, name, value)


def dials(given: dict[str, Any]) -> Dials:
    """The defaults, with these turned. Raises NoSuchDial."""
    made = Dials()
    for name, value in given.items():
        made.turn(name, value)
    return made
