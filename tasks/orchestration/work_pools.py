"""Whether somebody takes the runs of a work pool, and which pools the gates of a server use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import WorkerStatus
from prefect.exceptions import ObjectNotFound

FLOW = "gate"


@dataclass(frozen=True)
class GatePool:
    """A work pool, and the deployments of gates that use it. `lack` says why nobody takes a run, and `remedy` what mends it; both are
    "" where a worker is online.
    """

    name: str
    deployments: tuple[str, ...]
    lack: str
    remedy: str


async def idle_pool(client: PrefectClient, pool: str) -> tuple[str, str]:
    """Why nobody takes a run of the pool, and the command that mends it; two "" where a worker is online, or none is needed.

    Raises httpx.HTTPError.
    """
    try:
        known = await client.read_work_pool(pool)
    except ObjectNotFound:
        return f"there is no work pool {pool}", f"prefect work-pool create {pool} --type process"
    if known.is_paused:
        return f"work pool {pool} is paused", f"prefect work-pool resume {pool}"
    if known.is_push_pool or known.is_managed_pool:  # of Prefect Cloud, which starts the runs itself
        return "", ""
    workers = await client.read_workers_for_work_pool(pool)
    if any(worker.status is WorkerStatus.ONLINE for worker in workers):
        return "", ""
    return f"no worker of work pool {pool} is online", f"prefect worker start --pool {pool}"


async def gate_pools(names: frozenset[str] | None) -> tuple[GatePool, ...]:
    """The work pools of the configured server's deployments of gates: those whose own gate file has one of the names, or that take
    any; with None all. One that `prelaunch serve` offers has no pool. Raises httpx.HTTPError.
    """
    async with get_client() as client:
        found = await client.read_deployments(flow_filter=FlowFilter(name=FlowFilterName(any_=[FLOW])))
        using: dict[str, list[str]] = {}
        for one in found:
            if one.work_pool_name and is_for(one.parameters, names):
                using.setdefault(one.work_pool_name, []).append(f"{FLOW}/{one.name}")
        return tuple([
            GatePool(pool, tuple(sorted(of)), *await idle_pool(client, pool)) for pool, of in sorted(using.items())
        ])  # fmt: skip


def is_for(parameters: Mapping[str, Any], names: frozenset[str] | None) -> bool:
    """Whether a deployment with these parameters may run a gate file of one of the names (with or without ".toml")."""
    request = parameters.get("request")
    own = str(request.get("gate_file") or "") if isinstance(request, dict) else ""
    return names is None or not own or Path(own).name.removesuffix(".toml") in names
