"""Which ranks are named after two looks, with looks at any times."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.check import CheckError, Measurement
from checks.model import Value
from checks.probes.collectives.ras.client import Reach
from checks.probes.collectives.ras.job import (
    ADDRESS,
    WHICH,
    followed,
    job,
    measured,
    nobody,
    snapshot,
    unconfirmed,
)
from checks.probes.collectives.ras.report import RasReport, ReportError, read
from tests.corpus.case import context
from tests.fakes.nccl_ras import FakeJob, FakeRas, answering, job_of, serving


class Watching:
    """Looks at a job, each as JSON as a watch keeps it."""

    def __init__(self, job: FakeJob) -> None:
        self.job, self.last = job, None  # type: FakeJob, Mapping[str, object] | None

    def look(self, at: float, found: RasReport | None = None) -> Mapping[str, Value]:
        made = followed(self.last, found or read(self.job.as_json()), at)
        self.last = json.loads(json.dumps(made))
        return measured(self.last).metrics


@pytest.fixture
def watching() -> Watching:
    """Of a job of eight ranks."""
    return Watching(job_of(8))


NOTHING = {"silent": ("",), "behind": ("",), "failed": ("",)}


def named(metrics: Mapping[str, Value]) -> dict[str, Value]:
    return {name: metrics[name] for name in NOTHING}


def test_a_busy_job_has_no_finding() -> None:
    """Counts differ in every look, and move."""
    watching = Watching(job_of(16))
    for at in range(0, 150, 15):
        watching.job.step(times=9)
        watching.job.step(at % 16)

        assert NOTHING == named(watching.look(at))


def test_an_idle_job_has_no_finding() -> None:
    watching = Watching(job_of(16))
    last = [watching.look(at) for at in (0, 15, 30)][-1]

    assert (NOTHING, 30) == (named(last), last["unchanged_s"])


def test_ok_is_no_proof_of_health() -> None:
    """NCCL issue 1730: RAS says OK while the job hangs. The look says that nothing moves, and judges nothing."""
    watching = Watching(job_of(16))
    watching.look(0)
    made = measured(followed(watching.last, read(watching.job.as_json()), 60))

    assert "no rank has launched anything for 60 s: the job is idle, or it hangs" in made.evidence


def test_short_intervals_find_it_as_well(watching: Watching) -> None:
    """The time counts since the first look, and not since the last one."""
    watching.job.step(3)

    found = [watching.look(at)["behind"] for at in range(12)]

    assert ("",) == found[7]
    assert ("is behind the other ranks by 1 all-reduce and has not moved for 8 s",) == found[8]


def test_a_rank_that_moves_in_another_communicator_stands_not_still(watching: Watching) -> None:
    watching.job.step(3)
    watching.look(0)
    watching.job.ranks[3].counts["AllGather"] += 1
    watching.job.step(3, operation="AllGather")

    assert NOTHING == named(watching.look(15))


def test_a_rank_that_goes_on_is_forgotten(watching: Watching) -> None:
    """It wrote a checkpoint while the others waited."""
    watching.job.step(0)
    watching.look(0)
    assert ("rank 0 on 10.0.0.1 (GPU 0)",) == watching.look(15)["behind_ranks"]
    watching.job.ranks[0].counts["AllReduce"] += 1

    assert NOTHING == named(watching.look(30))


def test_a_rank_that_is_ahead_of_all_is_named_if_nobody_moves(watching: Watching) -> None:
    watching.job.step(*range(1, 8), operation="Broadcast")
    watching.look(0)
    found = watching.look(20)

    assert ("rank 0 on 10.0.0.1 (GPU 0)",) == found["behind_ranks"]
    ahead = "is ahead of the other ranks by 1 broadcast, and none of them has moved for 20 s"
    assert (ahead,) == found["behind"]
    watching.job.step(0, operation="AllGather")  # the others are at work
    assert NOTHING == named(watching.look(40))


def test_a_silent_rank_is_named_once_it_stays_silent(watching: Watching) -> None:
    watching.job.ranks[3].unresponsive = True
    assert NOTHING == named(watching.look(0))
    assert watching.last is not None
    assert unconfirmed(watching.last)

    assert ("does not answer",) == watching.look(3)["silent"]


def test_a_dead_rank_is_named_at_once(watching: Watching) -> None:
    """RAS has tried to reach it for 60 s."""
    watching.job.ranks[3].dead = True

    assert ("does not answer and is considered dead",) == watching.look(0)["silent"]


@pytest.mark.parametrize("state", ["starting", "ending", "left"])
def test_a_communicator_that_is_made_or_taken_down_is_no_hang(state: str, watching: Watching) -> None:
    watching.job.step(3)
    for one in watching.job.ranks[4:]:
        setattr(one, state, True)
    watching.look(0)

    assert NOTHING == named(watching.look(60))


def test_another_job_is_not_compared_with_the_last_one(watching: Watching) -> None:
    watching.job.step(3)
    watching.look(0)
    watching.last = {**(watching.last or {}), **nobody(Reach.NOBODY, 15)}

    assert NOTHING == named(watching.look(30))


@pytest.mark.parametrize("before", [{}, {"lags": 3, "silent": []}, {"lags": {"a": 1}}, {"launched": "x"}])
def test_a_look_that_is_none_is_not_compared_with(before: Mapping[str, object]) -> None:
    job = job_of(8)
    job.step(3)

    assert NOTHING == named(measured(followed(before, read(job.as_json()), 60)).metrics)


@pytest.mark.parametrize("reach", [reach for reach in Reach if reach is not Reach.JOB])
def test_without_a_job_nothing_is_named_and_the_reason_is_said(reach: Reach) -> None:
    made = measured(nobody(reach, 5))

    assert (NOTHING, 0, 0) == (named(made.metrics), made.metrics["answered"], made.metrics["ranks"])
    assert made.evidence


def test_many_ranks_are_counted() -> None:
    watching = Watching(job_of(100))
    for one in watching.job.ranks[:90]:
        one.dead = True
    found = watching.look(0)
    assert isinstance(found["silent"], tuple)
    assert isinstance(found["silent_ranks"], tuple)

    assert (65, 65, "are like these: 26 more") == (
        len(found["silent"]), len(found["silent_ranks"]), found["silent"][-1],
    )  # fmt: skip


def report_of(job: FakeJob) -> RasReport:
    return read(job.as_json())


def test_a_communicator_that_is_not_initialised_is_not_judged() -> None:
    """NCCL issue 2346: its entry is empty."""
    job = job_of(8)
    job.uninitialised = True

    assert (2, 1) == ((found := report_of(job)).communicators, found.passing)


def test_a_rank_has_its_number_in_its_largest_communicator() -> None:
    job = job_of(8, (6, 7))
    job.ranks[7].unresponsive = True

    assert {"rank 7 on 10.0.0.1 (GPU 7)": False} == report_of(job).silent


def test_an_error_of_a_rank_is_named() -> None:
    job = job_of(8)
    job.ranks[2].error = 6

    assert {"rank 2 on 10.0.0.1 (GPU 2)": "remote process error"} == report_of(job).failed


def _without(name: str) -> Callable[[dict[str, Any]], object]:
    """Takes a key of a rank away."""
    return lambda answer: answer["communicators"][0]["ranks"][1].pop(name)


@pytest.mark.parametrize("tenth", range(10))
def test_a_cut_answer_is_no_answer(tenth: int) -> None:
    job = job_of(8)
    job.step(3)
    job.ranks[5].unresponsive = True
    text = job.as_json()

    with pytest.raises(ReportError):
        read(text[: len(text) * tenth // 10])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda answer: answer.update(communicators_count=2), None),
        (lambda answer: answer.update(communicators=None), None),
        (lambda answer: answer.update(nccl_version=3), None),
        (lambda answer: answer.update(ras=None), None),
        (lambda answer: answer.update(communicators=[{}]), None),
        *(
            (_without(name), None)
            for name in ("host", "pid", "nvml_dev", "status", "collective_counts", "rank")
        ),
        (lambda answer: answer["communicators"][0]["ranks"].pop(1), "as many ranks"),
    ],
)
def test_an_answer_of_another_form_is_refused(
    change: Callable[[dict[str, Any]], object], said: str | None
) -> None:
    """A key with another value, a rank that lacks one, and fewer ranks than are counted."""
    answer = json.loads(job_of(4).as_json())
    change(answer)

    with pytest.raises(ReportError, match=said):
        read(json.dumps(answer))


class Node:
    """A node with a watch. `patience_s` is less than the check's own where a test waits for its end."""

    def __init__(self, tmp_path: Path, patience_s: float = 15.0) -> None:
        self.context = replace(context(job, tmp_path), timeout_s=patience_s)
        self.last: Mapping[str, object] | None = None

    def round(self, after_s: float = 0.0) -> Measurement:
        """A round, as if the one before had been so much earlier."""
        before = _earlier(self.last, after_s) if self.last else None
        made = json.loads(json.dumps(snapshot(replace(self.context, before=before))))
        self.last = made
        result = job.body(replace(self.context, before=before or made, current=made))
        assert isinstance(result, Measurement)
        return result


