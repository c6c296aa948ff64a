"""Checks and training in one job: its nodes decide, the gate judges each start, and the stricter one wins."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checks.documents.answer import AnswerWord
from checks.model import Answer
from tasks import in_job as agreeing
from tasks.gate.outcome import HELD, Decision, GateOutcome, first_line
from tasks.in_job import JobStarts
from tasks.launchers.base import JobState, LaunchRejected, Placement
from tasks.store.folder import FolderStore
from tasks.store.history import listed
from tests.flows.driving import cancelled, gate_it, kept, page
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate
from tests.tasks.sessions import answer

__all__ = ["in_job"]
pytestmark = pytest.mark.usefixtures("without_prefect", "play", "in_job")


@pytest.fixture
def in_job(engine: Engine) -> None:
    """Checks and training are one job."""
    engine.placement, engine.keeps_s = Placement.IN_JOB, None


def attempts(folder: Path, outcome: GateOutcome) -> list[str]:
    """Which starts the gate kept."""
    return sorted(path.name for path in (folder / "store" / "gates" / outcome.gate_id / "attempts").iterdir())


def test_a_start_after_a_repair_is_judged_by_itself(tmp_path: Path, engine: Engine) -> None:
    """The outcome is that of the last start; each one's report and verdict are kept, and people are notified of what was repaired."""
    engine.parts, engine.repairs = ["wrong", "lone", "healthy"], True

    _, outcome = gate_it(fake_gate(tmp_path))
    refused, _ = listed(FolderStore(tmp_path / "store")).records
    sent = (tmp_path / "store" / "pages" / f"{refused.gate_id}.txt").read_text()

    assert (0, ["s1", "s2", "s3"]) == (outcome.code, attempts(tmp_path, outcome))
    for token in ("s1", "s2"):
        assert "FAIL" == kept(tmp_path, outcome, f"attempts/{token}/verdict.json")["level"]
    assert sent.startswith("NO-GO test: node-1, rank 3") and refused.report in sent


def test_too_many_no_gos_end_the_job(tmp_path: Path, engine: Engine) -> None:
    """The page names the last culprit and the count."""
    engine.parts, engine.repairs = ["wrong"], True

    _, outcome = gate_it(fake_gate(tmp_path, more="max_attempts = 2"))

    assert (1, ["s1", "s2"]) == (outcome.code, attempts(tmp_path, outcome))
    sent = page(tmp_path, outcome)
    assert "node-1, rank 3" in sent and "no-go 2 of 2: the job was ended" in sent
    assert engine.idle


@pytest.mark.parametrize("placement", [Placement.IN_JOB, Placement.PINNED])
def test_the_next_job_does_without_the_nodes_that_failed(
    tmp_path: Path, engine: Engine, placement: Placement
) -> None:
    """It is gated anew. The GO names what is excluded, and people are notified of it after the GO. The engine gets its own name. The
    refusal is a gate of its own, which the notification names, and which can be repaired.
    """
    engine.machines = {"node-1": {"engine_node": "ip-10-0-0-7"}}
    engine.placement, engine.excludes_failed = placement, True
    engine.parts = ["wrong", "healthy"]

    _, outcome = gate_it(fake_gate(tmp_path))
    first = "train" if placement is Placement.IN_JOB else "check"
    jobs = {name.removeprefix(f"{outcome.gate_id}-"): job.exclude for name, job in engine.jobs.items()}
    refused, launched = listed(FolderStore(tmp_path / "store")).records
    sent = (tmp_path / "store" / "pages" / f"{refused.gate_id}.txt").read_text()

    assert (("node-1",), outcome.gate_id) == (refused.condemned, launched.gate_id)
    assert refused.report in sent and launched.report not in sent
    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code)
    assert (jobs[f"{first}-1"], jobs[f"{first}-2"]) == ((), ("ip-10-0-0-7",))
    assert "excluded after a refusal: node-1" in outcome.reason
    assert "NO-GO" in sent.splitlines()[0] and "node-1, rank 3" in sent
    assert engine.idle


