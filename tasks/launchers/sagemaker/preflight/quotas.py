"""Whether the account's quotas allow the machines and the time: for training, for spot, for warm pools, and of one job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.launchers.base import Line
from tasks.launchers.sagemaker.preflight.asked import Asked
from tasks.launchers.sagemaker.preflight.looking import Clients, Unseen, ask, ok, unseen, wrong

WHAT = "quota"
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
MOST_PAGES = 60


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


def quotas(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """A line for each quota that the gate needs; what other jobs use of it now counts as well, and is not seen."""
    wanted = wanted_of(asked)
    found = _listed(clients, "list_service_quotas", wanted)
    missing = tuple(one for one in wanted if not one.found_in(found))
    # The account's own value where it has one, else AWS's default.
    found += _listed(clients, "list_aws_default_service_quotas", missing) if missing else []
    return tuple(_line(one, one.found_in(found), asked) for one in wanted)


def wanted_of(asked: Asked) -> tuple[Wanted, ...]:
    """The quotas that count. A warm pool is counted by its own quota, and a pool cannot be spot. Pure."""
    wanted = []
    for fleet in asked.fleets:
        wanted.append(
            Wanted((SPOT if fleet.spot else TRAINING).format(fleet.kind), fleet.nodes, reserved=True)
        )
        if fleet.pooled:
            wanted.append(Wanted(POOL.format(fleet.kind), fleet.nodes, instead='placement = "in_job"'))
    spot = any(fleet.spot for fleet in asked.fleets)
    every = sum(fleet.nodes for fleet in asked.fleets)
    wanted.append(Wanted(EVERY_SPOT if spot else EVERY, every, reserved=True))
    wanted.append(Wanted(SIZE_SPOT if spot else SIZE, asked.nodes, reserved=True))
    shorter = "a max_runtime_minutes of at most {} (in_job, the checks and the time to answer count as well)"
    wanted.append(Wanted(TIME, asked.run_s, " s", instead=shorter))
    return tuple(wanted)


def _listed(clients: Clients, call: str, wanted: tuple[Wanted, ...]) -> list[Mapping[str, Any]]:
    """The rows up to the page on which the last wanted quota is."""
    found: list[Mapping[str, Any]] = []
    token: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        page = ask(clients.quotas, call, ServiceCode="sagemaker", MaxResults=PAGE, **token)
        found += page["Quotas"]
        if all(one.found_in(found) for one in wanted) or not page.get("NextToken"):
            return found
        token = {"NextToken": page["NextToken"]}
    raise Unseen("servicequotas:ListServiceQuotas", "", f"more than {MOST_PAGES} pages")


def _line(wanted: Wanted, found: Mapping[str, Any] | None, asked: Asked) -> Line:
    if found is None:
        return unseen(
            WHAT, f"{wanted.name!r} is in no list of Service Quotas; {wanted.value}{wanted.unit} wanted"
        )
    value = float(found["Value"])
    said = f"{wanted.name}: {value:.0f}{wanted.unit}, {wanted.value}{wanted.unit} wanted"
    if value >= wanted.value:
        return ok(WHAT, said)
    remedy = (
        f"aws service-quotas request-service-quota-increase --region {asked.region} --service-code sagemaker "
        f"--quota-code {found['QuotaCode']} --desired-value {wanted.value}"
    )
    if wanted.instead:
        remedy += f"; until then, {wanted.instead.format(int(value // 60))}"
    if wanted.name.endswith("warm pool usage"):
        return wrong(WHAT, f"{said}: the machines would not be kept, and others would train", remedy)
    if asked.plan and wanted.reserved:
        return unseen(WHAT, f"{said}; whether it counts for a training plan is not known", remedy)
    return wrong(WHAT, said, remedy)