def _earlier(value: object, seconds: float) -> Mapping[str, object]:
    def moved(one: object, name: str = "") -> object:
        if isinstance(one, dict):
            return {key: moved(inner, key) for key, inner in one.items()}
        return one - seconds if name in ("at", "since", "launched_since") and isinstance(one, float) else one

    made = moved(value)
    assert isinstance(made, dict)
    return made


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@contextmanager
def at(monkeypatch: pytest.MonkeyPatch, ras: FakeRas) -> Iterator[None]:
    """RAS answers where the check looks for it."""
    with serving(ras) as port:
        monkeypatch.setenv(ADDRESS, f"127.0.0.1:{port}")
        yield


def test_a_rank_that_stops_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    running = job_of(16)
    with at(monkeypatch, answering(running)):
        running.step(3, times=12)
        assert NOTHING == named(node.round().metrics)
        made = node.round(60)

    assert ("rank 3 on 10.0.0.1 (GPU 3)",) == made.metrics["behind_ranks"]
    behind = "is behind the other ranks by 12 all-reduces and has not moved for 60 s"
    assert (behind,) == made.metrics["behind"]


def test_a_silent_rank_is_named_in_one_round(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """RAS is asked a second time in it: a look at most 15 s after the hang is enough to be within 30 s."""
    running = job_of(16)
    running.ranks[9].unresponsive = True
    with at(monkeypatch, ras := answering(running)):
        made = node.round()

    assert ("rank 9 on 10.0.0.2 (GPU 1)",) == made.metrics["silent_ranks"]
    assert 2 == ras.asked


def test_a_rank_that_is_silent_for_a_moment_is_not_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    running = job_of(16)
    running.ranks[9].unresponsive = True
    ras = answering(running)
    first = ras.status

    def once(form: str) -> str:
        text = first(form)
        running.ranks[9].unresponsive = False
        return text

    ras.status = once
    with at(monkeypatch, ras):
        assert NOTHING == named(node.round().metrics)


def test_a_job_that_has_ended_is_no_finding(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    running = job_of(16)
    running.step(3)
    with at(monkeypatch, answering(running)):
        node.round()
    made = node.round(60)

    assert (NOTHING, 0) == (named(made.metrics), made.metrics["answered"])
    assert "nothing listens" in made.evidence


def test_an_answer_that_is_cut_once_is_asked_for_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    ras = answering(job_of(16))
    ras.cut = 1
    with at(monkeypatch, ras):
        assert 1 == node.round().metrics["answered"]


def test_job_check_raises_on_an_incomplete_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ras = replace(answering(job_of(16)), cut=9)
    with at(monkeypatch, ras), pytest.raises(CheckError, match="NCCL's RAS at"):
        Node(tmp_path, 3.0).round()


def test_no_job_is_asked_if_the_operator_wants_none(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHICH, "never")
    with at(monkeypatch, ras := answering(job_of(16))):
        made = node.round()

    assert [] == ras.commands
    assert "no job is asked" in made.evidence
