"""Jobs without reports, and a gate whose process died: no exit code condemns hardware, and what is left is never begun twice."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from checks.bundle import pass_of
from checks.model import Cause, NodeEnd
from tasks.collect import merge_reports, poll_pause_s
from tasks.gate.job_failures import never_ran, require_machines, require_reports
from tasks.gate.jobs import JobEnd, check_job, gated_job, train_job
from tasks.gate.lease.lease import CHECK, TRAIN
from tasks.gate.session import Session
from tasks.gate.submission import submit_job
from tasks.judge import report_verdict
from tasks.launchers.base import (
    EngineUnavailable,
    JobState,
    JobStatus,
    LaunchError,
    LaunchRejected,
    NoCapacity,
    Placement,
    QuotaExceeded,
    RetainedMachines,
    RetentionState,
    Trouble,
)
from tests.flows.driving import gate_it, open_session, request_of
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

FAILED = JobStatus(JobState.FAILED, "the engine's words", "", {}, history=("Starting", "Failed: why"))
RAISED: dict[Trouble, type[LaunchError]] = {
    Trouble.CONFIGURATION: LaunchRejected,
    Trouble.NO_CAPACITY: NoCapacity,
    Trouble.QUOTA: QuotaExceeded,
    Trouble.SERVICE: EngineUnavailable,
}

pytestmark = pytest.mark.usefixtures("without_prefect", "play")
NOBODY = 1 << 22  # above every pid of Linux


def test_a_job_that_somebody_stopped_before_it_reported_cannot_tell(tmp_path: Path, engine: Engine) -> None:
    """With the engine's words, and without a word against a machine."""
    engine.endings = [dataclasses.replace(FAILED, trouble=Trouble.STOPPED)]

    state, outcome = gate_it(fake_gate(tmp_path))

    assert ("CannotTell", 3, True) == (state.name, outcome.code, engine.idle)
    assert outcome.judged is not None
    first = outcome.judged.report.ends[0]
    assert first == NodeEnd("node-0", None, "the last words of node-0", first.said)
    assert first.said.startswith("its job failed ")
    states = f"states of {outcome.gate_id}-check-1, reported by the engine: Starting; Failed: why"
    assert states in outcome.judged.report.collection[1]
    assert {Cause.EVIDENCE} == {finding.cause for finding in outcome.judged.verdict.findings}


