"""Whatever ends a gate, its jobs are ended, its machines are released, and its lock is given back; nobody else's are touched."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tasks.gate import jobs
from tasks.gate import session as sessions
from tasks.gate.jobs import cancel_jobs, running_jobs
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import LauncherAddress, LeaseLost, OpenQuestion
from tasks.gate.lease.owner import Owner, is_dead, this_process
from tasks.gate.progress import LiveProgress
from tasks.gate.session import RunOver, Session, end_held_jobs, end_run, open_session, take_lease
from tasks.launchers.base import EngineUnavailable, JobState, JobStatus, LaunchError, Placement
from tasks.store.base import StoreError
from tasks.store.layout import lease_key
from tests.tasks.gate.lease.test_lease import DEAD
from tests.tasks.sessions import CHECK_JOB, NOW, TRAIN_JOB, FakeEngine, answer, listening, session

ASKING = OpenQuestion("k", "d", NOW + 60, NOW + 120)
RUNS = JobStatus(JobState.RUNNING, "", "", {})
NEVER: RunOver = lambda run: False  # noqa: E731


def locked(one: Session) -> bool:
    """Whether the cluster's lock is there."""
    return one.context.store.get(lease_key("c")) is not None


@pytest.fixture
def notified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What people were told of machines that may still be billing."""
    said: list[str] = []
    monkeypatch.setattr(sessions, "notify_unreleased", lambda context, gate_id, lines: said.extend(lines))
    return said


def test_session_cancels_running_jobs_at_its_end(tmp_path: Path, notified: list[str]) -> None:
    """Also when it ends with an error; what was handed over or ended by itself is left alone."""
    engine = FakeEngine(Placement.NONE)
    one = session(tmp_path, engine)
    one.folder.mkdir(parents=True)
    with pytest.raises(ZeroDivisionError), one:
        for job in ("runs", "ended", "handed over"):
            one.remember(job)
        one.ended("ended")
        one.let_go("handed over")
        raise ZeroDivisionError

    assert [("cancel", "runs")] == engine.calls
    assert (1, False, False, []) == (one.rounds, locked(one), one.folder.exists(), notified)


def test_kept_machines_are_released_with_the_gate(tmp_path: Path, notified: list[str]) -> None:
    """And what the engine says of it is kept."""
    engine = FakeEngine(released="released after 3 min")
    with session(tmp_path, engine) as one:
        one.ended(CHECK_JOB)

    assert ([("release", CHECK_JOB)], ["released after 3 min"]) == (engine.calls, one.proof)


def test_machines_that_cannot_be_released_are_told_to_people(tmp_path: Path, notified: list[str]) -> None:
    """Each is tried, and the lock is given back all the same; what people know already is not told again."""
    engine = FakeEngine(broken={"first", "kept"})
    shown = LiveProgress(None)
    with listening(shown), session(tmp_path, engine) as one:
        for job in ("first", "second"):
            one.remember(job)
        one.ended("kept")
        one.release_machines()
        one.notified = len(one.unreleased)

    assert ["first", "second"] == [job for verb, job in engine.calls if verb == "cancel"]
    assert 1 == len(notified) and "job first could not be ended" in notified[0]
    assert 2 == len(one.unreleased) and not locked(one)
    assert shown.unended == one.unreleased  # the last line of an interrupted gate says so


def test_a_gate_that_lost_its_lock_touches_no_job(tmp_path: Path, notified: list[str]) -> None:
    """They are the other gate's now, and so is the lock."""
    engine = FakeEngine()
    with session(tmp_path, engine) as one:
        one.remember(TRAIN_JOB)
        data = one.context.store.get(lease_key("c"))
        assert data is not None
        one.context.store.put(lease_key("c"), data.replace(b'"g-1"', b'"g-2"'))

    assert ([], True, True) == (engine.calls, locked(one), one.renewal.lost.is_set())


def test_a_store_that_does_not_answer_keeps_no_job_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notified: list[str]
) -> None:
    """Whose the lock is is not known: machines that run for nobody are the greater harm."""
    engine = FakeEngine()
    with session(tmp_path, engine) as one:
        one.remember(TRAIN_JOB)
        for call in ("renew", "release"):
            monkeypatch.setattr(leases, call, Mock(side_effect=StoreError("no answer")))

    assert [("cancel", TRAIN_JOB)] == engine.calls


