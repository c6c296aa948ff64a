"""Notifies people how a gate ended or that it asks, and notifies a gate's owner about a run that died or never started.

A notification that cannot be made or sent is logged and recorded, and changes nothing else.

Notifications about a run are sent once per run, which runs/<flow run>/<kind>.json in the store records. It is claimed before
sending and closed afterwards: if a process dies in between another one takes over, and of two at the same time only one sends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from checks.documents.decode import parse_json
from checks.documents.report import dump_plain
from checks.value_types import DecodeError
from tasks.gate.blocking_calls import run_to_end
from tasks.gate.context import GateContext
from tasks.gate.links import run_links
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport
from tasks.gate.session import Session
from tasks.notifiers.base import Audience, Link, Notification, PageKind, PendingQuestion, Severity
from tasks.notifiers.deliver import DeliveryResult, deliver, settle
from tasks.paging.content import (
    BLAMING,
    audience_of,
    blames_hardware,
    cancelled_page,
    finish_page,
    kind_of,
    new_page,
    page_of,
    question_of,
    severity_of,
    unreleased_page,
)
from tasks.paging.notifier_secrets import check_secrets
from tasks.remediation.proof import engine_name
from tasks.render.headline import culprits, headline
from tasks.store.layout import run_notification_key
from tasks.text.redact import redacted

LOG = logging.getLogger("prelaunch")
# A notification takes a minute at most: three notifiers of 20 s. A claim that is older was left by a process that died.
CLAIM_S = 120.0


@task(cache_policy=NO_CACHE, task_run_name="page about {outcome.gate_id}")
async def notify_outcome(session: Session, outcome: GateOutcome) -> DeliveryResult:
    """Notify people through the first notifier that works; returns the result of the delivery."""
    return await run_to_end(send_notification, session, outcome)


async def check_notifiers(session: Session) -> None:
    """Check at the start whether the gate can notify anybody. What is missing is logged and recorded, and stops nothing."""
    for line in await run_to_end(check_secrets, session):
        get_run_logger().warning(line)
        with contextlib.suppress(OSError, ValueError):  # closed by whoever started us
            print(f"prelaunch: {line}", file=sys.stderr, flush=True)


def needs_notification(outcome: GateOutcome) -> bool:
    """Whether people have to be notified: of everything except a GO that went well."""
    return kind_of(outcome) is not PageKind.GO


def send_notification(session: Session, outcome: GateOutcome) -> DeliveryResult:
    """Send the notification through the gate's notifiers, in their order, and those about verdicts of which it says nothing.

    One about an override goes to on-call and owner, as does a refusal that leaves machines billing. A GO notifies nobody, nor does the
    end of a launch of which people know; it is recorded first, so that it does not resolve what follows. Any other end is what the
    messages of the gate show last.
    """
    notify, store = session.context.gate.notify, session.context.store
    notification = _notification_of(session, outcome)
    loud = notification.topic is PageKind.OVERRIDDEN or bool(session.unreleased)
    also = [side for side in Audience if loud and side is not notification.audience]
    is_new = _is_new(session, notification, outcome.judged, *also) or notification.topic is PageKind.REFUSED
    others = _unsent(session, _refusals(session, replace(outcome, judged=outcome.judged or session.judged)))
    if notification.topic is PageKind.GO or not is_new:
        results = [settle(notify, store, notification), *(deliver(notify, store, page) for page in others)]
        if session.unreleased:
            results.append(deliver(notify, store, unreleased_page(notification, tuple(session.unreleased))))
    else:
        results = [deliver(notify, store, page) for page in others]
        results.append(deliver(notify, store, notification, *also))
    delivered = (line for result in results for line in result.told)
    failed = (line for result in results for line in result.failed)
    return DeliveryResult(results[-1].where, tuple(delivered), tuple(failed))


def _refusals(session: Session, outcome: GateOutcome) -> Iterator[GateOutcome]:
    """Each refusal for broken hardware by itself, without what became of the gate: that of the outcome, and those before it."""
    for judged in (outcome.judged, session.previous):
        if judged is not None and blames_hardware(judged.verdict):
            reason = headline(judged.verdict, session.context.gate.name)
            refusal = GateOutcome(outcome.gate_id, Ending.VERDICT, Decision.REFUSED, judged, None, reason)
            yield replace(refusal, report=outcome.report, html=outcome.html)
    yield from session.replaced


def notify_replaced(session: Session) -> None:
    """Notify people now of the refusals after which the checks began again, because no later notification of this process does: the
    gate is cancelled, or another process continues it, and knows nothing of them.
    """
    unjudged = GateOutcome(session.gate_id, Ending.VERDICT, None, None, None, "")
    for notification in _unsent(session, _refusals(session, unjudged)):
        deliver(session.context.gate.notify, session.context.store, notification)


def _unsent(session: Session, ends: Iterable[GateOutcome]) -> Iterator[Notification]:
    """The notifications about these ends whose audience was not yet notified of the same machines."""
    for end in ends:
        notification = _notification_of(session, end)
        if _is_new(session, notification, end.judged):
            yield notification


def _is_new(session: Session, page: Notification, judged: JudgedReport | None, *also: Audience) -> bool:
    """Whether an audience was not yet notified of a machine that is to blame, if any is. It counts as notified from now on."""
    if judged is None or page.topic not in BLAMING:
        return True
    engine_names = {node.name: engine_name(node) for node in judged.report.nodes}
    machines = [engine_names.get(name, name) for name in culprits(judged.verdict) or [""]]
    blamed = {(audience, machine) for audience in (page.audience, *also) for machine in machines}
    is_new = not blamed <= session.blamed
    session.blamed |= blamed
    return is_new


def show_cancelled(context: GateContext, outcome: GateOutcome, links: tuple[Link, ...] = ()) -> None:
    """Let the messages of a gate say that it was cancelled, as what is kept of it does. Nobody is notified."""
    if set(context.gate.notify.notifiers) != {"log"}:
        settle(context.gate.notify, context.store, cancelled_page(context, outcome, links))


def notify_question(
    session: Session, judged: JudgedReport, pending: PendingQuestion, line: str
) -> Notification:
    """Notify people of the question, before the run waits for the answer; returns the notification."""
    try:
        note = question_of(session, judged, pending, line, run_links(session.renewal.lease.owner.flow_run_id))
    except Exception as error:  # noqa: BLE001 - a page in fewer words is better than none, and the question stays
        note = _bare(session, session.gate_id, line, error)
        note = replace(note, topic=PageKind.QUESTION, question=pending)
    deliver(session.context.gate.notify, session.context.store, note)
    return note


def _notification_of(session: Session, outcome: GateOutcome) -> Notification:
    """The notification about an end; a shorter one if a part of it cannot be made."""
    try:
        return page_of(session, outcome, run_links(session.renewal.lease.owner.flow_run_id))
    except Exception as error:  # noqa: BLE001 - a page in fewer words is better than none, and the end stays
        notification_type = kind_of(outcome)
        bare = _bare(session, outcome.gate_id, f"gate {session.context.gate.name}: {outcome.reason}", error)
        audience, severity = audience_of(outcome, notification_type), severity_of(outcome, notification_type)
        return replace(bare, topic=notification_type, audience=audience, severity=severity)


def _bare(session: Session, gate_id: str, title: str, error: Exception) -> Notification:
    reason = redacted(f"the rest of this notification could not be made: {type(error).__name__}: {error}")
    LOG.error("%s", reason)
    text = f"{reason}. The store has the report and the verdict, if there are any.\nGate: {gate_id}"
    return replace(new_page(session.context, gate_id, title, PageKind.REFUSED), text=text)


def notify_run(
    context: GateContext, flow_run_id: str, gate_id: str, topic: PageKind, sentence: str
) -> str | None:
    """Notify the gate's owner, once per run. Returns where it went, "" for nowhere, None if it was done before.

    `gate_id` is "" for a run that never had one. Raises StoreError.
    """
    key = run_notification_key(flow_run_id, topic)
    claim = dump_plain({"at": time.time(), "sent": False})
    if not context.store.put_if_absent(key, claim) and not _left(context, key, claim):
        return None
    gate = context.gate
    page_id = gate_id or f"{gate.name}-run-{flow_run_id[:8]}"
    page = new_page(context, page_id, f"gate {gate.name}: {sentence}", topic)
    severity = Severity.ERROR if topic is PageKind.CRASHED else Severity.WARNING
    facts = (("gate file", os.path.abspath(context.file)), ("flow run", flow_run_id))
    page = replace(page, severity=severity, facts=facts, links=run_links(flow_run_id))
    where = deliver(gate.notify, context.store, finish_page(page, sentence)).where
    context.store.put(key, dump_plain({"at": time.time(), "sent": bool(where)}))
    return where


def _left(context: GateContext, key: str, claim: bytes) -> bool:
    """Whether the claim of a process that died could be taken over."""
    claimed = context.store.get(key)
    if claimed is None:
        return context.store.put_if_absent(key, claim)
    try:
        table = parse_json(claimed, 1 << 16)
    except DecodeError:
        return context.store.replace_if(key, claimed, claim)
    sent, at = (table.get("sent"), table.get("at")) if isinstance(table, dict) else (False, 0.0)
    stale = not isinstance(at, (int, float)) or time.time() - at > CLAIM_S
    return not sent and stale and context.store.replace_if(key, claimed, claim)
