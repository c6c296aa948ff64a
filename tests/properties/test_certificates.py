"""Whatever is taken away from what a certificate stands on, or changed in it: nothing more is skipped, and no verdict is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from checks.documents.report import digest
from checks.facts.instances import Facts
from checks.judge.certificates.decision import IDENTITY
from checks.model import Level
from tests.certified_machines import (
    COSTLY,
    FACTS,
    INTERVAL_S,
    History,
    PastGate,
    Step,
    policy_of,
    skips,
    steady,
    verdict,
)

MANY = settings(max_examples=10)
SECONDS = st.floats(0.0, 6000.0)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A machine with a watch that may have been late, lost a round or found something, and up to four gates."""
    number, at, rounds = 0, 300.0, []
    for _ in range(draw(st.integers(1, 40))):
        number += draw(st.sampled_from([1, 1, 1, 1, 1, 1, 1, 1, 1, 2]))
        at += draw(st.sampled_from([INTERVAL_S] * 12 + [2.9 * INTERVAL_S, 4 * INTERVAL_S]))
        rounds.append((number, at, draw(st.sampled_from([True] * 15 + [False]))))
    begins = sorted(draw(st.lists(st.floats(200.0, at), max_size=4, unique=True)))
    failures, is_kept = st.sampled_from([0, 0, 0, 3]), st.sampled_from([True, True, True, False])
    gates = tuple(PastGate(f"g{n}", begin, draw(failures), draw(is_kept)) for n, begin in enumerate(begins))
    gate_id = f"now-{draw(st.integers(0, 99))}"
    valid_for = draw(st.sampled_from([0.0, 24.0, 24.0, 24.0]))
    now_s = at + draw(st.sampled_from([1.0, 30.0, 100.0, 300.0]))
    return History(now_s, gates, tuple(rounds), policy=policy_of(valid_for), gate_id=gate_id)


@st.composite
def usual(draw: st.DrawFn) -> History:
    """A machine whose checks are certified, unless the one thing went wrong that may have."""
    begins = (900.0, 1900.0, 2900.0)[: draw(st.sampled_from([1, 2, 3, 3]))]
    failing = draw(st.sampled_from([None, None, len(begins) - 1, *range(len(begins))]))
    gates = tuple(PastGate(f"g{n}", begin, 3 if n == failing else 0) for n, begin in enumerate(begins))
    whole = steady(1.0, gates, gate_id=f"now-{draw(st.integers(0, 99))}")
    wrong = draw(st.sampled_from([None, None, None, None, None, 1, 10, 30, 50, 59]))
    return whole if wrong is None else with_finding(whole, wrong)


def with_finding(whole: History, place: int) -> History:
    """One of its rounds found something."""
    number, at, _ = whole.rounds[place]
    return replace(whole, rounds=(*whole.rounds[:place], (number, at, False), *whole.rounds[place + 1 :]))


Draw = Callable[[st.SearchStrategy[Any]], Any]
Spoil = Callable[[Draw, History], History]


def without_round(draw: Draw, whole: History) -> History:
    """Often one that found something: that is the one which somebody might want to be rid of."""
    bad = [place for place, (_, _, clean) in enumerate(whole.rounds) if not clean]
    everywhere = st.integers(0, len(whole.rounds) - 1)
    place = draw(st.one_of(everywhere, st.sampled_from(bad)) if bad else everywhere)
    return replace(whole, rounds=(*whole.rounds[:place], *whole.rounds[place + 1 :]))


def round_that_found_something(draw: Draw, whole: History) -> History:
    return with_finding(whole, draw(st.integers(0, len(whole.rounds) - 1)))


def without_report(draw: Draw, whole: History) -> History:
    return with_gate(draw, whole, kept=False)


def disagreement(draw: Draw, whole: History) -> History:
    return with_gate(draw, whole, failures=9)


def with_gate(draw: Draw, whole: History, **changes: Any) -> History:
    assume(whole.gates)
    place = draw(st.integers(0, len(whole.gates) - 1))
    other = replace(whole.gates[place], **changes)
    return replace(whole, gates=(*whole.gates[:place], other, *whole.gates[place + 1 :]))


def clock_that_was_set(draw: Draw, whole: History) -> History:
    by_s = draw(st.floats(-1e6, 1e6).filter(lambda moved: abs(moved) > 0.5))
    return replace(whole, steps=(Step(draw(SECONDS), by_s),))


def other_identity(draw: Draw, whole: History) -> History:
    key = draw(st.sampled_from([*IDENTITY, "host"]))
    changed = {**dict(whole.identity), key: draw(st.sampled_from(["", "other"]))}
    return replace(whole, identity=tuple(changed.items()))


def other_policy(draw: Draw, whole: History) -> History:
    others = [policy_of(23.0), policy_of(0.0), policy_of(168.0), policy_of(fail_above=0.6)]
    return replace(whole, policy=draw(st.sampled_from(others)))


def other_facts(draw: Draw, whole: History) -> History:
    return replace(whole, facts=Facts(FACTS.instances, digest(b"other facts")))


def open_finding(draw: Draw, whole: History) -> History:
    texts = ["cannot be read", '{"schema_version": 1, "omitted": 1}']
    return replace(whole, open_findings=draw(st.sampled_from(texts)))


SPOILS: tuple[Spoil, ...] = (
    without_round, round_that_found_something, without_report, disagreement, clock_that_was_set, other_identity,
    other_policy, other_facts, open_finding,
)  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILS)
@MANY
@given(st.data())
def test_certificate_damage_skips_no_more_checks_and_betters_no_verdict(
    spoil: Spoil, data: st.DataObject
) -> None:
    """The verdict is that on the same observations, those of the gate from which nothing was taken away."""
    whole = data.draw(st.one_of(usual(), usual(), histories()))
    worse = spoil(data.draw, whole)
    left_out = skips(whole)
    before, after = verdict(whole, left_out), verdict(worse, left_out)

    assert skips(worse) <= left_out
    assert before.level.rank <= after.level.rank
    assert after.coverage.certified <= before.coverage.certified
    assert before.level is (Level.WARN if left_out else Level.PASS)


@MANY
@given(histories(), st.sets(st.sampled_from(COSTLY), min_size=1))
def test_a_check_that_was_skipped_without_a_certificate_is_missing_evidence(
    history: History, left_out: set[str]
) -> None:
    """A node that skips more than it may gets no go by it."""
    wrong = left_out - skips(history)
    found = verdict(history, frozenset(left_out))

    assert (Level.FAIL if wrong else Level.WARN) is found.level
    assert len(left_out) - len(wrong) == found.coverage.certified


def test_the_worlds_of_these_properties_do_skip() -> None:
    """Otherwise the properties would say nothing. One certified check in ten is measured all the same."""
    usually = steady(1.0, (PastGate("first", 900.0), PastGate("second", 1900.0)))
    found = [len(skips(replace(usually, gate_id=f"now-{number}"))) for number in range(200)]

    assert 0.85 * len(COSTLY) <= sum(found) / len(found) <= 0.95 * len(COSTLY)
