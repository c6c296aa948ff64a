"""Tell people how a gate ended, or that it asks. A page that cannot be made or sent is said, and changes nothing else."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from dataclasses import replace

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from checks.model import Answer
from tasks.deliver import Told, deliver, settle
from tasks.notifiers.base import Asked, Audience, Kind, Page, Severity
from tasks.outcome import Decision, Judged, Outcome
from tasks.paging import audience_of, kind_of, page_of, paid_for, question_of, severity_of
from tasks.picturing import pictured
from tasks.places import run_links
from tasks.reachable import look
from tasks.redact import redact
from tasks.session import Session
from tasks.threads import to_end

LOG = logging.getLogger("prelaunch")


@task(cache_policy=NO_CACHE, task_run_name="page about {outcome.gate_id}")
async def page(session: Session, outcome: Outcome) -> Told:
    """Call somebody by the first way that works; returns what became of it."""
    return await to_end(send, session, outcome)


@task(cache_policy=NO_CACHE, task_run_name="note the end of {outcome.gate_id}")
async def note(session: Session, outcome: Outcome) -> Told:
    """A good end: messages are brought up to date, incidents resolved, and nobody is called."""
    return await to_end(_note, session, outcome)


async def look_who_hears(session: Session) -> None:
    """At the start: whether the gate can tell anybody. What is missing stands in the run's log and the record, and stops nothing."""
    missing = await to_end(look, session)
    for line in missing:
        get_run_logger().warning(line)
        with contextlib.suppress(OSError, ValueError):  # closed by whoever started us
            print(f"prelaunch: {line}", file=sys.stderr, flush=True)


def wanted(outcome: Outcome) -> bool:
    """Whether somebody has to hear: of everything but a go that went well."""
    if outcome.decision is Decision.OBSERVED and outcome.judged is not None:
        return outcome.code != 0 or outcome.judged.verdict.answer is not Answer.GO
    return outcome.code != 0 or outcome.decision is Decision.OVERRIDDEN


def send(session: Session, outcome: Outcome) -> Told:
    """The page, through the gate's ways in their order.

    One about an override goes to both sides, as does a refusal that leaves machines to be paid for. After a go only those
    are left to be told of; the go is noted first, so that it resolves nothing of this page.
    """
    made = _made(session, outcome)
    if made.kind is Kind.GO and session.unreleased:
        before = settle(session.setting, made)
        told = deliver(session.setting, paid_for(made, tuple(session.unreleased)))
        return replace(told, told=(*before.told, *told.told), failed=(*before.failed, *told.failed))
    made = _with_picture(session, outcome, made)
    loud = made.kind is Kind.OVERRIDDEN or bool(session.unreleased)
    also = [side for side in Audience if loud and side is not made.audience]
    return deliver(session.setting, made, *also)


def page_question(session: Session, judged: Judged, asked: Asked, said: str) -> Page:
    """Ask for an answer, before the run waits for it; returns the page."""
    try:
        made = question_of(session, judged, asked, said, run_links(session))
    except Exception as error:  # noqa: BLE001 - a page in fewer words is better than none, and the question stays
        made = replace(_bare(session, session.gate_id, said, error), kind=Kind.QUESTION, question=asked)
    deliver(session.setting, made)
    return made


def _note(session: Session, outcome: Outcome) -> Told:
    return settle(session.setting, _made(session, outcome))


def _made(session: Session, outcome: Outcome) -> Page:
    """The page about an end, in fewer words where something of it cannot be said."""
    try:
        return page_of(session, outcome, run_links(session))
    except Exception as error:  # noqa: BLE001 - a page in fewer words is better than none, and the end stays
        kind = kind_of(outcome)
        bare = _bare(session, outcome.gate_id, f"gate {session.setting.gate.name}: {outcome.reason}", error)
        audience, severity = audience_of(outcome, kind), severity_of(outcome, kind)
        return replace(bare, kind=kind, audience=audience, severity=severity)


def _with_picture(session: Session, outcome: Outcome, made: Page) -> Page:
    try:
        return pictured(session, outcome, made)
    except Exception as error:  # noqa: BLE001 - a page without its picture says the same
        return replace(made, no_picture=f"it could not be drawn ({type(error).__name__})")


def _bare(session: Session, gate_id: str, title: str, error: Exception) -> Page:
    gate = session.setting.gate
    why = redact(f"the rest of this page could not be made: {type(error).__name__}: {error}", os.environ)
    LOG.error("%s", why)
    text = f"{why}. The store has the report and the verdict, if there are any.\nGate: {gate_id}"
    return Page(
        gate_id, gate.cluster.name, redact(title, os.environ), text, "",
        gate=gate.name, audience=Audience.OWNER, severity=Severity.ERROR,
    )  # fmt: skip
