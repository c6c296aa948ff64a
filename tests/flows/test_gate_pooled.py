"""What stands from one job to the next: a pool that is held, proven, lost, and never left behind, and a PASS that is used again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tasks.gate.outcome import Decision, JudgedReport
from tasks.judge import find_fresh_pass
from tasks.launchers.base import JobState, NoCapacity, PreflightCheck, PreflightResult, RetentionState
from tests.flows.driving import cancelled, gate_it, kept, open_session, page, request_of
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("without_prefect", "play")


def test_the_training_gets_the_pool_and_it_is_proven(tmp_path: Path, engine: Engine) -> None:
    """Submitted once the pool is ready, with the check job as its predecessor; the engine and the hosts say so."""
    engine.pools = ["coming"]

    _, outcome = gate_it(fake_gate(tmp_path))

    check, train = f"{outcome.gate_id}-check-1", f"{outcome.gate_id}-train-1"
    assert (Decision.LAUNCHED, 0, check) == (outcome.decision, outcome.code, engine.jobs[train].predecessor)
    assert outcome.placement is not None
    reused = f"{train} reused the machines of {check}"
    assert (reused, "all 2 hosts confirmed: boot id") == outcome.placement.proof
    said = {"kind": "pooled", "proof": list(outcome.placement.proof)}
    assert said == kept(tmp_path, outcome, "outcome.json")["placement"]
    assert engine.idle and check in engine.handed
    assert engine.jobs[check].tags["prelaunch:flow-run"]


def test_a_pool_that_the_training_does_not_get_is_released(tmp_path: Path, engine: Engine) -> None:
    """It is recorded, and its machines are not paid for while the training runs on others."""
    engine.matches, engine.training = False, "wrong"

    _, outcome = gate_it(fake_gate(tmp_path))

    assert outcome.placement is not None
    assert "does not have the machines that passed" in outcome.placement.proof[0]
    assert (1, Decision.REFUSED) == (outcome.code, outcome.decision)
    assert "other machines than those that passed" in page(tmp_path, outcome)
    assert engine.idle


def test_a_training_that_is_handed_over_keeps_its_machines(tmp_path: Path, engine: Engine) -> None:
    """Nothing is cancelled, and the pool of its checks is not released."""
    _, outcome = gate_it(fake_gate(tmp_path), wait="started")
    released = [job for verb, job in engine.calls if verb == "release" and "-check-" in job]

    assert (0, 0, []) == (outcome.code, engine.count("cancel"), released)
    assert RetentionState.REUSED is engine.kept[f"{outcome.gate_id}-check-1"].state


@pytest.mark.parametrize("verb", ["submit", "train"])
def test_a_gate_cancelled_in_any_phase_leaves_nothing(tmp_path: Path, engine: Engine, verb: str) -> None:
    """No job runs on, no pool is kept, no lease is held."""
    engine.training = "hang"

    def now(called: str, job: str) -> bool:
        return called == "state" and "-train-" in job if verb == "train" else called == verb

    cancelled(fake_gate(tmp_path), engine, now)


def test_preflight_failure_rejects_the_gate_with_its_remedy(tmp_path: Path, engine: Engine) -> None:
    """Nothing was started; what could not be seen is kept."""
    problem = "ml.p5.48xlarge for training warm pool usage is 0."
    quota = PreflightCheck("quota", PreflightResult.WRONG, problem, "Ask for 4.")
    engine.lines = (quota, PreflightCheck("role", PreflightResult.UNSEEN, "iam:GetRole was denied."))

    state, outcome = gate_it(fake_gate(tmp_path))

    assert ("Rejected", 2, {}) == (state.name, outcome.code, engine.jobs)
    assert f"quota: {problem} Ask for 4." in outcome.reason
    assert "unseen" == kept(tmp_path, outcome, "preflight.json")[1]["result"]


def test_machines_that_the_preflight_does_not_find_are_waited_for(tmp_path: Path, engine: Engine) -> None:
    """Nothing is submitted meanwhile, and every attempt looks again, under a name of its own; so are those that the engine lacks."""
    engine.lines = (PreflightCheck("partition p5", PreflightResult.NO_CAPACITY, "it is DOWN.", "Wait."),)
    engine.refusals = [NoCapacity("no machines")]

    def hook(verb: str, job: str) -> None:
        if engine.count("preflight") == 2:
            engine.lines = ()

    engine.hook = hook
    _, outcome = gate_it(fake_gate(tmp_path, cluster="capacity_wait_minutes = 0.1"))

    assert (0, f"{outcome.gate_id}-check-3") == (outcome.code, next(iter(engine.jobs)))


def test_a_node_that_is_not_where_the_engine_says_is_refused(tmp_path: Path, engine: Engine) -> None:
    """Its boot id is another than its kubelet reports: it is not known what was tested."""
    engine.machines = {"node-1": {"engine_node": "worker-1", "engine_boot_id": "0000"}}

    _, outcome = gate_it(fake_gate(tmp_path))

    assert (3, [f"{outcome.gate_id}-check-1"]) == (outcome.code, list(engine.jobs)), outcome.reason
    assert outcome.judged is not None
    messages = [finding.message for finding in outcome.judged.verdict.findings]
    assert any("the engine says that worker-1" in one and "boot id 0000" in one for one in messages)


def found(path: Path, *overrides: str) -> JudgedReport | None:
    """The PASS that the flow of a gate would reuse."""
    with open_session(request_of(path, *overrides), "another-run") as session:
        return find_fresh_pass(session, time.time())


def test_a_fresh_pass_is_reused_where_it_fits(tmp_path: Path, engine: Engine) -> None:
    """The second gate checks nothing, says whose PASS it stands on, and trains.

    Other checks, or a report that was changed since: there is no PASS. After a FAIL the cluster has none to stand on.
    """
    path = fake_gate(tmp_path, policy="reuse_pass_minutes = 60")
    _, first = gate_it(path)

    _, second = gate_it(path)

    trained = [job for job in engine.jobs if "-check-" not in job]
    assert [f"{first.gate_id}-check-1", *trained] == list(engine.jobs)
    assert [JobState.SUCCEEDED] * 2 == [engine.last[job].state for job in trained]
    assert second.judged is not None and second.judged.reused == first.gate_id
    again = found(path)
    assert again is not None and again.reused == first.gate_id
    assert found(path, "checks.profile=standard") is None
    report = tmp_path / "store" / "gates" / first.gate_id / "health_check_metrics.json"
    whole = report.read_bytes()
    report.write_bytes(whole + b"corrupt")
    assert found(path) is None
    report.write_bytes(whole)
    engine.parts = ["wrong"]
    assert 1 == gate_it(path, "policy.reuse_pass_minutes=0")[1].code
    assert found(path) is None


def test_a_pass_ends_where_a_gate_measures_again(tmp_path: Path, engine: Engine) -> None:
    """Also where that gate launches nothing, and is cancelled before it has judged what its nodes found."""
    path = fake_gate(tmp_path, policy="reuse_pass_minutes = 60")
    gate_it(path, launch=False)
    assert found(path) is not None
    engine.parts = ["wrong"]

    cancelled(path, engine, lambda verb, job: verb == "fetch", launch=False)

    assert found(path) is None