def test_a_run_that_waits_for_a_person_leaves_everything(tmp_path: Path) -> None:
    """Its jobs, its machines and its lock are there for the process in which it comes back."""
    engine = FakeEngine()
    with session(tmp_path, engine) as one:
        one.remember(TRAIN_JOB)
        one.parked = True

    assert ([], True) == (engine.calls, locked(one))


@pytest.mark.parametrize(
    ("adopted", "asking", "ended", "kept"),
    [(True, None, [CHECK_JOB, TRAIN_JOB], False), (False, None, [], False), (True, ASKING, [], True)],
)
def test_session_ends_jobs_left_by_a_dead_process(
    tmp_path: Path, adopted: bool, asking: OpenQuestion | None, ended: list[str], kept: bool
) -> None:
    """A run that comes back for an answer has no job, and the machines of its checks."""
    engine = FakeEngine()
    with session(tmp_path, engine, adopted=adopted, asking=asking) as one:
        pass

    assert ended == [job for verb, job in engine.calls if verb == "cancel"]
    assert kept is (("release", CHECK_JOB) in engine.calls)
    assert (adopted, asking) == (one.preflight_done, one.open_question)


@pytest.mark.parametrize(
    ("placement", "launches", "in_job", "checking"),
    [
        (Placement.IN_JOB, True, True, TRAIN_JOB),
        (Placement.IN_JOB, False, False, CHECK_JOB),
        (Placement.NONE, True, False, CHECK_JOB),
    ],
)
def test_which_job_checks(
    tmp_path: Path, placement: Placement, launches: bool, in_job: bool, checking: str
) -> None:
    """Checks and training are one job only where a training follows."""
    one = session(tmp_path, FakeEngine(placement), launches=launches)

    assert (in_job, checking) == (one.in_job, one.checking)


def test_session_that_begins_again_has_new_job_names_and_no_proof(tmp_path: Path) -> None:
    """Checks: new names, no verdict, answer or proof, and time again. Of a training that begins again only its own name is new."""
    engine = FakeEngine()
    one = session(tmp_path, engine)
    one.proof.append("old")
    one.answer = answer()
    one.answer_by = time.monotonic()
    lease = one.begin_again()

    assert (("g-1-check-2", "g-1-train-2"), []) == (lease.jobs, one.proof)
    assert [None, None] == [one.judged, one.answer]
    assert [("cancel", CHECK_JOB), ("cancel", TRAIN_JOB)] == engine.calls
    assert one.left_s() > 1e9
    one.ended("g-1-check-2")
    assert ("g-1-check-2", "g-1-train-2-2") == one.train_again().jobs
    assert (("cancel", "g-1-train-2"), True) == (engine.calls[-1], one.kept_s("g-1-check-2") is not None)


@pytest.mark.parametrize("broken", [True, False])
def test_a_job_that_cannot_be_ended_now_is_ended_with_the_gate(
    tmp_path: Path, notified: list[str], broken: bool
) -> None:
    """One that was ended is not ended twice."""
    engine = FakeEngine(broken={TRAIN_JOB} if broken else set())
    with session(tmp_path, engine) as one:
        one.remember(TRAIN_JOB)
        one.end_soon(TRAIN_JOB)
        one.ends()

    assert [("cancel", TRAIN_JOB)] * (2 if broken else 1) == engine.calls


def test_the_time_that_is_left_is_never_nothing(tmp_path: Path) -> None:
    """Something may always be tried for a moment."""
    one = session(tmp_path)
    one.answer_by = time.monotonic() - 10

    assert (0.5, 2.0) == (one.left_s(), one.left_s(2.0))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (RUNS, (TRAIN_JOB,)),
        (replace(RUNS, state=JobState.PENDING), (TRAIN_JOB,)),
        (replace(RUNS, state=JobState.SUCCEEDED), ()),
        (replace(RUNS, state=JobState.UNKNOWN, absent=True), ()),
        (replace(RUNS, state=JobState.UNKNOWN), None),
    ],
)
def test_which_jobs_of_a_dead_gate_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: JobStatus, expected: tuple[str, ...] | None
) -> None:
    """An engine that does not answer is no proof that nothing runs."""
    monkeypatch.setattr(jobs, "launcher_of", lambda engine: FakeEngine(states={TRAIN_JOB: status}))
    lease = session(tmp_path).renewal.lease

    if expected is None:
        with pytest.raises(EngineUnavailable, match="Nothing was started"):
            running_jobs(lease)
    else:
        assert expected == running_jobs(lease)


