"""Preflight of the AWS account: whose credentials these are, and whether its quotas allow the machines and the time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.launchers.base import PreflightCheck
from tasks.launchers.preflight import ok, unseen, wrong
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.probe import CREDENTIALS
from tasks.launchers.sagemaker.preflight.requirements import Requirements

QUOTA = "quota"
# Names as Service Quotas lists them for the service "sagemaker"; the limits of one job are 20 instances and 432,000 s where the
# account has no others ("Amazon SageMaker AI endpoints and quotas", AWS General Reference).
KIND = "{} for {}training job usage"
POOL = "{} for training warm pool usage"
EVERY = "Number of instances across all {}training jobs"
SIZE = "Maximum number of instances per {}training job"
TIME = "Longest run time for a training job"
PAGE = 100


def credentials(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Valid, and of the account whose role the jobs run under: no role is passed from another account (IAM, PassRole)."""
    caller = clients.request("sts", "get_caller_identity")
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
        """The row of this quota."""
        return next((row for row in rows if row.get("QuotaName") == self.name), None)


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
    spot, nodes = "spot " if asked.options.spot else "", asked.nodes
    unkept = (
        'until then, placement = "in_job": the machines would not be kept, and the training would get others'
    )
    shorter = "a shorter max_runtime_minutes (in_job, the checks and the time to answer count as well)"
    return (
        Wanted(KIND.format(asked.kind, spot), nodes, reserved=True),
        *((Wanted(POOL.format(asked.kind), nodes, instead=unkept),) if asked.pooled else ()),
        Wanted(EVERY.format(spot), nodes, reserved=True),
        Wanted(SIZE.format(spot), nodes, reserved=True),
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
        said = f"{wanted.name!r} is in no list of Service Quotas; {wanted.value}{wanted.unit} wanted"
        return unseen(QUOTA, said)
    value = float(found["Value"])
    said = f"{wanted.name}: {value:.0f}{wanted.unit}, {wanted.value}{wanted.unit} wanted"
    if value >= wanted.value:
        return ok(QUOTA, said)
    remedy = (
        f"aws service-quotas request-service-quota-increase --region {asked.region} --service-code sagemaker "
        f"--quota-code {found['QuotaCode']} --desired-value {wanted.value}"
    )
    remedy += f"; or {wanted.instead}" if wanted.instead else ""
    if asked.options.training_plan_arn and wanted.reserved:
        return unseen(QUOTA, f"{said}; whether it counts for a training plan is not known", remedy)
    return wrong(QUOTA, said, remedy)