def test_spares_train_without_a_node_that_failed(tmp_path: Path, engine: Engine) -> None:
    """What is left is a start of its own, in the same job. People are notified of the node that failed, which can be repaired."""
    engine.parts = ["wrong", "healthy"]

    _, outcome = gate_it(fake_gate(tmp_path), "cluster.declared.spares=1")
    refused, launched = listed(FolderStore(tmp_path / "store")).records
    sent = (tmp_path / "store" / "pages" / f"{refused.gate_id}.txt").read_text()
    line = first_line(outcome, "test")

    assert (Decision.LAUNCHED, 0, ["node-2"]) == (outcome.decision, outcome.code, list(outcome.left_out))
    assert line.startswith("GO test: 2 of 2 nodes") and "; left out: node-2, rank 5" in line
    assert (("node-2",), outcome.gate_id, 2) == (refused.condemned, launched.gate_id, launched.nodes)
    assert sent.startswith("GOES ON WITHOUT node-2 test: ") and "node-2, rank 5" in sent and HELD in sent
    assert 1 == len(engine.jobs) and engine.idle


def test_a_spare_that_passed_does_not_train(tmp_path: Path, engine: Engine) -> None:
    _, outcome = gate_it(fake_gate(tmp_path), "cluster.declared.spares=1")

    assert (Decision.LAUNCHED, 0) == (outcome.decision, outcome.code)
    assert {"node-2": "node-2: a spare, which passed"} == outcome.left_out
    assert "all 2 nodes checked themselves and trained, in one start of one job" in str(outcome.placement)


@pytest.mark.parametrize(("parts", "forgets"), [(["wrong"], False), (["wrong", "healthy"], True)])
def test_spares_that_do_not_pass_are_a_refusal(
    tmp_path: Path, engine: Engine, parts: list[str], forgets: bool
) -> None:
    """Of what is left a node fails again, or the nodes choose none."""
    engine.parts, engine.forgets = parts, forgets

    _, outcome = gate_it(fake_gate(tmp_path), "cluster.declared.spares=1")

    assert (Decision.REFUSED, 1) == (outcome.decision, outcome.code)
    assert engine.idle


def test_an_engine_that_starts_again_gets_all_nodes_back(tmp_path: Path, engine: Engine) -> None:
    """The choice is made anew, without what an earlier start left out."""
    engine.parts, engine.interruptions = ["wrong", "healthy"], 1

    _, outcome = gate_it(fake_gate(tmp_path), "cluster.declared.spares=1")

    assert (Decision.LAUNCHED, 0, 3) == (outcome.decision, outcome.code, len(attempts(tmp_path, outcome)))
    assert {"node-2": "node-2: a spare, which passed"} == outcome.left_out


def test_attempts_without_the_nodes_that_failed_are_counted(tmp_path: Path, engine: Engine) -> None:
    """The last refusal stands, and its page names the node."""
    engine.excludes_failed, engine.parts = True, ["wrong"]

    _, outcome = gate_it(fake_gate(tmp_path, more="max_attempts = 2"))

    assert (Decision.REFUSED, 1) == (outcome.decision, outcome.code)
    assert [f"{outcome.gate_id}-train-1", f"{outcome.gate_id}-train-2"] == list(engine.jobs)
    assert engine.idle


def test_refusal_stands_when_slurm_has_no_other_nodes(tmp_path: Path, engine: Engine) -> None:
    """Slurm refuses a job that it could never start; that is no rejection of the request."""
    engine.excludes_failed, engine.parts = True, ["wrong"]

    def hook(verb: str, job: str) -> None:
        if (verb, job[-8:]) == ("submit", "-train-2"):
            engine.refusals.append(LaunchRejected("Requested node configuration is not available"))

    engine.hook = hook

    state, outcome = gate_it(fake_gate(tmp_path))

    assert ("Refused", Decision.REFUSED, 1) == (state.name, outcome.decision, outcome.code)
    assert "node-1, rank 3" in state.message
    assert "then: Requested node configuration is not available" in outcome.reason


def test_the_stricter_gate_stops_the_job(tmp_path: Path, engine: Engine) -> None:
    """Nodes that would train on what the gate refuses are ended, and the difference is recorded."""
    engine.parts, engine.nodes_say = ["wrong"], Answer.GO

    _, outcome = gate_it(fake_gate(tmp_path))

    assert 1 == outcome.code
    assert "the gate is stricter" in outcome.reason
    assert ("cancel", f"{outcome.gate_id}-train-1") in engine.calls
    said = kept(tmp_path, outcome, "attempts/s1/disagreement.json")
    assert ("no_go", "go") == (said["gate"]["answer"], said["nodes"]["node-0"]["answer"])
    assert True is said["stopped"]


