"""Whether the account's quotas allow the machines: for training, for spot, for warm pools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tasks.launchers.base import Line
from tasks.launchers.sagemaker.preflight.asked import Asked, Fleet
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
PAGE = 100
MOST_PAGES = 60


def quotas(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """A line for each quota that the gate needs; what other jobs use of it now counts as well, and is not seen."""
    wanted = wanted_of(asked.fleets)
    found = _applied(clients, set(wanted))
    return tuple(_line(name, nodes, found.get(name), asked) for name, nodes in wanted.items())


def wanted_of(fleets: Iterable[Fleet]) -> dict[str, int]:
    """Quota -> instances. A warm pool is counted by its own quota, and a pool cannot be spot. Pure."""
    wanted: dict[str, int] = {}
    for fleet in fleets:
        wanted[(SPOT if fleet.spot else TRAINING).format(fleet.kind)] = fleet.nodes
        if fleet.pooled:
            wanted[POOL.format(fleet.kind)] = fleet.nodes
        every = EVERY_SPOT if fleet.spot else EVERY
        wanted[every] = wanted.get(every, 0) + fleet.nodes
    return wanted


def _applied(clients: Clients, names: set[str]) -> dict[str, Mapping[str, Any]]:
    """The quotas of these names: the account's own where it has one, else AWS's default."""
    found = _listed(clients, "list_service_quotas", names)
    missing = names - set(found)
    return {**_listed(clients, "list_aws_default_service_quotas", missing), **found} if missing else found


def _listed(clients: Clients, call: str, names: set[str]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    token: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        page = ask(clients.quotas, call, ServiceCode="sagemaker", MaxResults=PAGE, **token)
        found |= {one["QuotaName"]: one for one in page["Quotas"] if one.get("QuotaName") in names}
        if names <= set(found) or not page.get("NextToken"):
            return found
        token = {"NextToken": page["NextToken"]}
    raise Unseen("servicequotas:ListServiceQuotas", "", f"more than {MOST_PAGES} pages")


def _line(name: str, nodes: int, found: Mapping[str, Any] | None, asked: Asked) -> Line:
    if found is None:
        return unseen(WHAT, f"{name!r} is in no list of Service Quotas; {nodes} wanted")
    value = float(found["Value"])
    if value >= nodes:
        return ok(WHAT, f"{name}: {value:g}, {nodes} wanted")
    remedy = (
        f"aws service-quotas request-service-quota-increase --region {asked.region} --service-code sagemaker "
        f"--quota-code {found['QuotaCode']} --desired-value {nodes}"
    )
    if name.endswith("warm pool usage"):
        said = f"{name}: {value:g}, {nodes} wanted: the machines would not be kept, and others would train"
        return wrong(WHAT, said, f'{remedy}; until then, placement = "in_job"')
    if asked.plan:
        said = f"{name}: {value:g}, {nodes} wanted; whether it counts for a training plan is not known"
        return unseen(WHAT, said, remedy)
    return wrong(WHAT, f"{name}: {value:g}, {nodes} wanted", remedy)
