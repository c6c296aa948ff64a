"""Report -> verdict, by the one pure function."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.model import Report
from checks.verdict import decide
from tasks.outcome import Judged
from tasks.session import Session


@task(cache_policy=NO_CACHE, task_run_name="judge {session.gate_id}")
async def judge(session: Session, report: Report) -> Judged:
    """What the report says, under the gate's policy."""
    session.judged = judged(session, report)
    return session.judged


def judged(session: Session, report: Report) -> Judged:
    """The report with its verdict."""
    return Judged(report, decide(report, session.setting.policy, session.setting.facts))
