"""Report -> verdict, by the one pure function."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from checks.model import Report
from checks.verdict import decide
from tasks.costing import cost_of
from tasks.launchers.base import Placement
from tasks.outcome import Judged
from tasks.render.beside import beside
from tasks.session import Session

NOWHERE = "Placement none: the training may run on other machines; its nodes compare and check again in place"


@task(cache_policy=NO_CACHE, task_run_name="judge {session.gate_id}")
async def judge(session: Session, report: Report) -> Judged:
    """What the report says, under the gate's policy."""
    session.judged = judged(session, report)
    return session.judged


def judged(session: Session, report: Report, report_digest: str = "") -> Judged:
    """The report with its verdict; `report_digest` is of the bytes that it was loaded from, if it was."""
    setting = session.setting
    verdict = decide(report, setting.policy, setting.facts, setting.baseline, report_digest=report_digest)
    said = (NOWHERE,) if setting.launcher.placement is Placement.NONE else ()
    cost = cost_of(report, verdict, setting.terms)
    # Only a pool is kept after the checks, so only there is something to let go.
    kept = session.checking if setting.launcher.placement is Placement.POOLED else ""
    launcher = setting.gate.cluster.launcher
    shown = beside(report, setting.policy, verdict, launcher, kept, said, cost, setting.facts)
    return Judged(report, verdict, beside=shown)
