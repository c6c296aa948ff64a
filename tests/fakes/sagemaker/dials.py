"""What a test may turn on the stand-in, while it runs: times and everything that goes wrong on AWS.

The defaults are a good day in a hurry: AWS takes minutes for what takes tenths of a second here.
"""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass
class Dials:
    """Seconds end in `_s`. Each fault stays until it is turned back, those that count (`next_...`) are used up."""

    # Times.
    starting_s: float = 0.05
    downloading_s: float = 0.05
    uploading_s: float = 0.05
    pool_s: float = 0.1  # from the job's end until its warm pool is Available
    # Between two lives of a job's containers, minutes on AWS: S3 tells lives apart by LastModified, which has whole seconds.
    restarting_s: float = 1.1
    grace_s: float = 120.0  # StopTrainingJob: "SIGTERM ... delays job termination for 120 seconds"
    clock_skew_s: float = 0.0  # AWS's clock less ours

    # Capacity.
    next_capacity_errors: int = 0

    # The service.
    throttle: dict[str, Any] = dataclasses.field(default_factory=dict)  # see faults.Throttle
    s3_faults: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # see faults.Broken

    # Clusters and pools.
    repair: str = "off"  # or "always"
    repairs_most: int = 10  # "Cluster repair": at most 10 times
    pool_order: str = "kept"  # or "reversed": the hosts of a reused pool get other names

    def turn(self, name: str, value: Any) -> None:
        """Set one. Raises KeyError."""
        if name not in vars(self):
            raise KeyError(f"no dial {name!r}")
        setattr(self, name, value)
