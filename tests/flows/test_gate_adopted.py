"""A gate whose process died: what it left is taken up, never begun twice, and never ended on a guess."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from pathlib import Path

import pytest

from tasks.collect import merge_reports
from tasks.gate.jobs import JobEnd, check_job, gated_job, train_job
from tasks.gate.lease.lease import CHECK, TRAIN
from tasks.gate.session import Session
from tasks.gate.submission import submit_job
from tasks.judge import proven_pass, report_verdict
from tasks.launchers.base import EngineUnavailable, Hold, JobState, Keeping, LaunchError, Placement, Trouble
from tests.flows.driving import gate_it, open_session, request_of
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("without_prefect", "play")
NOBODY = 1 << 22  # above every pid of Linux


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
        submit_job(session, train_job(session.context, session.gate_id, train, proven_pass(made), check))
        engine.state(train)
    buried(folder)
    return session


def buried(folder: Path) -> None:
    """The owner of the lease is a process that is no more."""
    path = folder / "store" / "leases" / "test.json"
    lease = json.loads(path.read_bytes())
    lease["owner"]["pid"] = NOBODY
    path.write_text(json.dumps(lease))


def test_a_training_that_the_engine_does_not_speak_of_is_not_begun_twice(
    tmp_path: Path, engine: Engine
) -> None:
    """Its check job failed after it had reported, the pool's time is up meanwhile, and the look at the training was throttled: it
    runs on, on other machines, which checked again in place.
    """
    session = died(tmp_path, engine, training=True)
    check, train = session.renewal.lease.jobs
    engine.kept[check] = Hold(Keeping.GONE, "Terminated")
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


def test_another_gate_ends_nothing_while_the_engine_is_silent(tmp_path: Path, engine: Engine) -> None:
    """Whether the dead gate's training runs is not known: nothing is started, nothing is ended."""
    session = died(tmp_path, engine, training=True)
    engine.silent.append(session.renewal.lease.job(TRAIN))

    with pytest.raises(EngineUnavailable, match="is not known"):
        open_session(request_of(fake_gate(tmp_path, training_minutes=2.0)), "run-2")

    assert 0 == engine.count("cancel")


def test_another_gate_releases_the_pool_of_a_dead_one(tmp_path: Path, engine: Engine) -> None:
    """Its own checks begin with machines of their own."""
    session = died(tmp_path, engine)

    _, outcome = gate_it(fake_gate(tmp_path, training_minutes=2.0))

    assert (0, Keeping.GONE) == (outcome.code, engine.kept[session.renewal.lease.job(CHECK)].keeping)
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
    assert Keeping.TAKEN is engine.kept[session.renewal.lease.job(CHECK)].keeping


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
