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


class CancellationWatch:
    """Asks the server every five seconds at most; a server that does not answer is asked again."""

    def __init__(self) -> None:
        self.asked_at = time.monotonic()

    async def check(self) -> None:
        """Raise RunCancelled if the run is to end."""
        context = FlowRunContext.get()
        if context is None or context.flow_run is None or time.monotonic() - self.asked_at < EVERY_S:
            return
        self.asked_at = time.monotonic()
        try:
            async with get_client() as client:
                run = await client.read_flow_run(context.flow_run.id)
        except (httpx.HTTPError, PrefectException, OSError) as error:
            LOG.warning("the server does not answer whether the run was cancelled: %s", error)
            return
        if run.state is not None and (run.state.is_cancelling() or run.state.is_cancelled()):
            raise RunCancelled("the run was cancelled")


async def raise_if_stopped(session: Session, stop: CancellationWatch) -> None:
    """Raise RunCancelled if the run was cancelled, LeaseLost if the session lost its lock."""
    await stop.check()
    if session.keeper.lost.is_set():
        raise LeaseLost(session.keeper.loss)
