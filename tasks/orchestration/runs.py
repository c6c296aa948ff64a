"""Finds the gates of a flow run: what was requested, and the run's status. It reads and changes nothing.

A run of "gate" is one gate; a run of "commission" has one child run per cluster, each of them a gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.events.filters import EventAnyResourceFilter, EventFilter, EventNameFilter, EventOccurredFilter
from prefect.exceptions import ObjectNotFound
from pydantic import ValidationError

from tasks.gate.commission import CommissionRequest, gate_contexts, gate_requests
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import GateRequest
from tasks.orchestration.status import RunStatus, StatusError, read_status, status_artifact
from tasks.text.inert import one_line

TAG = "prelaunch"
GATE, COMMISSION = "gate", "commission"
FLOWS = (GATE, COMMISSION)
HEARTBEAT = "prefect.flow-run.heartbeat"


@dataclass(frozen=True)
class GateRun:
    """A flow run that is a gate, or a commissioning, in the state of that name.

    `request` is the gate's, or the first of the commissioning's; None where its parameters cannot be understood here, and
    then `unread` says why. `leads` says that gates of its own run below it, which speak for themselves. `starts` is how many
    processes have begun it.
    """

    flow_run_id: str
    name: str
    state: str
    request: GateRequest | None
    unread: str = ""
    leads: bool = False
    starts: int = 1


async def find_run(client: PrefectClient, flow_run_id: str) -> FlowRun | None:
    """The flow run; None if the server knows none by that id."""
    try:
        return await client.read_flow_run(UUID(flow_run_id))
    except (ObjectNotFound, ValueError):
        return None


async def gates_of(client: PrefectClient, run: FlowRun) -> tuple[GateRun, ...]:
    """The gates below a commissioning, then the run itself; () for a run that is neither gate nor commissioning."""
    flow = (await client.read_flow(run.flow_id)).name
    if flow not in FLOWS:
        return ()
    chosen = children_of(run.id)
    children = await client.read_flow_runs(flow_run_filter=chosen, limit=200) if flow == COMMISSION else ()
    return (*(gate_run(child) for child in children), gate_run(run, flow, bool(children)))


def gate_run(run: FlowRun, flow: str = GATE, leads: bool = False) -> GateRun:
    """The run as a GateRun, with the request that it got."""
    request_data, state = run.parameters.get("request"), run.state_name or ""
    try:
        if flow == COMMISSION:  # whoever owns its first gate is notified about all of it
            commission = CommissionRequest.model_validate(request_data)
            request = next(iter(gate_requests(commission, gate_contexts(commission)).values()))
        else:
            request = GateRequest.model_validate(request_data)
    except (ValidationError, GateFileError) as error:
        return GateRun(str(run.id), run.name, state, None, one_line(str(error), 500), leads, run.run_count)
    return GateRun(str(run.id), run.name, state, request, "", leads, run.run_count)


async def run_status(client: PrefectClient, flow_run_id: str) -> RunStatus | None:
    """The last status that the run published (its gate's id, its store, how it ended); None if it cannot be read."""
    artifact = await status_artifact(client, UUID(flow_run_id))
    try:
        return read_status(artifact.data) if artifact is not None else None
    except StatusError:
        return None


async def last_heartbeat(client: PrefectClient, flow_run_id: str, since: datetime) -> datetime | None:
    """When the run's process last gave a sign of life after `since`, by the server's events; None for never."""
    chosen = EventFilter(
        event=EventNameFilter(name=[HEARTBEAT]),
        any_resource=EventAnyResourceFilter(id=[f"prefect.flow-run.{flow_run_id}"]),
        occurred=EventOccurredFilter(since=since, until=datetime.now(UTC)),
    )
    page = await client.read_events(filter=chosen, limit=1)
    return page.events[0].occurred if page.events else None


def children_of(flow_run_id: UUID) -> FlowRunFilter:
    """The filter for the flow runs that a flow run has started."""
    return FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run_id]))