def test_observe_mode_stops_nothing(tmp_path: Path, engine: Engine) -> None:
    """The refusal is recorded, the training runs, and people are notified when it begins."""
    engine.parts, engine.nodes_say = ["wrong"], Answer.GO

    _, outcome = gate_it(fake_gate(tmp_path, policy='mode = "observe"'))

    assert (Decision.OBSERVED, 0, 0) == (outcome.decision, outcome.code, engine.count("cancel"))
    assert "train-1 pending" in page(tmp_path, outcome)


def test_unanswered_question_makes_the_nodes_of_the_job_refuse(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes are told so, and the job ends."""

    async def nobody(*_: object) -> None:
        return None

    engine.parts = ["warn"]
    monkeypatch.setattr(agreeing, "ask_for_approval", nobody)

    _, outcome = gate_it(fake_gate(tmp_path, on_warn="ask"), ask_minutes=1)

    assert Decision.AWAITING is outcome.decision
    (said,) = engine.answers
    assert (AnswerWord.REFUSE, "nobody answered in 1 minutes") == (said.word, said.why)
    assert engine.idle


def test_a_cancelled_gate_ends_the_job(tmp_path: Path, engine: Engine) -> None:
    """Also where its nodes train already."""
    engine.parts = ["hang"]

    cancelled(fake_gate(tmp_path), engine, lambda verb, job: verb == "fetch")


def test_an_answer_about_one_start_is_none_about_the_next(tmp_path: Path, engine: Engine) -> None:
    """Ada let the first start train; when its engine begins again and that one fails, nobody's word is in the record."""
    session: Any = SimpleNamespace(checking="job", answer=answer())
    refused: Any = SimpleNamespace(verdict=SimpleNamespace(answer=Answer.NO_GO))

    assert asyncio.run(agreeing.hand_answer_to_nodes(session, refused, JobStarts(), 1)) is None
    assert session.answer is None


def test_interruptions_of_the_training_are_no_refusals(tmp_path: Path, engine: Engine) -> None:
    """However often spot machines are taken away: each start is judged, and the training goes on to its end."""
    engine.interruptions = 3

    _, outcome = gate_it(fake_gate(tmp_path, more="max_attempts = 3"))

    assert (Decision.LAUNCHED, 0, 0) == (outcome.decision, outcome.code, engine.count("cancel"))
    assert ["s1", "s2", "s3", "s4"] == attempts(tmp_path, outcome)
    assert [f"{outcome.gate_id}-train-1"] == list(engine.jobs) == list(engine.handed)
    assert outcome.training is not None and JobState.SUCCEEDED is outcome.training.state
    assert "start 4 of 4" in kept(tmp_path, outcome)["placement"]["proof"]
    assert "Start 4 of 4." in (tmp_path / "store" / "gates" / outcome.gate_id / "report.html").read_text()


def test_starts_that_their_nodes_refuse_are_counted_after_a_go(tmp_path: Path, engine: Engine) -> None:
    """The gate would have let them train; the engine starts the job again and again."""
    engine.nodes_say, engine.repairs = Answer.CANNOT_TELL, True

    _, outcome = gate_it(fake_gate(tmp_path, more="max_attempts = 2"))

    assert 4 == outcome.code
    assert "the engine restarted the job after its nodes had refused" in outcome.reason
    assert ("cancel", f"{outcome.gate_id}-train-1") in engine.calls


def test_no_training_is_denied_that_may_have_started(tmp_path: Path, engine: Engine) -> None:
    """Its nodes decided and trained, and the gate cannot read what they wrote: whoever believes it starts the training twice."""
    engine.unreadable = lambda job: True

    _, outcome = gate_it(fake_gate(tmp_path))
    job = f"{outcome.gate_id}-train-1"
    sent = page(tmp_path, outcome)

    assert "It is not known whether the training was started" in sent
    assert "Training was not started." not in sent and "Training: was not started" not in sent
    assert "succeeded" == kept(tmp_path, outcome)["training"]["state"]
    assert f"The engine says of job {job}: succeeded" in sent


def test_stricter_nodes_train_nothing(tmp_path: Path, engine: Engine) -> None:
    """The gate said go, its nodes did not: a failed launch, in their own words."""
    engine.nodes_say = Answer.CANNOT_TELL

    _, outcome = gate_it(fake_gate(tmp_path))

    assert 4 == outcome.code
    assert "it refused" in outcome.reason
