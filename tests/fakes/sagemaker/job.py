"""One training job: what was asked, what became of it, and what DescribeTrainingJob says of it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.fakes.sagemaker.machines import Machine

ACCOUNT = "123456789012"
FINAL = ("Completed", "Failed", "Stopped")
GROUP = "homogeneousCluster"


class Pool(StrEnum):
    """WarmPoolStatus.Status."""

    NONE = ""
    IN_USE = "InUse"
    AVAILABLE = "Available"
    REUSED = "Reused"
    TERMINATED = "Terminated"


@dataclass
class Job:
    """`request` as it came. `machines` are those that it holds now. Times are the real ones: the API adds the skew."""

    request: dict[str, Any]
    region: str
    created: float = field(default_factory=time.time)
    status: str = "InProgress"
    transitions: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""
    machines: list[Machine] = field(default_factory=list)
    hosts: list[Any] = field(default_factory=list)  # of this life
    life: int = 0
    repairs: int = 0
    training_from: float = 0.0
    ended: float = 0.0
    changed: float = 0.0
    pool: Pool = Pool.NONE
    pool_from: float = 0.0
    pool_to: float = 0.0
    reused_by: str = ""
    stop: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        """TrainingJobName."""
        return str(self.request["TrainingJobName"])

    @property
    def arn(self) -> str:
        """TrainingJobArn."""
        return f"arn:aws:sagemaker:{self.region}:{ACCOUNT}:training-job/{self.name}"

    @property
    def resources(self) -> dict[str, Any]:
        """ResourceConfig."""
        return dict(self.request.get("ResourceConfig") or {})

    @property
    def keep_alive_s(self) -> int:
        """How long its pool is kept, 0 for no pool."""
        return int(self.resources.get("KeepAlivePeriodInSeconds") or 0)

    @property
    def type(self) -> str:
        """The type of its machines."""
        return str(self.resources.get("InstanceType", ""))

    @property
    def count(self) -> int:
        """How many it wants."""
        return int(self.resources.get("InstanceCount", 1))

    @property
    def secondary(self) -> str:
        """SecondaryStatus."""
        return str(self.transitions[-1]["Status"]) if self.transitions else "Starting"

    def move(self, status: str, message: str) -> None:
        """The next secondary status. The same one again with other words is a transition of its own, as on AWS."""
        now = time.time()
        if self.transitions:
            self.transitions[-1]["EndTime"] = now
        self.transitions.append({"Status": status, "StartTime": now, "StatusMessage": message})
        self.changed = now

    def pause(self, seconds: float) -> bool:
        """Wait so long. Whether somebody stopped the job meanwhile."""
        return self.stop.wait(seconds)

    def describe(self, skew_s: float) -> dict[str, Any]:
        """DescribeTrainingJob's answer: what was asked, and what became of it."""
        answer = {k: v for k, v in self.request.items() if k != "Tags"} | self._state(skew_s)
        answer["SecondaryStatusTransitions"] = [_shifted(entry, skew_s) for entry in self.transitions]
        return answer

    def _state(self, skew_s: float) -> dict[str, Any]:
        state: dict[str, Any] = {
            "TrainingJobArn": self.arn,
            "TrainingJobStatus": self.status,
            "SecondaryStatus": self.secondary,
            "CreationTime": self.created + skew_s,
            "LastModifiedTime": (self.changed or self.created) + skew_s,
            "ModelArtifacts": {"S3ModelArtifacts": ""},
        }
        if self.training_from:
            state["TrainingStartTime"] = self.training_from + skew_s
        if self.ended:
            state["TrainingEndTime"] = self.ended + skew_s
        if self.ended and self.training_from:
            seconds = max(1, int(self.ended - self.training_from))
            state |= {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": seconds}
        if self.failure:
            state["FailureReason"] = self.failure
        if self.pool:
            state["WarmPoolStatus"] = self._pool()
        return state

    def _pool(self) -> dict[str, Any]:
        """API reference, WarmPoolStatus: ResourceRetainedBillableTimeInSeconds counts from the end of the job."""
        answer: dict[str, Any] = {"Status": self.pool.value}
        if self.pool_from:
            to = self.pool_to or time.time()
            answer["ResourceRetainedBillableTimeInSeconds"] = max(0, round(to - self.pool_from))
        if self.reused_by:
            answer["ReusedByJob"] = self.reused_by
        return answer


def _shifted(entry: dict[str, Any], skew_s: float) -> dict[str, Any]:
    return entry | {key: entry[key] + skew_s for key in ("StartTime", "EndTime") if key in entry}
