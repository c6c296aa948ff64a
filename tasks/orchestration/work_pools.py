"""Whether somebody takes the runs of a work pool, which pools the gates of a server use, and what a run waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun, WorkerStatus
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound

from tasks.gate_file.folder import SUFFIX, path_of

FLOW, REAP = "gate", "reap"
CREATE = "prefect work-pool create {pool} --type process --base-job-template deployments/server/pool.json"
START = "prefect worker start --pool {pool} (with the settings that docs/server.md, Start a worker, names)"
# A worker that is online takes a run within its poll of 15 s.
LATE_S = 20.0


@dataclass(frozen=True)
class GatePool:
    """A work pool, and the deployments of gates that use it."""

    name: str
    deployments: tuple[str, ...]
    state: PoolState


@dataclass(frozen=True)
class PoolState:
    """Whether somebody takes a run of a pool: `lack` says why nobody does, and `remedy` what mends it; both are "" where a worker is
    online, or where none is needed.
    """

    lack: str = ""
    remedy: str = ""


async def pool_state(client: PrefectClient, pool: str) -> PoolState:
    """Whether somebody takes a run of the pool. Raises httpx.HTTPError."""
    try:
        work_pool = await client.read_work_pool(pool)
    except ObjectNotFound:
        return PoolState(f"there is no work pool {pool}", CREATE.format(pool=pool))
    if work_pool.is_paused:
        return PoolState(f"work pool {pool} is paused", f"prefect work-pool resume {pool}")
    if work_pool.is_push_pool or work_pool.is_managed_pool:  # of Prefect Cloud, which starts the runs itself
        return PoolState()
    workers = await client.read_workers_for_work_pool(pool)
    if all(worker.status is not WorkerStatus.ONLINE for worker in workers):
        return PoolState(f"no worker of work pool {pool} is online", START.format(pool=pool))
    return PoolState()


async def waiting_reason(client: PrefectClient, run: FlowRun) -> str:
    """Why a run that is due has not begun, if that is its work pool; "" if not, or if the server does not say."""
    state, pool, due = run.state, run.work_pool_name, run.expected_start_time
    if state is None or not state.is_scheduled() or not pool or due is None:
        return ""
    if datetime.now(UTC) - due < timedelta(seconds=LATE_S):
        return ""
    try:
        pool_now = await pool_state(client, pool)
    except httpx.HTTPError:
        return ""
    return f"{pool_now.lack[:1].upper()}{pool_now.lack[1:]}: {pool_now.remedy}" if pool_now.lack else ""


async def gate_pools(file: Path | None) -> tuple[GatePool, ...]:
    """The work pools of the configured server's deployments of gates: those that start this gate file, or that take any; with None
    all. One that `prelaunch serve forms` offers has no pool. Raises httpx.HTTPError.
    """
    async with get_client() as client:
        using: dict[str, list[str]] = {}
        for deployment in await _deployed(client, FLOW):
            if deployment.work_pool_name and is_for(deployment.parameters, file):
                using.setdefault(deployment.work_pool_name, []).append(f"{FLOW}/{deployment.name}")
        return tuple([
            GatePool(pool, tuple(sorted(deployments)), await pool_state(client, pool)) for pool, deployments in sorted(using.items())
        ])  # fmt: skip


async def without_reaper() -> tuple[str, ...]:
    """The configured server's deployments of gates, if it has none of the reaper, which ends dead runs. Raises httpx.HTTPError."""
    async with get_client() as client:
        gates = [f"{FLOW}/{served.name}" for served in await _deployed(client, FLOW) if served.work_pool_name]
        return tuple(sorted(gates)) if gates and not await _deployed(client, REAP) else ()


async def _deployed(client: PrefectClient, flow: str) -> list[DeploymentResponse]:
    return await client.read_deployments(flow_filter=FlowFilter(name=FlowFilterName(any_=[flow])))


def is_for(parameters: Mapping[str, Any], file: Path | None) -> bool:
    """Whether a deployment with these parameters may run this gate file; None is any. A name that leads nowhere here, where a worker
    may have a folder of its own, is compared with the file's.
    """
    request = parameters.get("request")
    own = str(request.get("gate_file") or "") if isinstance(request, dict) else ""
    if file is None or not own:
        return True
    led = path_of(own)
    if led.is_file():
        return led.resolve() == file.resolve()
    return led.name.removesuffix(SUFFIX) == file.name.removesuffix(SUFFIX)
