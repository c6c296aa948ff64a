"""Look before the first dollar: what is wrong is refused with its remedy, what could not be seen is said and kept.

LookedWrong         something would go wrong, so nothing was started
"""

from __future__ import annotations

import logging

from checks.report import dump_plain
from tasks.jobs import planned_jobs
from tasks.launchers.base import LaunchRejected, Line, Look
from tasks.progress import Progress, tell
from tasks.session import Session
from tasks.store.base import StoreError

LOG = logging.getLogger("prelaunch")


class LookedWrong(LaunchRejected):
    """The request as a whole is wrong, whatever was judged before."""


def look_first(session: Session) -> None:
    """Once a gate, before its first job. Raises LookedWrong, naming every line that is wrong."""
    if session.looked:
        return
    launcher = session.setting.launcher
    lines = launcher.preflight(tuple(launcher.plan(job) for job in planned_jobs(session.setting)))
    session.looked = True
    for line in lines:
        if line.look is Look.UNSEEN:
            LOG.warning("could not look at %s", line.told)
            tell(Progress("preflight", f"could not look at {line.what}: {line.said}"))
    _keep(session, lines)
    wrong = [line for line in lines if line.look is Look.WRONG]
    if wrong:
        said = "; ".join(line.told.rstrip(".") for line in wrong)
        raise LookedWrong(f"nothing was started: {said}.")


def _keep(session: Session, lines: tuple[Line, ...]) -> None:
    if not lines:
        return
    try:
        session.setting.store.put(f"gates/{session.gate_id}/preflight.json", dump_plain(lines))
    except StoreError as error:
        LOG.warning("what was seen before the start is not kept: %s", error)
