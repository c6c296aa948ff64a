"""Finds out whether somebody cancelled this flow run. A run in one's own process has no worker that would end it.

RunCancelled        the run is being cancelled
"""

from __future__ import annotations

import time

import httpx
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException
from prefect.logging import get_logger

from tasks.gate.lease.lease import LeaseLost
from tasks.gate.session import Session

LOG = get_logger("prelaunch")
EVERY_S = 5.0


class RunCancelled(Exception):
    """Somebody cancelled the run."""


class StopWatch:
    """Finds out whether the gate is to stop. It asks the server every five seconds at most, also one that does not answer."""

    def __init__(self, session: Session) -> None:
        self.renewal, self.asked_at = session.renewal, time.monotonic()

    async def check(self) -> None:
        """Raise RunCancelled if the run was cancelled, LeaseLost if the session lost its lock."""
        if time.monotonic() - self.asked_at >= EVERY_S:
            self.asked_at = time.monotonic()
            await _raise_if_cancelled()
        if self.renewal.lost.is_set():
            raise LeaseLost(self.renewal.loss)


async def _raise_if_cancelled() -> None:
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    try:
        async with get_client() as client:
            state = (await client.read_flow_run(context.flow_run.id)).state
    except (httpx.HTTPError, PrefectException, OSError) as error:
        LOG.warning("the server does not answer whether the run was cancelled: %s", error)
        return
    if state is not None and (state.is_cancelling() or state.is_cancelled()):
        raise RunCancelled("the run was cancelled")