def test_every_job_of_a_lock_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names all that could not be ended."""
    engine = FakeEngine(broken={CHECK_JOB})
    monkeypatch.setattr(jobs, "launcher_of", lambda address: engine)

    with pytest.raises(LaunchError, match=CHECK_JOB):
        cancel_jobs(session(tmp_path).renewal.lease)
    assert [("cancel", CHECK_JOB), ("cancel", TRAIN_JOB)] == engine.calls


@pytest.mark.parametrize("broken", [True, False])
def test_a_run_that_died_is_ended_by_the_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notified: list[str], broken: bool
) -> None:
    """No gate can adopt a job that the hook ends, because the lock is the hook's meanwhile. Where a job may still run, the lock stays
    that of the dead process, and people are told.
    """
    one, owners, dead = session(tmp_path), list[Owner](), replace(DEAD, flow_run_id="run")
    store, engine = one.context.store, FakeEngine(broken={TRAIN_JOB} if broken else set())
    leases.changed(store, bound(one), owner=dead)

    def launcher_of(address: LauncherAddress) -> FakeEngine:
        owners.extend(lease.owner for lease in (leases.lease_of_cluster(store, "c"),) if lease is not None)
        return engine

    monkeypatch.setattr(jobs, "launcher_of", launcher_of)
    monkeypatch.setattr(sessions, "open_gate_context", lambda request: one.context)
    end_run(SimpleNamespace(), "another-run")  # type: ignore[arg-type]
    untouched = not engine.calls
    end_run(SimpleNamespace(), "run")  # type: ignore[arg-type]
    left = leases.lease_of_cluster(store, "c")

    assert (True, [this_process("run")], broken) == (untouched, owners, bool(notified))
    assert (dead if broken else None) == (left and left.owner)


def test_jobs_of_a_dead_run_are_left_to_the_gate_that_adopted_them(tmp_path: Path) -> None:
    """It took the lock after the hook had read it."""
    one = session(tmp_path)
    before = bound(one)
    leases.bind_run(one.context.store, before, "heir")

    assert not end_held_jobs(one.context.store, before) and locked(one)


def bound(one: Session) -> leases.HeldLease:
    """Its lock, which is that of the flow run "run" from now on."""
    return leases.bind_run(one.context.store, one.renewal._held, "run")


def opened(one: Session, monkeypatch: pytest.MonkeyPatch, run: str = "run", resumed: bool = False) -> Any:
    """What the flow gets that opens a session on the store of this one; and the gates whose question ended."""
    expired: list[str] = []
    context: Any = one.context
    context.digest, context.engine = "d", LauncherAddress("local", {}, "/nonexistent")
    context.gate.name = "local"
    context.store.probe = lambda: None
    request = SimpleNamespace(gate_file="g.toml", advanced=None, launch=True)
    monkeypatch.setattr(sessions, "open_gate_context", lambda request: context)
    monkeypatch.setattr(jobs, "launcher_of", lambda address: context.launcher)
    for name in ("require_names", "require_strict_policy", "keep_request"):
        monkeypatch.setattr(sessions, name, lambda *ignored: None)

    return lambda: open_session(request, run, resumed, on_expired=noted(expired), run_over=NEVER), expired  # type: ignore[arg-type]


def noted(expired: list[str]) -> Any:
    """What is called for a lock whose question is over: the gates come into this list."""
    return lambda context, lease, reason="": expired.append(lease.gate_id)


def parked(folder: Path, digest: str = "d") -> Session:
    """A session whose run "run" waits for an answer."""
    one = session(folder)
    store, question = one.context.store, OpenQuestion("k", "v", time.time() + 60, time.time() + 120)
    held = leases.changed(store, bound(one), asking=question)
    store.put(lease_key("c"), held.data.replace(b'"digest":"d"', f'"digest":"{digest}"'.encode()))
    return one


def test_a_run_comes_back_to_its_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notified: list[str]
) -> None:
    """With its own gate id, and the question that was asked. An answer to another gate file is no answer: the question is closed, the
    jobs are ended, the lock is given back, and nothing is launched.
    """
    back, expired = opened(parked(tmp_path / "same"), monkeypatch, resumed=True)
    one = back()
    assert ("g-1", "k", []) == (one.gate_id, one.open_question.key, expired)

    waits = parked(tmp_path / "other", "another")
    back, expired = opened(waits, monkeypatch, resumed=True)
    with pytest.raises(LeaseLost, match="Nothing was launched"):
        back()
    assert (["g-1"], False) == (expired, locked(waits))


def test_a_run_whose_question_is_over_begins_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may have released its lock."""
    one = session(tmp_path)
    one.renewal.release()
    back, _ = opened(one, monkeypatch, resumed=True)

    with pytest.raises(LeaseLost, match="its question is closed"):
        back()
    assert not locked(one)


