"""Events that others can use as triggers: what became of a gate, on the Prefect server's own event stream.

The resource is the cluster ("prelaunch.cluster.<name>"), the flow run is related. docs/server.md lists them. An event is
not the record of a gate: one that cannot be emitted is a warning, and changes nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from prefect.client.schemas.objects import FlowRun, State
from prefect.events import emit_event
from prefect.events.worker import should_emit_events
from prefect.flows import Flow
from prefect.logging import get_logger

from checks.exit_codes import Exit
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.outcome import Decision, GateOutcome, JudgedReport
from tasks.gate.question import ApprovalAnswer
from tasks.gate.session import Session
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import GateRequest
from tasks.notifiers.base import PendingQuestion
from tasks.paging.content import kind_of, title_of
from tasks.render.headline import culprits
from tasks.text.inert import one_line
from tasks.text.redact import redacted

LOG = get_logger("prelaunch")
RESOURCE = "prelaunch.cluster."
# Sent by the run's own process after its last state, and so after its heartbeats: on a busy server one of those may arrive after the
# event of the end, which the server itself sends. Automations would take the silence that follows for a death.
RUN_ENDED = "prelaunch.run.ended"
# As Prefect's engine sends it (prefect.flow_engine, 3.8.8).
HEARTBEAT = "prefect.flow-run.heartbeat"
# The name stands for the cluster of a request that was rejected before its gate file could be read.
UNKNOWN = "unknown"
TEXT_CHARACTERS = 600
CULPRITS = 20

Payload = Mapping[str, object]


class GateEvent(StrEnum):
    """All events. A run emits STARTED once, and at its end one of those that follow ANSWERED."""

    STARTED = "prelaunch.gate.started"
    QUESTION = "prelaunch.gate.asked"
    ANSWER = "prelaunch.gate.answered"
    GO = "prelaunch.gate.go"
    REFUSED = "prelaunch.gate.refused"
    CANNOT_TELL = "prelaunch.gate.cannot_tell"
    OVERRIDDEN = "prelaunch.gate.overridden"
    OBSERVED = "prelaunch.gate.observed"
    TRAINING_FAILED = "prelaunch.gate.training_failed"
    NO_CAPACITY = "prelaunch.gate.no_capacity"
    REJECTED = "prelaunch.gate.rejected"
    CANCELLED = "prelaunch.gate.cancelled"
    CRASHED = "prelaunch.gate.crashed"
    LATE = "prelaunch.gate.late"


def emit_gate_event(
    event: GateEvent, context: GateContext | None, gate_id: str, flow_run_id: str, payload: Payload
) -> None:
    """Emit an event, without secrets and with every text truncated. A failure is a warning. Without a context its cluster is not
    known.
    """
    gate = context.gate if context is not None else None
    cluster, name = (gate.cluster.name, gate.name) if gate is not None else (UNKNOWN, "")
    resource = _resource(f"{RESOURCE}{cluster}", name=cluster)
    run = _resource(f"prefect.flow-run.{flow_run_id}", role="flow-run")
    base = {"gate_id": gate_id, "gate": name, "cluster": cluster, "flow_run_id": flow_run_id}
    bounded = {key: _bounded(value) for key, value in {**base, **payload}.items()}
    try:
        sent = emit_event(event.value, resource, related=[run] if flow_run_id else None, payload=bounded)
    except Exception as error:  # noqa: BLE001 - whatever it is: news that is lost must not change a verdict
        LOG.warning("event %s was not emitted: %s", event.value, error)
        return
    if sent is None and should_emit_events():
        LOG.warning("event %s was not emitted: no server receives the events of this process", event.value)


def emit_started(session: Session) -> None:
    """Emit that a gate has its cluster's lock and begins."""
    gate = session.context.gate
    details = {
        "gate_file": session.context.file,
        "profile": gate.checks.profile.value,
        "nodes": gate.cluster.declared.nodes,
        "mode": gate.policy.mode.value,
        "launches": session.launches,
        "adopted": session.renewal.lease.adopted,
    }
    _emit_of(session, GateEvent.STARTED, details)


def emit_question(session: Session, judged: JudgedReport, pending: PendingQuestion) -> None:
    """Emit that a person is asked and the run waits."""
    details = {
        "key": pending.key,
        "deadline": pending.deadline,
        "override": pending.override,
        "url": pending.url,
        **_verdict(judged),
    }
    _emit_of(session, GateEvent.QUESTION, details)


