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
USAGE = "{} for {}training job usage"
POOL = "{} for training warm pool usage"
EVERY = "Number of instances across all {}training jobs"
SIZE = "Maximum number of instances per {}training job"
TIME = "Longest run time for a training job"
PAGE = 100


def credentials(needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Valid, and of the account whose role the jobs run under: no role is passed from another account (IAM, PassRole)."""
    caller = clients.request("sts", "get_caller_identity")
    account = str(caller["Account"])
    if needs.account != account:
        message = f"they are of account {account}, and the role {needs.role} is of {needs.account}"
        return (wrong(CREDENTIALS, message, "Use credentials of the role's account, or a role of this one."),)
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

    def found_in(self, entries: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The row of this quota."""
        return next((entry for entry in entries if entry.get("QuotaName") == self.name), None)


def quotas(needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each quota that the gate needs; what other jobs use of it now counts as well, and is not seen."""
    wanted = wanted_of(needs)
    entries = _listed(clients, "list_service_quotas", wanted)
    missing = tuple(quota for quota in wanted if not quota.found_in(entries))
    # The account's own value where it has one, else AWS's default.
    entries += _listed(clients, "list_aws_default_service_quotas", missing) if missing else []
    return tuple(_line(quota, quota.found_in(entries), needs) for quota in wanted)


def wanted_of(needs: Requirements) -> tuple[Wanted, ...]:
    """The quotas that count. A warm pool is counted by its own quota, and a pool cannot be spot. Pure."""
    spot, nodes = "spot " if needs.options.spot else "", needs.nodes
    unkept = (
        'until then, placement = "in_job": the machines would not be kept, and the training would get others'
    )
    shorter = "a shorter max_runtime_minutes (in_job, the checks and the time to answer count as well)"
    return (
        Wanted(USAGE.format(needs.instance_type, spot), nodes, reserved=True),
        *((Wanted(POOL.format(needs.instance_type), nodes, instead=unkept),) if needs.pooled else ()),
        Wanted(EVERY.format(spot), nodes, reserved=True),
        Wanted(SIZE.format(spot), nodes, reserved=True),
        Wanted(TIME, needs.run_s, " s", instead=shorter),
    )


def _listed(clients: Clients, call: str, wanted: tuple[Wanted, ...]) -> list[Mapping[str, Any]]:
    """The rows up to the page on which the last wanted quota is."""
    entries: list[Mapping[str, Any]] = []
    token: dict[str, Any] = {}
    while True:
        page = clients.request("service-quotas", call, ServiceCode="sagemaker", MaxResults=PAGE, **token)
        entries += page["Quotas"]
        if all(quota.found_in(entries) for quota in wanted) or not page.get("NextToken"):
            return entries
        token = {"NextToken": page["NextToken"]}


def _line(wanted: Wanted, entry: Mapping[str, Any] | None, needs: Requirements) -> PreflightCheck:
    if entry is None:
        message = f"{wanted.name!r} is in no list of Service Quotas; {wanted.value}{wanted.unit} wanted"
        return unseen(QUOTA, message)
    value = float(entry["Value"])
    message = f"{wanted.name}: {value:.0f}{wanted.unit}, {wanted.value}{wanted.unit} wanted"
    if value >= wanted.value:
        return ok(QUOTA, message)
    remedy = (
        f"aws service-quotas request-service-quota-increase --region {needs.region} --service-code sagemaker "
        f"--quota-code {entry['QuotaCode']} --desired-value {wanted.value}"
    )
    remedy += f"; or {wanted.instead}" if wanted.instead else ""
    if needs.options.training_plan_arn and wanted.reserved:
        return unseen(QUOTA, f"{message}; whether it counts for a training plan is not known", remedy)
    return wrong(QUOTA, message, remedy)
