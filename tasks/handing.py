"""The merged report, put where the engine's other tools look for it too, with the tables that they read.

A failure is said, and changes nothing.
"""

from __future__ import annotations

import logging

from tasks.launchers.base import LaunchError
from tasks.outcome import Judged
from tasks.render.seed_report import with_seed_tables
from tasks.session import Session
from tasks.threads import to_end

LOG = logging.getLogger("prelaunch")


async def hand_out(session: Session, judged: Judged) -> None:
    """Beside the job that wrote it; a reused report is there already."""
    if not judged.reused:
        await to_end(_hand_out, session, judged)


def _hand_out(session: Session, judged: Judged) -> None:
    try:
        where = session.setting.launcher.hand_out(
            session.checking, with_seed_tables(judged.report, judged.verdict)
        )
    except LaunchError as error:
        LOG.warning("the report is kept, but not handed out to other tools: %s", error)
        return
    if where:
        LOG.info("the report is also at %s", where)
