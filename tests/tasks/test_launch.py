"""The training gets the machines that passed, or somebody reads why not. An engine that answers what the test says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.judge.cost.cost import CostTerms
from tasks import launch
from tasks.gate.jobs import JobEnd
from tasks.launchers.base import EngineUnavailable, JobState, JobStatus, Placement, RetentionState
from tasks.store.layout import log_key, logs_folder
from tests.sample_reports import healthy
from tests.tasks.sessions import CHECK_JOB, READY, TRAIN_JOB, FakeEngine, judged, session

PASSED = judged(healthy(2, 1))
LOST = f"{TRAIN_JOB} does not have the machines that passed, because they"
COMING = replace(READY, state=RetentionState.COMING, detail="Terminating")
GONE = replace(READY, state=RetentionState.GONE, detail="Expired")
OURS, THEIRS = (replace(READY, state=RetentionState.REUSED, by=job) for job in (TRAIN_JOB, "their-job"))
RUNNING = JobStatus(JobState.RUNNING, "", "abcdef12", {})
ENDED = JobStatus(JobState.SUCCEEDED, "", "abcdef12", {"node-0": 0, "node-1": 0})


@pytest.mark.parametrize(
    ("holds", "placement", "reused", "expected"),
    [
        ([READY], Placement.POOLED, "", True),
        ([COMING, READY], Placement.POOLED, "", True),
        ([EngineUnavailable("down"), READY], Placement.POOLED, "", True),
        ([OURS], Placement.POOLED, "", True),
        ([THEIRS], Placement.POOLED, "", False),
        ([COMING, GONE], Placement.POOLED, "", False),
        ([GONE], Placement.NONE, "", True),
        ([GONE], Placement.POOLED, "g-0", True),
    ],
)
def test_the_training_follows_a_pool_that_is_ours(
    tmp_path: Path, holds: list[Any], placement: Placement, reused: str, expected: bool
) -> None:
    """If somebody else has the machines, the checks begin again under new names, and nothing of the first round is left."""
    one = session(tmp_path, FakeEngine(placement, holds=holds))
    one.ended(CHECK_JOB)

    assert expected is asyncio.run(launch.wait_for_pool(one, replace(PASSED, reused=reused)))
    assert (one.rounds, one.renewal.lease.attempt) == ((1, 1) if expected else (2, 2))
    assert ("cancel", CHECK_JOB) in one.context.launcher.calls or expected  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (THEIRS, f"the machines of {CHECK_JOB} were taken by their-job, after 2 rounds"),
        (replace(COMING, within_s=0.0), "were not ready within 0 s"),
    ],
)
def test_a_pool_that_is_lost_twice_ends_the_gate(tmp_path: Path, pool: Any, said: str) -> None:
    """The message names who has the machines; the wait for a pool that never comes has an end."""
    one = session(tmp_path, FakeEngine(holds=[pool]))
    one.rounds = launch.ROUNDS

    with pytest.raises(launch.PoolLost, match=said):
        asyncio.run(launch.wait_for_pool(one, PASSED))


@pytest.mark.parametrize("submitted", [True, False])
def test_a_training_that_was_submitted_before_is_not_begun_twice(tmp_path: Path, submitted: bool) -> None:
    """Whatever became of the pool since its gate died."""
    engine = FakeEngine(holds=[GONE], states={TRAIN_JOB: RUNNING} if submitted else {})

    assert submitted is asyncio.run(launch.wait_for_pool(session(tmp_path, engine, adopted=True), PASSED))


@pytest.mark.parametrize(
    ("holds", "looks", "settled", "proof"),
    [
        ([OURS], [RUNNING], True, f"{TRAIN_JOB} reused the machines of {CHECK_JOB}"),
        ([OURS], [replace(RUNNING, state=JobState.PENDING)], False, ""),
        ([THEIRS], [RUNNING], True, f"{LOST} were taken by their-job"),
        ([GONE], [RUNNING], True, f"{LOST} are no longer available (Expired)"),
        ([READY], [RUNNING], False, ""),
        ([READY, OURS], [RUNNING, RUNNING], True, f"{TRAIN_JOB} reused the machines of {CHECK_JOB}"),
        ([READY], [ENDED], True, f"{LOST} were still idle while it ran"),
    ],
)
def test_the_engine_says_whether_the_training_has_the_pool(
    tmp_path: Path, holds: list[Any], looks: list[JobStatus], settled: bool, proof: str
) -> None:
    """Only a pool that this training took is a proof; a pool that it left over is released."""
    engine = FakeEngine(holds=holds, released="released")
    one = session(tmp_path, engine)
    one.judged = PASSED
    one.ended(CHECK_JOB)
    asked = launch.PoolProof(one, TRAIN_JOB)
    for status in looks:
        asyncio.run(asked.ask(status))

    assert (settled, bool(proof)) == (asked.settled, bool(one.proof))
    assert "".join(one.proof).startswith(proof)
    assert [("release", CHECK_JOB)] * (holds == [READY] and settled) == engine.calls
    assert (one.kept_s(CHECK_JOB) is None) is settled


def test_a_pool_that_is_left_over_is_released_while_the_training_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine had its time to say whose it is."""
    monkeypatch.setattr(launch, "PROOF_S", -1.0)
    engine = FakeEngine(holds=[COMING])
    one = session(tmp_path, engine)
    one.judged = PASSED
    one.ended(CHECK_JOB)
    asyncio.run(launch.PoolProof(one, TRAIN_JOB).ask(RUNNING))

    assert [("release", CHECK_JOB)] == engine.calls


