"""Waits for a person's answer in a way that survives restarts of the gate's process.

A run that came from a deployment is suspended: its process ends, and once somebody has answered, the next worker starts the
run again, which finds the lock that it parked and goes on. It is not paused, however short the wait, because of what
Prefect 3.8.8 does to a process that waits (measured): a worker that is restarted kills it without a message, and a deployment
with a concurrency limit gives its slot away and crashes it 225 s later.

Any other run waits in its process, because nobody could start it again, or because its nodes wait for the answer.

The deadline is ours. Prefect's own deadline is later, because Prefect would overwrite how the run ended. No process of a
suspended run is alive, so a reaper is scheduled to examine the run after the deadline.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags, FlowFilter, FlowFilterName
from prefect.client.schemas.objects import State
from prefect.client.schemas.responses import OrchestrationResult
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound, Pause, PrefectException
from prefect.states import Paused, Running, Scheduled

from tasks.gate.approval.answers import collect_answer, keyset_of, pause_name, read_proven_answer, save_form
from tasks.gate.cancellation import RunCancelled
from tasks.gate.lease.lease import LeaseLost
from tasks.gate.question import ApprovalAnswer, Question, expired_answer
from tasks.gate.session import Session

LOG = logging.getLogger("prelaunch")
REAP, TAG = "reap", "prelaunch"
# An answer of the last moment comes first.
LATER_S = 5.0
POLL_S = 2.0
# The Slack process resumes the run. If it could not, its answer lies in the store.
STORE_S = 15.0
# How long after the deadline a worker has to act on an answer that came in time.
PICKUP_S = 600.0
AWAY = (httpx.HTTPError, PrefectException, OSError)
T = TypeVar("T")


async def schedule_expiry(client: PrefectClient, flow_run_id: UUID, question: Question) -> None:
    """Have every reaper deployment examine the run just after the deadline. Idempotent. If there is none, that is logged.

    Raises what the client raises where the server does not answer.
    """
    reapers = await client.read_deployments(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[REAP])),
        deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG])),
    )
    if not reapers:
        LOG.warning(
            "no deployment of the flow %r has the tag %r: nobody ends the question when its time is up, until the next "
            "gate of this cluster. Deploy it: deployments/prefect.yaml.",
            REAP,
            TAG,
        )
        return
    at = datetime.fromtimestamp(question.deadline + LATER_S, UTC)
    for reaper in reapers:  # which of them somebody serves then, nobody knows now; to look twice does no harm
        await client.create_flow_run_from_deployment(
            reaper.id,
            parameters={"flow_run_id": str(flow_run_id), "why": "deadline"},
            state=Scheduled(scheduled_time=at),
            idempotency_key=f"deadline-{flow_run_id}-{question.key}-{reaper.id}",
        )


def can_resume_elsewhere(session: Session) -> bool:
    """Whether this run may continue in another process: a deployment starts it, and no node waits for its answer."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    deployed = run is not None and run.deployment_id is not None and run.parent_task_run_id is None
    return deployed and not session.in_job


def was_resumed() -> bool:
    """Whether this run was paused before and starts again because somebody answered."""
    context = FlowRunContext.get()
    return bool(context and context.flow_run and context.flow_run.empirical_policy.resuming)


class ApprovalWait:
    """Waits for the answer to one question. `description` is the text above the form."""

    def __init__(self, session: Session, question: Question, description: str) -> None:
        context = FlowRunContext.get()
        if context is None or context.flow_run is None:
            raise RuntimeError("a question is asked by a flow run")
        self.session, self.question, self.description = session, question, description
        self.run = context.flow_run.id
        self.back = can_resume_elsewhere(session)
        self._silent = False

    async def answer(self) -> ApprovalAnswer:
        """The answer that counts: one in time, or NOBODY's. Raises RunCancelled, LeaseLost; Pause if the process has to end."""
        async with get_client() as client:
            received = await self._received(client)
            while received is None and not self._overdue():
                await self._pause(client)
                await self._until_answered(client)
                received = await self._received(client)
        return received or expired_answer(self.question, time.time())

    async def _received(self, client: PrefectClient) -> ApprovalAnswer | None:
        store = self.session.context.store
        return await self._patiently(lambda: collect_answer(client, store, self.run, self.question))

    async def _pause(self, client: PrefectClient) -> None:
        state: State = Paused(
            name="Suspended" if self.back else "Paused",
            message=self.question.said,
            reschedule=self.back,
            pause_expiration_time=datetime.fromtimestamp(self.question.deadline + PICKUP_S, UTC),
            pause_key=pause_name(self.question),
        )
        state.state_details.run_input_keyset = keyset_of(self.question.key)

        async def paused() -> State | None:
            if self.back:
                await schedule_expiry(client, self.run, self.question)
            response: OrchestrationResult[Any] = await client.set_flow_run_state(self.run, state)
            # Prefect 3.9 deletes what the keys of a new pause hold. The second request is refused, and its state is the pause.
            if response.state is None or response.state.is_paused():
                await save_form(client, self.run, self.question, self.description)
            return response.state

        state_now = await self._patiently(paused)
        if state_now is not None and not state_now.is_paused():
            raise RunCancelled(f"the run cannot be paused: it is {state_now.name}")
        if state_now is not None and self.back:
            # Nothing but this process ends; the run comes back for its lock.
            self.session.parked = True
            raise Pause(state=state_now)

    async def _until_answered(self, client: PrefectClient) -> None:
        """Return once the run continues, or once the time is up and no server answers."""
        checked_at = time.monotonic()
        while not self._late():
            self._require_lease()
            try:
                state = (await client.read_flow_run(self.run)).state
                if state is not None and _goes_on(state):
                    return
                stored = time.monotonic() - checked_at > STORE_S
                checked_at = time.monotonic() if stored else checked_at
                if self._overdue() or (stored and await self._proven()):
                    await client.set_flow_run_state(self.run, Running())
                self._silent = False
            except ObjectNotFound:
                raise RunCancelled("the run was deleted while it waited for approval") from None
            except AWAY as error:
                self._say_silent(error)
            await asyncio.sleep(POLL_S)

    async def _proven(self) -> bool:
        return await read_proven_answer(self.session.context.store, self.question) is not None

    async def _patiently(self, request: Callable[[], Awaitable[T]]) -> T | None:
        """The server's answer. A server that restarts is asked again until it is too late for any answer."""
        while not self._late():
            self._require_lease()
            try:
                return await request()
            except AWAY as error:
                self._say_silent(error)
            await asyncio.sleep(POLL_S)
        return None

    def _say_silent(self, error: Exception) -> None:
        """Log that the server does not answer, once for each time that it is away."""
        if not self._silent:
            LOG.warning(
                "the server does not answer; it will be asked again until the question's deadline: %s", error
            )
        self._silent = True

    def _late(self) -> bool:
        return time.time() > self.question.deadline + PICKUP_S

    def _overdue(self) -> bool:
        return time.time() > self.question.deadline

    def _require_lease(self) -> None:
        if self.session.renewal.lost.is_set():
            raise LeaseLost(self.session.renewal.loss)


def _goes_on(state: State) -> bool:
    """Whether the run continues. Raises RunCancelled if it was cancelled."""
    if state.is_cancelling() or state.is_final():
        raise RunCancelled("cancelled while waiting for approval")
    return state.is_running()
