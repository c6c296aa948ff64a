"""What is slow is measured again, by all ranks or by none, and what the first measurement showed is kept."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from checks.check import Check, CheckError, Context, Measurement, check
from checks.model import Observation, Outcome, Scope, Value
from checks.policy import CheckPolicy, Over, Rule
from checks.probes.pairs.rendezvous import NoteStore
from checks.roster import Member, Roster
from checks.runner import repeated_measurement
from tests.checks.worlds import context
from tests.fakes.torch_store import FakeStore

SPEED = Rule("copy_gbps", "a test", fail_below=0.5, needs_cpu=True)
WRONG = Rule("wrong_words", "a test", equals=0)
LINE = CheckPolicy(rules=(SPEED, WRONG))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for here."""
    monkeypatch.setattr(repeated_measurement, "PAUSE_S", 0.0)


def _context(timeout_s: float = 60.0) -> Context:
    roster = Roster((Member("node-0", "127.0.0.1", 1),), 2, "lo")
    return replace(context(), roster=roster, timeout_s=timeout_s)


def _check(results: Sequence[Mapping[str, Value] | Exception]) -> tuple[Check, list[int]]:
    """A check that gives these, one after another, and how often it ran."""
    ran: list[int] = []

    @check("memory", Scope.RANK, timeout_s=60, metrics=("copy_gbps", "wrong_words"))
    def measured(context: Context) -> Measurement:
        """Gives what it was told."""
        result = results[len(ran)]
        ran.append(1)
        end = time.monotonic() + 0.05  # the kernel counts CPU time in ticks of 10 ms
        while time.monotonic() < end:
            pass
        if isinstance(result, Exception):
            raise result
        return Measurement(result, f"run {len(ran)}")

    return measured, ran


def _observed(
    *results: Mapping[str, Value] | Exception, line: CheckPolicy = LINE, timeout_s: float = 60.0
) -> tuple[Observation, int]:
    made, ran = _check(results)
    row = repeated_measurement.observed(made, _context(timeout_s), "node-0/rank-0", line)
    return row, len(ran)


def _run(gbps: float, wrong: int = 0) -> dict[str, Value]:
    return {"copy_gbps": gbps, "wrong_words": wrong}


def test_fast_measurement_is_kept_with_the_record_of_the_host() -> None:
    """The record of the host stands beside the value."""
    row, ran = _observed(_run(9.0))

    assert (1, 9.0) == (ran, row.metrics["copy_gbps"])
    assert isinstance(row.metrics["host_taken"], float) and isinstance(row.metrics["host_load"], float)


def test_slow_measurement_is_repeated_and_both_values_are_kept() -> None:
    """With both records and both accounts."""
    row, ran = _observed(_run(0.44), _run(9.0))

    assert (2, 9.0, 0.44) == (ran, row.metrics["copy_gbps"], row.metrics["first_copy_gbps"])
    assert {"host_taken", "first_host_taken"} <= row.metrics.keys()
    assert "run 2\nfirst measurement:\nrun 1" in row.evidence


def test_a_wrong_word_of_the_first_measurement_is_not_measured_away() -> None:
    """What is not about speed stays as bad as it was at its worst."""
    assert 3 == _observed(_run(0.44, wrong=3), _run(9.0))[0].metrics["wrong_words"]
    assert 3 == _observed(_run(0.44), _run(9.0, wrong=3))[0].metrics["wrong_words"]


def test_a_second_measurement_that_fails_is_said() -> None:
    """It is no measurement."""
    row, _ = _observed(_run(0.44), CheckError("no memory"))

    assert (Outcome.ERRORED, "no memory") == (row.outcome, row.reason.partition(" (")[0])


def test_slow_measurement_is_not_repeated_without_time() -> None:
    """The first one counts then."""
    row, ran = _observed(_run(0.44), _run(9.0), timeout_s=0.001)

    assert (1, 0.44) == (ran, row.metrics["copy_gbps"])


def test_without_a_rule_about_speed_nothing_is_measured_again() -> None:
    """Nor recorded: the report stays small."""
    row, ran = _observed(_run(0.44), line=CheckPolicy(rules=(WRONG,)))

    assert (1, {"copy_gbps", "wrong_words"}) == (ran, set(row.metrics))


def test_first_value_stays_where_a_rule_compares_it_with_peers() -> None:
    """Whether it was slow is seen beside those of the other ranks."""
    rule = Rule("overlap_gflops", "a test", over=Over.PEERS, fail_below=0.9)
    metrics = repeated_measurement.both({"overlap_gflops": 2.0}, {"overlap_gflops": 4.0}, (rule,), ())

    assert {"overlap_gflops": 4.0, "first_overlap_gflops": 2.0} == metrics


def test_labels_travel_with_the_first_values() -> None:
    """Rates by message size, of which the second measurement may have others."""
    rule = Rule("busbw_gbps", "a test", Over.SUBJECT, each="programs", fail_below=1.0, needs_cpu=True)
    first: dict[str, Value] = {"busbw_gbps": (0.1, 0.2), "programs": ("a", "b")}
    made = repeated_measurement.both(first, {"busbw_gbps": (2.0,), "programs": ("a",)}, (rule,), ())

    assert ((2.0,), (0.1, 0.2)) == (made["busbw_gbps"], made["first_busbw_gbps"])
    assert ("a", "b") == made["first_programs"]


@pytest.mark.parametrize(
    ("votes", "ranks", "said"),
    [
        pytest.param([(False, True)] * 4, 4, False, id="nobody is slow"),
        pytest.param([(True, True), *[(False, True)] * 3], 4, True, id="one is slow"),
        pytest.param([(True, True), (True, False)], 2, False, id="one has no time, or broke off"),
        pytest.param([(True, True)] * 3, 4, False, id="one never votes"),
    ],
)
def test_ranks_decide_together_whether_to_measure_again(
    votes: Sequence[tuple[bool, bool]], ranks: int, said: bool
) -> None:
    """Else some would wait in a collective for those that do not measure again."""
    store = FakeStore()

    def vote(mine: tuple[bool, bool]) -> bool:
        return repeated_measurement.together(NoteStore(store, "again/"), ranks, wait_s=0.5)(*mine)

    with ThreadPoolExecutor(len(votes)) as pool:
        assert [said] * len(votes) == list(pool.map(vote, votes))