@pytest.mark.parametrize(
    ("placement", "found", "settled"),
    [
        (Placement.NONE, PASSED, True),
        (Placement.POOLED, None, True),
        (Placement.POOLED, replace(PASSED, reused="g-0"), True),
        (Placement.POOLED, PASSED, False),
    ],
)
def test_pool_proof_is_settled_without_a_pool_or_own_verdict(
    tmp_path: Path, placement: Placement, found: Any, settled: bool
) -> None:
    """Without a pool, a verdict of this gate, or both."""
    one = session(tmp_path, FakeEngine(placement))
    one.judged = found

    assert settled is launch.PoolProof(one, TRAIN_JOB).settled


@pytest.mark.parametrize(
    ("pool", "keeps_s", "waits", "released"),
    [
        (READY, 3600.0, True, False),
        (COMING, None, True, False),
        (GONE, 3600.0, False, False),
        (THEIRS, 3600.0, False, False),
        (READY, -1.0, False, True),
    ],
)
def test_machines_are_kept_for_a_training_no_longer_than_the_gate_file_says(
    tmp_path: Path, pool: Any, keeps_s: float | None, waits: bool, released: bool
) -> None:
    """Then they are released, because they are paid for."""
    engine = FakeEngine(holds=[pool], keeps_s=keeps_s)
    one = session(tmp_path, engine)

    assert launch.pool_waits(one) is False
    assert "" == launch.pool_cost_now(one) == launch.pool_cost_so_far(one)
    one.ended(CHECK_JOB)
    assert (waits, released) == (launch.pool_waits(one), engine.calls == [("release", CHECK_JOB)])


@pytest.mark.parametrize(
    ("nodes", "keeps_s", "terms", "now", "so_far"),
    [
        (2, 600.0, CostTerms(usd_per_node_hour=30.0), " for 10 more minutes at most: 2 nodes at 60 USD per hour.", "30 USD"),
        (1, None, CostTerms(usd_per_node_hour=30.0), ": 1 node at 30 USD per hour.", "15 USD"),
        (1, None, CostTerms(), ": 1 node at an unknown price of cpu per hour.", "an unknown price of cpu"),
    ],
)  # fmt: skip
def test_pool_cost_text_states_the_price_of_the_waiting_machines(
    tmp_path: Path, nodes: int, keeps_s: float | None, terms: CostTerms, now: str, so_far: str
) -> None:
    """An hour's price for all nodes, and for how long; a price that nobody knows is not invented."""
    one = session(tmp_path, FakeEngine(keeps_s=keeps_s), nodes=nodes)
    one.ended(CHECK_JOB)
    one.context.terms = terms  # type: ignore[misc]
    assert f"Kept for the training{now}" == launch.pool_cost_now(one)

    one._kept_since[CHECK_JOB] -= 1800.0
    assert launch.pool_cost_so_far(one).endswith(f" waited for it for 30.0 minutes ({so_far}).")


@pytest.mark.parametrize(
    ("placement", "reused", "said"),
    [(Placement.POOLED, "", True), (Placement.POOLED, "g-0", False), (Placement.NONE, "", False)],
)
def test_a_gate_that_does_not_wait_claims_no_proof(
    tmp_path: Path, placement: Placement, reused: str, said: bool
) -> None:
    """The pool and the training outlive it."""
    one = session(tmp_path, FakeEngine(placement))
    one.judged = replace(PASSED, reused=reused)
    one.remember(TRAIN_JOB)
    one.ended(CHECK_JOB)
    launch.hand_over_pool(one, TRAIN_JOB)
    with one:
        pass

    assert said is ("did not wait for proof" in "".join(one.proof))
    assert [] == one.context.launcher.calls  # type: ignore[attr-defined]


def known(found: Any, **identity: str) -> Any:
    """The same report, whose nodes have this identity."""
    nodes = tuple(replace(node, identity=identity) for node in found.report.nodes)
    return replace(found, report=replace(found.report, nodes=nodes))


