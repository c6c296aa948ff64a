"""Preflight of the AWS account: its credentials, its quotas, the instance type, the training plan and the warm pools.

It finds out whose credentials these are and whether the execution role belongs to the same account; whether the quotas for
training, spot, warm pools and a single job allow the machines and the time; whether EC2 has the instance type in the region; whether
the training plan holds the machines; and whether a warm pool exists already that our health check would get, or whose owner could
get ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tasks.launchers.base import LaunchError, PreflightCheck
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.network import described
from tasks.launchers.sagemaker.preflight.probe import CREDENTIALS, ok, unseen, wrong
from tasks.launchers.sagemaker.preflight.requirements import Requirements
from tasks.launchers.sagemaker.request.machines import pool_key
from tasks.store.aws import Refused

QUOTA = "quota"
# Names as Service Quotas lists them for the service "sagemaker".
TRAINING, SPOT, POOL = (
    "{} for training job usage", "{} for spot training job usage", "{} for training warm pool usage",
)  # fmt: skip
EVERY, EVERY_SPOT = (
    "Number of instances across all training jobs",
    "Number of instances across all spot training jobs",
)
# Limits of one job, 20 instances and 432,000 s where the account has no others ("Amazon SageMaker AI endpoints and quotas",
# AWS General Reference). The codes are those that Service Quotas gives them in every account.
SIZE, SIZE_SPOT, TIME = (
    "Maximum number of instances per training job",
    "Maximum number of instances per spot training job",
    "Longest run time for a training job",
)
CODES = {EVERY: "L-00C91CB5", SIZE: "L-622CFD70", TIME: "L-33A961FD"}
PAGE = 100
TYPE, PLAN, WARM_POOL = "instance type", "training plan", "warm pool"
# A job of a gate: "<gate name>-<stamp>-<four digits>-check-1" (tasks.gate.jobs.new_gate_id).
OURS = re.compile(r"(?P<gate>[a-z0-9-]+?)-(?:\d{8}-\d{6}-[0-9a-f]{4}|plan)-(?:check|train)-\d+(?:-\d+)?")
# "Reserve training plans for your training jobs": SageMaker begins to end the jobs 30 minutes before the capacity does.
ENDING = timedelta(minutes=30)


def credentials(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Valid, and of the account whose role the jobs run under: no role is passed from another account (IAM, PassRole)."""
    try:
        caller = clients.request("sts", "get_caller_identity")
    except Refused as error:
        if not error.is_login:
            raise
        remedy = "Log in (aws sso login, AWS_PROFILE), or renew the credentials."
        return (wrong(CREDENTIALS, f"there are none that AWS accepts: {error.message}", remedy),)
    account = str(caller["Account"])
    if asked.account != account:
        said = f"they are of account {account}, and the role {asked.role} is of {asked.account}"
        return (wrong(CREDENTIALS, said, "Use credentials of the role's account, or a role of this one."),)
    return (ok(CREDENTIALS, f"account {account}, {caller['Arn']}"),)


