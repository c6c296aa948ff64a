"""The JSON document of a gate begins with its answer, and the committed schema takes every document that a gate can print."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from checks.exit_codes import RejectionKind
from checks.judge.cost.cost import CostTerms
from checks.model import Report
from checks.model_details import Sensitivity
from flows.cli.output import json_text, rejection
from tasks.gate.lease.lease import LeaseError, LeaseHeld
from tasks.gate.outcome import (
    Decision,
    Ending,
    GateOutcome,
    JudgedReport,
    PlacementProof,
    Training,
    outcome_json,
    rejection_kind,
    unjudged_json,
)
from tasks.gate.question import AnswerChannel, ApprovalAction, ApprovalAnswer
from tasks.gate_file.cost_terms import cost_of
from tasks.gate_file.read import GateFileError
from tasks.launchers.base import JobState, LaunchRejected, Placement
from tasks.render.context import VerdictContext
from tasks.reports.schema import RESULT_PATH
from tasks.store.base import StoreUnreachable
from tests.sample_reports import healthy, verdict_of, without_node, wrong_sums

VALIDATOR = jsonschema.Draft202012Validator(json.loads(RESULT_PATH.read_text()))
REPORTS = (healthy(), wrong_sums(healthy(), "node-1/rank-3"), without_node(healthy(), "node-1"))
ANSWERED = ApprovalAnswer(
    1, "g-1", "k", ApprovalAction.LAUNCH, "ana", AnswerChannel.PREFECT, False, "we know it", 1.0, True
)
FIRST = ["answer", "decision", "first_line", "culprits"]


def judged(report: Report) -> JudgedReport:
    """With its cost, and with how slow parts would have been named."""
    seen_from = (Sensitivity("nccl.pairs", "node", 0.06), Sensitivity("nccl.pairs", "link", None))
    verdict = replace(verdict_of(report), seen_from=seen_from)
    context = VerdictContext(cost=cost_of(report, verdict, CostTerms(hours=72)))
    return JudgedReport(report, verdict, context=context)


def errors(document: object) -> list[str]:
    """What the schema says against it, as a script reads it."""
    return [error.message for error in VALIDATOR.iter_errors(json.loads(json.dumps(document)))]


@pytest.mark.parametrize("ending", list(Ending))
@pytest.mark.parametrize("decision", [*Decision, None])
def test_every_end_of_a_gate_is_taken(ending: Ending, decision: Decision | None) -> None:
    """With and without a verdict, a training, a placement and a person's answer; what people look for first is first."""
    training = Training("g-1-train-1", JobState.FAILED, "exit code 1")
    proof = PlacementProof(Placement.PINNED, ("all 2 hosts confirmed",))
    for report in (None, *REPORTS):
        whole = None if report is None else judged(report)
        for more in ((None, None, None), (training, proof, ANSWERED)):
            made = GateOutcome("g-1", ending, decision, whole, more[0], "why", "r.json", "r.html", *more[1:])
            document = outcome_json(made, "local")

            assert [] == errors(document)
            assert FIRST == list(document)[:4] == list(json.loads(json_text(document, by_name=False)))[:4]
            assert ("engine" if ending is Ending.REJECTED else None) == document["rejected"]


def test_a_culprit_is_named_where_somebody_is_to_blame() -> None:
    """The nodes, as in events and notifications; nobody is where the gate could not tell, or all is well."""
    ends = (GateOutcome("g-1", Ending.VERDICT, None, judged(report), None, "") for report in REPORTS)

    assert [[], ["node-1"], []] == [outcome_json(end, "local")["culprits"] for end in ends]


@pytest.mark.parametrize("kind", list(RejectionKind))
def test_every_rejection_is_taken(kind: RejectionKind) -> None:
    """On the command line, and as a run on a server publishes it."""
    assert [] == errors(rejection("a.toml", "name", "is wrong", None, kind))
    assert [] == errors(unjudged_json("why", "REJECTED gate: why", rejected=kind))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LeaseHeld("another gate"), RejectionKind.BUSY),
        (LeaseError("cannot be read"), RejectionKind.STORE),
        (StoreUnreachable("no answer"), RejectionKind.STORE),
        (GateFileError("a.toml", "name", "unknown key"), RejectionKind.REQUEST),
        (LaunchRejected("no such role"), RejectionKind.ENGINE),
    ],
)
def test_a_pipeline_can_tell_a_busy_cluster_from_a_wrong_file(error: Exception, kind: RejectionKind) -> None:
    """All of them are exit code 2, and only one is worth another try."""
    assert kind is rejection_kind(error)


@pytest.mark.parametrize(
    "change", [{"surprise": 1}, {"decision": "maybe"}, {"answer": None, "culprits": None}]
)
def test_another_document_is_refused(change: dict[str, Any]) -> None:
    """An unknown key, decision or type; and a key that is missing."""
    passed = GateOutcome("g-1", Ending.VERDICT, Decision.PASSED, judged(REPORTS[0]), None, "")
    good = outcome_json(passed, "a")

    assert errors({**good, **change})
    assert errors({key: value for key, value in good.items() if key != "decision"})