@pytest.mark.parametrize(
    ("files", "placement", "found", "proof"),
    [
        (["started/node-0", "started/node-1"], Placement.POOLED, known(PASSED, boot_id="b"), ["all 2 hosts confirmed: boot id"]),
        (["started/node-0", "started/node-1"], Placement.POOLED, known(PASSED), ["all 2 hosts confirmed: host"]),
        (["started/node-0"], Placement.POOLED, PASSED, []),
        (["started/node-0", "started/node-1", "nodes/node-1.json"], Placement.POOLED, PASSED, ["so they checked again"]),
        (["started/node-0", "started/node-1", "verdicts/node-1.json"], Placement.POOLED, PASSED, ["so they checked again"]),
        (["started/node-0", "started/node-1", "nodes/node-1.json"], Placement.IN_JOB, PASSED, ["in one start of one job"]),
        (["started/node-0"], Placement.IN_JOB, PASSED, []),
    ],
)  # fmt: skip
def test_training_confirmations_are_recorded_only_if_every_node_started(
    tmp_path: Path, files: list[str], placement: Placement, found: Any, proof: list[str]
) -> None:
    """Nothing is claimed unless every node started; machines that checked again were not the ones that passed."""
    one, folder = session(tmp_path, FakeEngine(placement)), tmp_path / "attempt"
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    launch.record_confirmations(one, found, folder)

    assert len(proof) == len(one.proof)
    assert all(line.endswith(end) for line, end in zip(one.proof, proof, strict=True))


@pytest.mark.parametrize(
    ("status", "nodes", "expected"),
    [
        (RUNNING, 2, True),
        (RUNNING, 3, False),
        (replace(RUNNING, attempt=""), 2, False),
        (replace(RUNNING, state=JobState.PENDING), 2, False),
        (ENDED, 2, False),
    ],
)
def test_a_training_has_started_when_every_node_became_the_command(
    tmp_path: Path, status: JobStatus, nodes: int, expected: bool
) -> None:
    """A job that only runs has not."""
    files = {f"abcdef12/started/node-{index}": b"" for index in (0, 1)}
    one = session(tmp_path, FakeEngine(files=files), nodes=nodes)
    start = launch.TrainingStart(one, TRAIN_JOB)

    assert expected is launch.has_started(one, TRAIN_JOB, status)
    assert (expected, "") == (start.is_over(status), start.missing)


def test_a_training_whose_nodes_cannot_say_so_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No longer than checks may take; then it is said what is missing."""
    monkeypatch.setattr(launch, "checks_limit_s", lambda session: 0.0)
    start = launch.TrainingStart(session(tmp_path), TRAIN_JOB)

    assert start.is_over(RUNNING) and "not every node has reported" in start.missing


def result(folder: Path, engine: FakeEngine, status: JobStatus, late: str = "") -> Any:
    """What the gate says of a training that ended so."""
    one = session(folder, engine)
    found = launch.training_result(one, PASSED, JobEnd(TRAIN_JOB, status, late))
    return found, one


FAILED = JobStatus(JobState.FAILED, "", "abcdef12", {"node-0": 0, "node-1": 7})


@pytest.mark.parametrize(
    ("status", "late", "files", "state", "said"),
    [
        (ENDED, "", {}, JobState.SUCCEEDED, "node-0: the last line"),
        (FAILED, "", {}, JobState.FAILED, "node-1: the last line"),
        (ENDED, "it ran too long", {}, JobState.FAILED, "it ran too long"),
        (replace(FAILED, state=JobState.SUCCEEDED), "", {}, JobState.SUCCEEDED, "node-0: the last line"),
        (replace(FAILED, exit_codes={"node-1": 0}), "", {}, JobState.FAILED, "node-1: the last line"),
        (FAILED, "", {"abcdef12/failure/node-1": b"no memory\n"}, JobState.FAILED, "node-1: no memory"),
    ],
)
def test_how_a_training_ended(
    tmp_path: Path, status: JobStatus, late: str, files: Any, state: JobState, said: str
) -> None:
    """The failed node's own words come before the log; one that ran too long failed. Its logs are kept."""
    found, one = result(tmp_path, FakeEngine(files=files, log="first\nthe last line\n"), status, late)

    ended = found.training
    assert (state, said) == (ended.state, ended.detail if state is JobState.SUCCEEDED else ended.cause)
    assert (found.ran, found.rechecked) == (True, None)
    assert ended.node == ("node-1" if state is JobState.FAILED and not late else "")
    assert one.context.store.get(log_key("g-1", TRAIN_JOB, "node-1")) is not None


@pytest.mark.parametrize(
    ("log", "status", "cause", "besides"),
    [
        ("the last line\n", replace(FAILED, detail="node-1 exited 7"), "node-1: the last line", "node-1 exited 7; "),
        ("", replace(FAILED, detail="Slurm no longer knows the job"), "Slurm no longer knows the job", ""),
    ],
)  # fmt: skip
def test_failed_training_details_node_ends_and_logs_beside_the_cause(
    tmp_path: Path, log: str, status: JobStatus, cause: str, besides: str
) -> None:
    """How the nodes ended, and where the logs are: not in the first line about it. What the engine says is not said twice."""
    found, one = result(tmp_path, FakeEngine(files={}, log=log), status)
    logs = one.context.store.location(logs_folder("g-1", TRAIN_JOB))

    assert (cause, f"{besides}logs: {logs}") == (found.training.cause, found.training.detail)
    assert found.training.text == f"{cause}; {besides}logs: {logs}"
