"""What a dead predecessor left: asked until the engine answers, since no answer is not "no such job"."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from tasks.launchers.base import EngineUnavailable, JobState, JobStatus
from tasks.lease import CHECK, TRAIN
from tasks.progress import Progress, tell
from tasks.session import Session, unanswered
from tasks.stop import StopWatch, guard
from tasks.threads import to_end


@dataclass(frozen=True)
class Left:
    """The jobs of this attempt, as the engine knows them."""

    check: JobStatus
    train: JobStatus


async def left(session: Session) -> Left:
    """Both jobs, once the engine answered for both. Raises EngineUnavailable after its `silence_s`, LeaseLost, StopAsked."""
    launcher, stop, begun = session.setting.launcher, StopWatch(), time.monotonic()
    while True:
        await guard(session, stop)
        found = await to_end(_look, session)
        silent = next((status for status in (found.check, found.train) if unanswered(status)), None)
        if silent is None:
            return found
        if time.monotonic() - begun > launcher.silence_s:
            raise EngineUnavailable(
                f"whether the jobs of {session.gate_id} run is not known after {launcher.silence_s:.0f} s: {silent.detail}"
            )
        tell(Progress("adopt", f"asking again what is left of {session.gate_id}: {silent.detail}"))
        await asyncio.sleep(launcher.poll_s)


def ended_badly(status: JobStatus) -> bool:
    """Whether the job ended without doing its work."""
    return status.state in (JobState.FAILED, JobState.CANCELLED)


def _look(session: Session) -> Left:
    state, lease = session.setting.launcher.state, session.keeper.lease
    return Left(state(lease.job(CHECK)), state(lease.job(TRAIN)))