def test_a_new_run_takes_the_lock_and_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its request cannot be kept the lock is given back, because no hook could end the run."""
    one = session(tmp_path)
    one.renewal.release()
    back, _ = opened(one, monkeypatch)
    new = back()
    found = leases.lease_of_run(one.context.store, "run")
    new.renewal.release()
    monkeypatch.setattr(sessions, "keep_request", Mock(side_effect=StoreError("full")))
    with pytest.raises(StoreError):
        back()

    assert found is not None and found.lease.gate_id == new.gate_id
    assert (False, False) == (locked(one), new.renewal.lease.adopted)


def test_adopted_jobs_outlive_a_lost_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock alone names them: the next gate gets it at once, on any machine."""
    one = session(tmp_path, adopted=True)
    back, _ = opened(one, monkeypatch)
    monkeypatch.setattr(sessions, "keep_request", Mock(side_effect=StoreError("full.")))
    with pytest.raises(StoreError, match=r"full\. The jobs of gate g-1 .* may run on"):
        back()
    left = leases.lease_of_cluster(one.context.store, "c")
    assert left is not None and is_dead(left.owner, left.expires_at, NOW) and TRAIN_JOB in left.jobs
    # What looks after runs that ended ends the jobs of theirs.
    assert leases.lease_of_run(one.context.store, "run") is None


@pytest.mark.parametrize("broken", [True, False])
def test_a_question_that_nobody_answered_is_closed_before_the_next_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notified: list[str], broken: bool
) -> None:
    """What it left is ended first; if that fails people are told, and the next gate does not begin."""
    waits = parked(tmp_path)
    store, expired = waits.context.store, list[str]()
    opened(waits, monkeypatch)
    held = leases.lease_of_run(store, "run")
    assert held is not None
    owner, asking = replace(DEAD, flow_run_id="run"), replace(ASKING, until=1.0)
    dead = replace(held.lease, owner=owner, asking=asking, expires_at=1.0)
    assert leases._swap(store, held.data, dead)
    waits.context.launcher.broken |= {TRAIN_JOB} if broken else set()  # type: ignore[attr-defined]
    with pytest.raises(LaunchError) if broken else nullcontext():
        taken = take_lease(waits.context, True, on_expired=noted(expired), run_over=NEVER)
        assert "g-1" != taken.lease.gate_id
    assert (["g-1"] * (not broken), broken) == (expired, bool(notified))


@pytest.mark.parametrize("launches", [True, False])
def test_a_check_says_which_training_it_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, launches: bool
) -> None:
    """Another gate's process is gone, and nobody else says that its training was requested; a gate that launches is another case."""
    dead = session(tmp_path, launches=True)
    opened(dead, monkeypatch)
    held = leases.lease_of_cluster(dead.context.store, "c")
    assert held is not None
    path = tmp_path / "store" / "leases" / "c.json"
    path.write_bytes(path.read_bytes().replace(f'"pid":{held.owner.pid}'.encode(), b'"pid":2000000000'))
    dead.context.launcher.states.clear()  # type: ignore[attr-defined]

    got = take_lease(dead.context, launches, on_expired=lambda *_: None, run_over=NEVER)

    said = [line for line in caplog.messages if "its training is not started" in line]
    assert ([] if launches else [said[0]]) == said
    assert launches or ("g-1" in said[0] and "without --check-only" in said[0] and not got.lease.launches)
