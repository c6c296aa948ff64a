"""nccl.job against a stand-in of RAS on loopback: what one round of a watch makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from checks.check import CheckError, Measurement
from checks.probes.collectives.ras.job import ADDRESS, WHICH, job, snapshot
from tests.checks.probes.collectives.ras.test_looks import NOTHING, named
from tests.corpus.case import context
from tests.fakes.nccl_ras import answering, job_of, serving


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


def at(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setenv(ADDRESS, f"127.0.0.1:{port}")


def test_a_rank_that_stops_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    running = job_of(16)
    with serving(answering(running)) as port:
        at(monkeypatch, port)
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
    with serving(ras := answering(running)) as port:
        at(monkeypatch, port)
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
    with serving(ras) as port:
        at(monkeypatch, port)
        assert NOTHING == named(node.round().metrics)


def test_a_job_that_has_ended_is_no_finding(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    running = job_of(16)
    running.step(3)
    with serving(answering(running)) as port:
        at(monkeypatch, port)
        node.round()
    made = node.round(60)

    assert (NOTHING, 0) == (named(made.metrics), made.metrics["answered"])
    assert "nothing listens" in made.evidence


def test_an_answer_that_is_cut_once_is_asked_for_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    ras = answering(job_of(16))
    ras.cut = 1
    with serving(ras) as port:
        at(monkeypatch, port)

        assert 1 == node.round().metrics["answered"]


def test_job_check_raises_on_an_incomplete_ras_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ras = replace(answering(job_of(16)), cut=9)
    with serving(ras) as port, pytest.raises(CheckError, match="NCCL's RAS at"):
        at(monkeypatch, port)
        Node(tmp_path, 3.0).round()


def test_no_job_is_asked_if_the_operator_wants_none(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHICH, "never")
    with serving(ras := answering(job_of(16))) as port:
        at(monkeypatch, port)
        made = node.round()

    assert [] == ras.commands
    assert "no job is asked" in made.evidence