@dataclass(frozen=True)
class Wanted:
    """A quota and what the gate asks of it: instances, or seconds where `unit` says " s".

    `reserved` says that the machines of a training plan may not count. `instead` is what to write where it is not raised.
    """

    name: str
    value: int
    unit: str = ""
    reserved: bool = False
    instead: str = ""

    def found_in(self, rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The row of this quota, by its name or else by its code."""
        code, listed = CODES.get(self.name), list(rows)
        named = (row for row in listed if row.get("QuotaName") == self.name)
        coded = (row for row in listed if code and row.get("QuotaCode") == code)
        return next(named, next(coded, None))


def quotas(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each quota that the gate needs; what other jobs use of it now counts as well, and is not seen."""
    wanted = wanted_of(asked)
    found = _listed(clients, "list_service_quotas", wanted)
    missing = tuple(one for one in wanted if not one.found_in(found))
    # The account's own value where it has one, else AWS's default.
    found += _listed(clients, "list_aws_default_service_quotas", missing) if missing else []
    return tuple(_line(one, one.found_in(found), asked) for one in wanted)


def wanted_of(asked: Requirements) -> tuple[Wanted, ...]:
    """The quotas that count. A warm pool is counted by its own quota, and a pool cannot be spot. Pure."""
    spot, nodes, pool = asked.options.spot, asked.nodes, 'placement = "in_job"'
    shorter = "a max_runtime_minutes of at most {} (in_job, the checks and the time to answer count as well)"
    return (
        Wanted((SPOT if spot else TRAINING).format(asked.kind), nodes, reserved=True),
        *((Wanted(POOL.format(asked.kind), nodes, instead=pool),) if asked.pooled else ()),
        Wanted(EVERY_SPOT if spot else EVERY, nodes, reserved=True),
        Wanted(SIZE_SPOT if spot else SIZE, nodes, reserved=True),
        Wanted(TIME, asked.run_s, " s", instead=shorter),
    )


def _listed(clients: Clients, call: str, wanted: tuple[Wanted, ...]) -> list[Mapping[str, Any]]:
    """The rows up to the page on which the last wanted quota is."""
    found: list[Mapping[str, Any]] = []
    token: dict[str, Any] = {}
    while True:
        page = clients.request("service-quotas", call, ServiceCode="sagemaker", MaxResults=PAGE, **token)
        found += page["Quotas"]
        if all(one.found_in(found) for one in wanted) or not page.get("NextToken"):
            return found
        token = {"NextToken": page["NextToken"]}


def _line(wanted: Wanted, found: Mapping[str, Any] | None, asked: Requirements) -> PreflightCheck:
    if found is None:
        return unseen(
            QUOTA, f"{wanted.name!r} is in no list of Service Quotas; {wanted.value}{wanted.unit} wanted"
        )
    value = float(found["Value"])
    said = f"{wanted.name}: {value:.0f}{wanted.unit}, {wanted.value}{wanted.unit} wanted"
    if value >= wanted.value:
        return ok(QUOTA, said)
    remedy = (
        f"aws service-quotas request-service-quota-increase --region {asked.region} --service-code sagemaker "
        f"--quota-code {found['QuotaCode']} --desired-value {wanted.value}"
    )
    if wanted.instead:
        remedy += f"; until then, {wanted.instead.format(int(value // 60))}"
    if wanted.name.endswith("warm pool usage"):
        return wrong(
            QUOTA, f"{said}: the machines would not be kept, and the training would get others", remedy
        )
    if asked.options.training_plan_arn and wanted.reserved:
        return unseen(QUOTA, f"{said}; whether it counts for a training plan is not known", remedy)
    return wrong(QUOTA, said, remedy)


def types(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether EC2 has the type in the region; that it is one for training was verified when the job was planned."""
    kind = asked.kind.removeprefix("ml.")
    if not asked.options.training_plan_arn and not _is_offered(kind, clients):
        said = f"EC2 lists no {kind} in {asked.region}: if SageMaker has none there either, no wait for capacity ends"
        return (unseen(TYPE, said, "Choose a region that has this type, or another type."),)
    return (ok(TYPE, f"{asked.nodes} x {asked.kind}"),)


def plan(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether the training plan is active or soon will be, is large enough, has these machines in a zone of the subnets, and lasts."""
    name = asked.options.training_plan_arn.rpartition("/")[2]
    try:
        found = clients.request("sagemaker", "describe_training_plan", TrainingPlanName=name)
    except Refused as error:
        if not error.is_missing:
            raise
        return (
            wrong(PLAN, f"there is no training plan {name}", "Correct training_plan_arn in the gate file."),
        )
    zones = {one["AvailabilityZone"] for one in described(asked, clients)} if asked.options.subnets else set()
    faults = tuple(fault for fault in faults_of(found, asked, zones, datetime.now(UTC)))
    if faults:
        return tuple(wrong(PLAN, f"{name}: {said}", remedy) for said, remedy in faults)
    end = f", ends {found['EndTime']:%Y-%m-%d %H:%M} UTC" if found.get("EndTime") else ""
    return (
        ok(
            PLAN, f"{name}: {found['Status']}, {found.get('AvailableInstanceCount', '?')} instances free{end}"
        ),
    )


def faults_of(
    found: Mapping[str, Any], asked: Requirements, zones: set[str], now: datetime
) -> Iterator[tuple[str, str]]:
    """What is wrong with the plan, each with its remedy. Pure; `zones` empty is no VPC."""
    status = found["Status"]
    if status not in ("Active", "Scheduled"):
        yield f"it is {status}: {found.get('StatusMessage', '')}".rstrip(": "), "Name a plan that is Active."
        return
    starts, ends = found.get("StartTime"), found.get("EndTime")
    waits = asked.options.start_minutes
    if status == "Scheduled" and starts and starts > now + timedelta(minutes=waits):
        yield (
            f"it starts {starts:%Y-%m-%d %H:%M} UTC, and the gate waits {waits:g} minutes",
            "Run the gate later, or raise start_minutes.",
        )
    if ends and ends - ENDING < max(now, starts or now) + timedelta(seconds=asked.check_s):
        yield (
            f"it ends {ends:%Y-%m-%d %H:%M} UTC, before a check of {asked.check_s / 60:g} minutes",
            "Extend it.",
        )
    yield from _machines(found, asked, zones)


def _machines(found: Mapping[str, Any], asked: Requirements, zones: set[str]) -> Iterator[tuple[str, str]]:
    reserved = found.get("ReservedCapacitySummaries", ())
    kinds = {one["InstanceType"] for one in reserved}
    if kinds and asked.kind not in kinds:
        yield f"it reserves {', '.join(sorted(kinds))}, not {asked.kind}", "Name a plan of this type."
    free = found.get("AvailableInstanceCount")
    if found["Status"] == "Active" and free is not None and free < asked.nodes:
        yield (
            f"{free} instances are free, {asked.nodes} wanted ({found.get('UnhealthyInstanceCount', 0)} unhealthy)",
            "Wait for its other jobs to end, or ask for fewer machines.",
        )
    there = {one["AvailabilityZone"] for one in reserved if one.get("AvailabilityZone")}
    if zones and there and not zones & there:
        yield (
            f"its machines are in {', '.join(sorted(there))}, the subnets in {', '.join(sorted(zones))}",
            "Name a subnet in the plan's zone.",
        )


def _is_offered(kind: str, clients: Clients) -> bool:
    """Whether the region has machines of that type; True where EC2 does not say."""
    named = [{"Name": "instance-type", "Values": [kind]}]
    try:
        found = clients.request("ec2", "describe_instance_type_offerings", Filters=named)
    except (Refused, LaunchError):
        return True
    return bool(found["InstanceTypeOfferings"])


def pools(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Whether no foreign pool has our key. A pool that this gate left behind will be used, which is fine."""
    keys = [pool_key(body) for body in asked.bodies]
    same = [name for name in _waiting_pools(clients) if _pool_key_of(name, clients) in keys]
    strange = [name for name in same if gate_of(name) != gate_of(asked.jobs[0])]
    return (_strange_pool(strange[0], asked),) if strange else (ok(WARM_POOL, _pool_text(same)),)


def gate_of(job: str) -> str:
    """The gate's name in a job's name; the whole name where it is no gate's. Pure."""
    found = OURS.fullmatch(job)
    return found["gate"] if found else job


def _waiting_pools(clients: Clients) -> Iterator[str]:
    token: dict[str, str] = {}
    while True:
        page = clients.request(
            "sagemaker", "list_training_jobs", WarmPoolStatusEquals="Available", MaxResults=PAGE, **token
        )
        yield from (one["TrainingJobName"] for one in page["TrainingJobSummaries"])
        if not page.get("NextToken"):
            return
        token = {"NextToken": page["NextToken"]}


def _pool_key_of(name: str, clients: Clients) -> dict[str, object]:
    return pool_key(clients.request("sagemaker", "describe_training_job", TrainingJobName=name))


def _pool_text(same: list[str]) -> str:
    return f"{same[0]}'s waits with our key, and is this gate's own" if same else "no other pool has our key"


def _strange_pool(name: str, asked: Requirements) -> PreflightCheck:
    release = (
        f"aws sagemaker update-training-job --region {asked.region} --training-job-name {name} "
        "--resource-config KeepAlivePeriodInSeconds=0"
    )
    return wrong(
        WARM_POOL,
        f"the pool of {name} waits with our key: the check would take its machines, and its owner could take ours",
        f"Give the gate a role_arn or volume_gb of its own. If nobody wants that pool: {release}",
    )