def emit_answer(session: Session, answer: ApprovalAnswer) -> None:
    """Emit that a person answered, or that nobody did by the deadline ("via" is "nobody")."""
    _emit_of(session, GateEvent.ANSWER, _answer(answer))


def emit_end(session: Session, outcome: GateOutcome) -> None:
    """Emit how a gate ended."""
    training = outcome.training
    details = {
        "decision": outcome.decision.value if outcome.decision else None,
        "exit_code": int(outcome.code),
        "headline": title_of(outcome, session.context.gate.name),
        "reason": outcome.reason,
        **_verdict(outcome.judged),
        "report": outcome.report,
        "html": outcome.html,
        "placement": str(outcome.placement or session.placed),
        "training_state": training.state.value if training else None,
        "training_job": training.job_id if training else None,
        "overridden_by": outcome.answer.who
        if outcome.answer and outcome.decision is Decision.OVERRIDDEN
        else None,
    }
    # A kind of end and its event have one name.
    _emit_of(session, GateEvent[kind_of(outcome).name], details)


def emit_rejected(request: GateRequest, flow_run_id: str, error: Exception) -> None:
    """Emit that a request started nothing. The event names the cluster if the gate file can be read."""
    context: GateContext | None = None
    with contextlib.suppress(GateFileError):
        context = open_gate_context(request)
    details = {"gate_file": request.gate_file, "headline": str(error), "exit_code": int(Exit.REJECTED)}
    emit_gate_event(GateEvent.REJECTED, context, "", flow_run_id, details)


def emit_cancelled(session: Session, reason: str) -> None:
    """Emit that somebody cancelled the run and that its jobs are being ended."""
    _emit_of(session, GateEvent.CANCELLED, {"headline": reason})


def emit_run_ended(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Emit that this process will send no more heartbeats of the run. A hook of the flow.

    It names a last heartbeat as the event before it, which the server therefore looks at first. Of a run that ends within a moment, as
    a rejected one does, it looks at the first heartbeat and at the end at once, and would wait for a sign of life after the end.
    """
    of_flow = _resource(f"prefect.flow.{flow_run.flow_id}", role="flow", name=flow.name)
    related = [of_flow, *(_resource(f"prefect.tag.{tag}", role="tag") for tag in flow_run.tags)]
    resource = _resource(f"prefect.flow-run.{flow_run.id}", name=flow_run.name)
    try:
        last = emit_event(HEARTBEAT, resource, related=related)
        emit_event(RUN_ENDED, resource, related=related, payload={"state": state.name}, follows=last)
    except Exception as error:  # noqa: BLE001 - whatever it is: at worst a reaper looks at a run that has ended
        LOG.warning("event %s was not emitted: %s", RUN_ENDED, error)


def _resource(resource_id: str, **labels: str) -> dict[str, str]:
    own = {f"prefect.resource.{label}": value for label, value in labels.items()}
    return {"prefect.resource.id": resource_id, **own}


def _emit_of(session: Session, event: GateEvent, payload: Payload) -> None:
    run = session.renewal.lease.owner.flow_run_id
    emit_gate_event(event, session.context, session.gate_id, run, payload)


def _verdict(judged: JudgedReport | None) -> Payload:
    if judged is None:
        return {"answer": None, "level": None, "culprits": [], "more_culprits": 0, "reused": ""}
    verdict, blamed = judged.verdict, culprits(judged.verdict)
    return {
        "answer": verdict.answer.value,
        "level": verdict.level.name,
        "culprits": list(blamed[:CULPRITS]),
        "more_culprits": max(0, len(blamed) - CULPRITS),
        "reused": judged.reused,
    }


def _answer(answer: ApprovalAnswer) -> Payload:
    return {
        "key": answer.key,
        "action": answer.action.value,
        "who": answer.who,
        "via": answer.via.value,
        "verified": answer.verified,
        "reason": answer.reason,
    }


def _bounded(value: object) -> object:
    if isinstance(value, str):
        return one_line(redacted(value), TEXT_CHARACTERS)
    return [_bounded(item) for item in value] if isinstance(value, list) else value
