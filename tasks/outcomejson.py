"""An outcome as a JSON document: what `prelaunch gate --format json` prints, and what a run announces. No key is ever absent."""

from __future__ import annotations

from checks.cost import Cost
from checks.model import Verdict
from checks.report import plain
from tasks.costing import cost_json
from tasks.outcome import Outcome, Placed, Training
from tasks.question import Answer
from tasks.render.document import verdict_json


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """The whole outcome."""
    judged = outcome.judged
    return ending_json(
        decision=outcome.decision.value if outcome.decision else None,
        verdict=judged.verdict if judged else None,
        training=outcome.training,
        report=outcome.report,
        html=outcome.html,
        gate_id=outcome.gate_id,
        reason=outcome.reason,
        cost=judged.beside.cost if judged else None,
        placement=outcome.placement,
        approval=outcome.answer,
    )


def ending_json(
    decision: str | None,
    verdict: Verdict | None,
    training: Training | None,
    report: str | None,
    html: str | None,
    gate_id: str,
    reason: str,
    cost: Cost | None = None,
    placement: Placed | None = None,
    approval: Answer | None = None,
) -> dict[str, object]:
    """As much of it as there is."""
    return {
        "decision": decision,
        "verdict": verdict_json(verdict) if verdict else None,
        "cost": cost_json(cost),
        "training": {
            "job_id": training.job_id if training else None,
            "state": training.state.value if training else None,
        },
        "placement": plain(placement),
        "approval": plain(approval),
        "report": report,
        "html": html,
        "gate_id": gate_id,
        "reason": reason,
    }