@pytest.mark.parametrize(
    ("codes", "rejected"),
    [
        ({"node-0": 2, "node-1": 2}, True),
        ({"node-0": 2}, True),
        ({"node-0": 2, "node-1": 3}, False),
        ({"node-0": 1}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("trouble", list(Trouble))
def test_nodes_that_rejected_the_job_are_no_missing_evidence(
    codes: dict[str, int], rejected: bool, trouble: Trouble
) -> None:
    """An image of another version, or one without a module, is a matter of configuration: the agent's reason is what to do."""
    ended = JobEnd("j", JobStatus(JobState.FAILED, "the image lacks pynvml", "", codes, trouble))
    by_itself = trouble in (Trouble.NONE, Trouble.ENDED)
    if by_itself and rejected:
        with pytest.raises(LaunchRejected, match="the image lacks pynvml"):
            require_reports(ended)
    elif by_itself or trouble in (Trouble.STOPPED, Trouble.MAX_RUNTIME):
        require_reports(ended)
    else:
        with pytest.raises(RAISED[trouble]):
            require_reports(ended)


@pytest.mark.parametrize(
    ("trouble", "error"), [(Trouble.NO_CAPACITY, NoCapacity), (Trouble.QUOTA, QuotaExceeded)]
)
def test_a_training_without_machines_raises_what_it_lacks(trouble: Trouble, error: type[Exception]) -> None:
    """In the engine's words: capacity is waited for, a quota is not."""
    with pytest.raises(error, match="the engine's words"):
        require_machines(JobEnd("j", dataclasses.replace(FAILED, trouble=trouble)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"trouble": Trouble.CONFIGURATION}, True),
        ({"trouble": Trouble.SERVICE}, True),
        ({"trouble": Trouble.STOPPED}, True),
        ({"trouble": Trouble.ENDED}, False),
        ({"trouble": Trouble.MAX_RUNTIME}, False),
        ({"trouble": Trouble.CONFIGURATION, "attempt": "t1"}, False),
        ({"trouble": Trouble.CONFIGURATION, "exit_codes": {"node-0": 1}}, False),
        ({"trouble": Trouble.CONFIGURATION, "state": JobState.UNKNOWN}, False),
    ],
)
def test_job_without_any_sign_of_a_start_never_ran(changes: dict[str, Any], expected: bool) -> None:
    """A node that spoke, an exit code, or an end of its own say that it ran; so does having seen it run."""
    status = dataclasses.replace(FAILED, **changes)

    assert (expected, False) == (never_ran(JobEnd("j", status)), never_ran(JobEnd("j", status, ran=True)))


def test_poll_pause_grows_with_the_time_waited_up_to_a_limit() -> None:
    """From the launcher's own pace to three times that, or five seconds."""
    assert [0.2, 1.0, 5.0] == [poll_pause_s(0.2, seconds) for seconds in (0.0, 100.0, 9000.0)]
    assert [5.0, 15.0] == [poll_pause_s(5.0, seconds) for seconds in (0.0, 9000.0)]


def died(folder: Path, engine: Engine, training: bool = False) -> Session:
    """A gate whose check job ended well, and whose training runs; its process is gone."""
    session = open_session(request_of(fake_gate(folder)), "run-1")
    check = session.renewal.lease.job(CHECK)
    submit_job(session, check_job(session.context, session.gate_id, check))
    while not engine.state(check).state.final:
        pass
    if training:
        made = report_verdict(session, merge_reports(session, JobEnd(check, engine.state(check))))
        train = session.renewal.lease.job(TRAIN)
        submit_job(
            session,
            train_job(session.context, session.gate_id, train, pass_of(made.report, made.verdict), check),
        )
        engine.state(train)
    buried(folder)
    return session


def buried(folder: Path) -> None:
    """The owner of the lease is a process that is no more."""
    path = folder / "store" / "leases" / "test.json"
    lease = json.loads(path.read_bytes())
    lease["owner"]["pid"] = NOBODY
    path.write_text(json.dumps(lease))


def test_a_training_that_the_engine_forgets_is_not_begun_twice(tmp_path: Path, engine: Engine) -> None:
    """Its check job failed after it had reported, the pool's time is up meanwhile, and the look at the training was throttled: it
    runs on, on other machines, which checked again in place.
    """
    session = died(tmp_path, engine, training=True)
    check, train = session.renewal.lease.jobs
    engine.kept[check] = RetainedMachines(RetentionState.GONE, "Terminated")
    engine.last[check] = dataclasses.replace(engine.last[check], state=JobState.FAILED)
    looks = itertools.count()

    def hook(verb: str, job: str) -> None:
        # The first look is the lease's own.
        if (verb, job) == ("state", train) and next(looks) in (1, 2, 3):
            engine.silent.append(train)

    engine.hook = hook
    _, outcome = gate_it(fake_gate(tmp_path))

    assert (0, [check, train]) == (outcome.code, list(engine.jobs)), outcome.reason
    assert ("cancel", train) not in engine.calls


def test_another_gate_releases_the_pool_of_a_dead_one(tmp_path: Path, engine: Engine) -> None:
    """Its own checks begin with machines of their own."""
    session = died(tmp_path, engine)

    _, outcome = gate_it(fake_gate(tmp_path, training_minutes=2.0))

    assert (0, RetentionState.GONE) == (outcome.code, engine.kept[session.renewal.lease.job(CHECK)].state)
    assert session.gate_id != outcome.gate_id and engine.idle


def test_a_dead_gates_pool_that_cannot_be_released_is_paged(tmp_path: Path, engine: Engine) -> None:
    """Nothing is started beside it; the lease keeps its name for the next try."""
    session = died(tmp_path, engine)
    engine.holds_release = True

    with pytest.raises(LaunchError, match="Release it by hand"):
        open_session(request_of(fake_gate(tmp_path, training_minutes=2.0)), "run-2")

    told = tmp_path / "store" / "pages" / f"{session.gate_id}-machines.txt"
    assert "Release it by hand" in told.read_text()
    assert session.gate_id in (tmp_path / "store" / "leases" / "test.json").read_text()


def test_the_same_gate_file_goes_on_with_the_pool_of_the_dead_one(tmp_path: Path, engine: Engine) -> None:
    """One check job, and the training gets its machines."""
    session = died(tmp_path, engine)

    _, outcome = gate_it(fake_gate(tmp_path))

    assert (0, list(session.renewal.lease.jobs)) == (outcome.code, list(engine.jobs))
    assert RetentionState.REUSED is engine.kept[session.renewal.lease.job(CHECK)].state


def test_a_check_that_died_with_its_gate_starts_anew(tmp_path: Path, engine: Engine) -> None:
    """It left no report: the next run gives its job a new name."""
    session = died(tmp_path, engine)
    check = session.renewal.lease.job(CHECK)
    engine.last[check] = dataclasses.replace(engine.last[check], state=JobState.FAILED, trouble=Trouble.ENDED)
    shutil.rmtree(engine.root / check)

    _, outcome = gate_it(fake_gate(tmp_path))

    names = [check, *(f"{session.gate_id}-{stage}-2" for stage in (CHECK, TRAIN))]
    assert (0, names) == (outcome.code, list(engine.jobs)), outcome.reason


def test_starts_before_a_gate_died_are_counted(tmp_path: Path, engine: Engine) -> None:
    """The engine began again meanwhile: the limit holds over both lives of the gate."""
    engine.placement, engine.keeps_s = Placement.IN_JOB, None
    engine.parts, engine.repairs = ["wrong"], True
    path = fake_gate(tmp_path, more="max_attempts = 2")
    session = open_session(request_of(path), "run-1")
    train = session.renewal.lease.job(TRAIN)
    submit_job(session, gated_job(session.context, session.gate_id, train, 0.0))
    while engine.state(train).attempt != "s2":
        pass
    buried(tmp_path)

    _, outcome = gate_it(path)

    assert (1, [train]) == (outcome.code, list(engine.jobs)), outcome.reason
    assert "no-go 2 of 2" in outcome.reason and engine.idle
