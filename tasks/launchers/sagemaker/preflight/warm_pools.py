"""Whether a warm pool exists already that our health check would get, or whose owner could get ours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tasks.launchers.base import PreflightCheck
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.probe import ok, wrong
from tasks.launchers.sagemaker.preflight.requirements import Requirements
from tasks.launchers.sagemaker.request.machines import pool_key

WHAT = "warm pool"
# A job of a gate: "<gate name>-<stamp>-<four digits>-check-1" (tasks.gate.jobs.new_gate_id).
OURS = re.compile(r"(?P<gate>[a-z0-9-]+?)-(?:\d{8}-\d{6}-[0-9a-f]{4}|plan)-(?:check|train)-\d+(?:-\d+)?")
PAGE = 100


def pools(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether no foreign pool has our key. A pool that this gate left behind will be used, which is fine."""
    keys = [pool_key(body) for body in asked.bodies]
    same = [name for name in _available(clients) if _key_of(name, clients) in keys]
    strange = [name for name in same if gate_of(name) != gate_of(asked.jobs[0])]
    return (_strange(strange[0], asked),) if strange else (ok(WHAT, _said(same)),)


def gate_of(job: str) -> str:
    """The gate's name in a job's name; the whole name where it is no gate's. Pure."""
    found = OURS.fullmatch(job)
    return found["gate"] if found else job


def _available(clients: Clients) -> Iterator[str]:
    token: dict[str, str] = {}
    while True:
        page = clients.request(
            "sagemaker", "list_training_jobs", WarmPoolStatusEquals="Available", MaxResults=PAGE, **token
        )
        yield from (one["TrainingJobName"] for one in page["TrainingJobSummaries"])
        if not page.get("NextToken"):
            return
        token = {"NextToken": page["NextToken"]}


def _key_of(name: str, clients: Clients) -> dict[str, object]:
    return pool_key(clients.request("sagemaker", "describe_training_job", TrainingJobName=name))


def _said(same: list[str]) -> str:
    return f"{same[0]}'s waits with our key, and is this gate's own" if same else "no other pool has our key"


def _strange(name: str, asked: Requirements) -> PreflightCheck:
    release = (
        f"aws sagemaker update-training-job --region {asked.region} --training-job-name {name} "
        "--resource-config KeepAlivePeriodInSeconds=0"
    )
    return wrong(
        WHAT,
        f"the pool of {name} waits with our key: the check would take its machines, and its owner could take ours",
        f"Give the gate a role_arn or volume_gb of its own. If nobody wants that pool: {release}",
    )
