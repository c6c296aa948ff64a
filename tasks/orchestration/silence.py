"""Says why a run that is followed does not go on: another run has its deployment's slot, or it has sent no heartbeat for long; and
that a command waits for Prefect's server itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from prefect.client.base import PrefectHttpxAsyncClient
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType

from tasks.gate.progress import LiveProgress, Progress
from tasks.orchestration.runs import last_heartbeat

# How Prefect 3.8.8 names the state of a run whose deployment has no free slot.
NO_SLOT = "AwaitingConcurrencySlot"
# Three heartbeats of deployments/server/runner.env, and one look of the server.
SILENT_S = 100.0
# The same progress for so long is looked into, and not more often than that.
QUIET_S, AGAIN_S = 60.0, 20.0
# A worker starts the process of a run that it has taken within seconds.
BEGINS_S = 60.0
# A healthy server answers within a fraction of a second; a line of the progress comes every 10 s.
UNANSWERED_S = 5.0
HOLDS = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)


class QuietRun:
    """The run whose progress is shown; what it says is completed where it has said the same for a minute."""

    def __init__(self) -> None:
        self._detail, self._since, self._asked, self._said = "", 0.0, 0.0, ""

    async def completed(self, client: PrefectClient, run: FlowRun, shown: Progress) -> Progress:
        """The progress, with the age of the last heartbeat where that is old."""
        now = time.monotonic()
        if shown.detail != self._detail or run.state is None or not run.state.is_running():
            self._detail, self._since, self._said = shown.detail, now, ""
        elif now - self._since >= QUIET_S and now - self._asked >= AGAIN_S:
            self._asked, self._said = now, await silence_of(client, run)
        return replace(shown, detail=f"{shown.detail}. The run {self._said}") if self._said else shown


async def silence_of(client: PrefectClient, run: FlowRun) -> str:
    """How long a running run has sent no heartbeat, as words that follow its name; "" where it is not long, or not known."""
    now = datetime.now(UTC)
    begun = run.state.timestamp if run.state is not None else now
    try:
        beat = await last_heartbeat(client, str(run.id), now - timedelta(hours=1))
    except httpx.HTTPError:
        return ""
    silent_s = (now - max(beat or begun, begun)).total_seconds()
    if silent_s < SILENT_S:
        return ""
    return f"has sent no heartbeat for {silent_s // 60:.0f} min: if its process is gone, `reap` ends it (docs/events.md)"


async def slot_holder(client: PrefectClient, run: FlowRun) -> str:
    """What a run waits for that a worker has taken or will not take yet: the slot of its deployment, and which run has it, or the
    process that should have begun it. A sentence without its end; "" where it waits for neither, or that is not known.
    """
    if run.state is None or run.deployment_id is None:
        return ""
    taken_s = (datetime.now(UTC) - run.state.timestamp).total_seconds() if run.state.is_pending() else 0.0
    if run.state.name != NO_SLOT and taken_s < BEGINS_S:
        return ""
    holders = await _holders(client, run)
    if run.state.name == NO_SLOT:
        return holders
    said = (
        f"a worker took this run at {run.state.timestamp:%H:%M} UTC and has not started it. If that worker is dead, reap ends the run "
        "after 5 min, and a new run has to be started (docs/server.md, Runs that stay Pending)"
    )
    return f"{said}; {holders}" if holders else said


async def _holders(client: PrefectClient, run: FlowRun) -> str:
    of_state = FlowRunFilterState(type=FlowRunFilterStateType(any_=list(HOLDS)))
    of_deployment = FlowRunFilterDeploymentId(any_=[run.deployment_id])
    try:
        found = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter(state=of_state, deployment_id=of_deployment), limit=10
        )
    except httpx.HTTPError:
        return ""
    return "; ".join([await _holds(client, other) for other in found if other.id != run.id and other.state])


async def _holds(client: PrefectClient, run: FlowRun) -> str:
    state = run.state
    at = f"{state.name} since {state.timestamp:%H:%M} UTC" if state is not None else ""
    silent = await silence_of(client, run) if state is not None and state.is_running() else ""
    return f"run {run.name} ({run.id}, {at}) has the slot{f', and {silent}' if silent else ''}"


@contextmanager
def late_requests(shown: LiveProgress) -> Iterator[None]:
    """For the time of the block the progress says for how long the Prefect server has not answered, retries included.

    A stage that waits for Prefect looks like one that takes long, and no setting of Prefect's client (3.8.8) tells of a request
    that is under way: its `send` is wrapped.
    """
    since: dict[object, float] = {}
    real = PrefectHttpxAsyncClient.send

    async def send(
        client: PrefectHttpxAsyncClient, request: httpx.Request, *args: Any, **more: Any
    ) -> httpx.Response:
        key = object()
        since[key] = time.monotonic()
        try:
            return await real(client, request, *args, **more)
        finally:
            del since[key]

    def said() -> str:
        silent_s = time.monotonic() - min(tuple(since.values()), default=time.monotonic())
        return f"the Prefect server has not answered for {silent_s:.0f} s" if silent_s >= UNANSWERED_S else ""

    before, shown.also = shown.also, said
    PrefectHttpxAsyncClient.send = send  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        PrefectHttpxAsyncClient.send = real  # type: ignore[method-assign]
        shown.also = before
