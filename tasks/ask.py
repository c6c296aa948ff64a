"""Ask a person who watches Prefect's UI: the run is paused until somebody answers, or the time is up."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import apause_flow_run
from prefect.input import RunInput
from pydantic import Field

from checks.model import Answer
from tasks.gatefile import Mode
from tasks.outcome import Judged
from tasks.page import page_question
from tasks.render.markdown import markdown
from tasks.session import Session
from tasks.stop import StopWatch, guard
from tasks.threads import to_end

POLL_S = 3


class GateDecision(RunInput):
    """The answer to a verdict that the policy leaves to a person."""

    action: Literal["block", "launch-anyway"] = Field("block", title="Decision")
    approver: str = Field(title="Your name", min_length=2, max_length=100)


async def ask(session: Session, judged: Judged, minutes: int) -> GateDecision | None:
    """The answer; None where none is asked, nobody gave one in time, or nobody can (`minutes` is 0)."""
    observing = session.setting.gate.policy.mode is Mode.OBSERVE
    if judged.verdict.answer is not Answer.ASK or observing or not minutes:
        return None
    await to_end(page_question, session, judged, minutes)
    text = markdown(judged.report, judged.verdict, session.setting.gate.name)
    form = GateDecision.with_initial_data(description=text)
    # Prefect pauses once for each key; who is asked again answers again.
    key = f"gate-{session.keeper.lease.attempt}-{judged.report.attempt}"
    try:
        return await _paused(session, form, minutes * 60, key)
    except FlowPauseTimeout:
        return None


async def _paused(
    session: Session, form: type[GateDecision], timeout_s: int, key: str
) -> GateDecision | None:
    """The answer. A pause does not see that its run is cancelled, or that the cluster is somebody else's: this does."""
    pause = apause_flow_run(form, timeout=timeout_s, poll_interval=POLL_S, key=key)
    pausing, stop = asyncio.ensure_future(pause), StopWatch()
    try:
        while not pausing.done():
            await asyncio.wait({pausing}, timeout=POLL_S)
            await guard(session, stop)
        return pausing.result()
    finally:
        pausing.cancel()
        with contextlib.suppress(asyncio.CancelledError, FlowPauseTimeout):
            await pausing
