"""A run that waits for a person is looked at when its time is up, since no process of it lives."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags, FlowFilter, FlowFilterName
from prefect.states import Scheduled

from tasks.question import Question

LOG = logging.getLogger("prelaunch")
REAP, TAG = "reap", "prelaunch"
# An answer of the last moment comes first.
LATER_S = 5.0


async def schedule(client: PrefectClient, flow_run_id: UUID, question: Question) -> None:
    """Order a look at the run for just after the deadline, from every reaper. Idempotent. Where nobody could look that is said.

    Raises what the client raises where the server does not answer.
    """
    found = await client.read_deployments(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[REAP])),
        deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])),
    )
    if not found:
        LOG.warning(
            "no deployment of the flow %r has the tag %r: nobody ends the question when its time is up, until the next "
            "gate of this cluster. Deploy it: deployments/prefect.yaml.",
            REAP,
            TAG,
        )
        return
    at = datetime.fromtimestamp(question.deadline + LATER_S, UTC)
    for reaper in found:  # which of them somebody serves then, nobody knows now; to look twice does no harm
        await client.create_flow_run_from_deployment(
            reaper.id,
            parameters={"flow_run_id": str(flow_run_id), "why": "deadline"},
            state=Scheduled(scheduled_time=at),
            idempotency_key=f"deadline-{flow_run_id}-{question.key}-{reaper.id}",
        )
