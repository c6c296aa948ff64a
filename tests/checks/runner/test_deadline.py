"""How much of a node's time each stage may take, in which order checks run, and what is said of those that are given up."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from checks.catalog import CATALOG
from checks.check import Check, Turn
from checks.facts.profile_options import DEADLINE_S, options
from checks.model import Observation, Outcome, Profile, Scope
from checks.process.observe import errored
from checks.runner import schedule
from checks.runner.deadline import ANSWER_S, CLOSING_SHARE, CheckProgress, Deadline, deadline_of, limited
from checks.runner.rank_stage import interface_environment, rank_environment, threads_of
from tasks.gate_file.model import Checks
from tests.sample_reports import toy_check

CLOSING = [check for check in CATALOG if check.closing]


@pytest.mark.parametrize("seconds", [5.0, 12.0, 120.0, 1500.0])
def test_a_part_of_the_time_is_kept_for_what_runs_after_the_ranks(seconds: float) -> None:
    """At most a quarter, and something for the last write; all of it ends at the deadline."""
    made = deadline_of(seconds, 100.0, CLOSING)

    assert 0 < made.closing_s <= CLOSING_SHARE * seconds and 0 < made.end_s <= 2.0
    assert made.begun_at < made.stage_ends_at < made.ends_at - made.end_s < made.ends_at == 100.0 + seconds


def test_without_closing_checks_nothing_is_kept_for_them() -> None:
    """The time belongs to the others."""
    assert 0.0 == deadline_of(60.0, 0.0, ()).closing_s


def test_deadline_leaves_less_time_but_never_a_negative_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing checks may run until the last moments, the others only until theirs."""
    monkeypatch.setattr(time, "monotonic", lambda: 150.0)
    running, over = Deadline(60.0, 100.0, 10.0, 2.0), Deadline(40.0, 100.0, 10.0, 2.0)

    assert (0.0, 8.0) == (running.left_s(), running.left_s(closing=True))
    assert (0.0, 0.0) == (over.left_s(), over.left_s(closing=True))
    assert 0.0 == Deadline(10.0, 100.0).answer_in_s() < ANSWER_S


def test_limited_call_that_hangs_raises_and_is_left_behind() -> None:
    """The caller goes on at once, and what is raised in time is raised."""
    release = threading.Event()
    with pytest.raises(TimeoutError):
        limited(0.1, release.wait)
    release.set()

    assert 7 == limited(60, lambda: 7)
    with pytest.raises(ZeroDivisionError):
        limited(60, lambda: 1 // 0)


def test_schedule_gives_up_running_and_waiting_checks_at_the_deadline() -> None:
    """One check hangs for ever, one waits behind it: both are observed, with how far they came, and nobody waits."""
    release, kept = threading.Event(), list[Observation]()

    def run(check: Check) -> Observation:
        if check.name == "a.hangs":
            release.wait()
        return Observation(check.name, "node-0", Outcome.MEASURED, 0.0, {"value": 1})

    def give_up(check: Check, given: CheckProgress) -> Observation:
        return errored(check.name, "node-0", Deadline(120.0).reason(given), 0.0)

    checks = [replace(toy_check(name), uses=()) for name in ("a.hangs", "b.waits")]
    until = time.monotonic() + 0.2
    schedule.run_all(checks, run, kept.extend, most=1, until=until, give_up=give_up)
    release.set()

    assert {
        "a.hangs": "the run's deadline of 120 s passed: the check was still running",
        "b.waits": "the run's deadline of 120 s passed: the check had not started",
    } == {row.check: row.reason for row in kept}


def test_the_order_keeps_what_must_be_first_or_last() -> None:
    """Every check once; pairs before every collective, what stands on the collectives after them, a site's own in front."""
    own = replace(toy_check("site.own"), scope=Scope.RANK, group=True)
    group = [own, *(check for check in CATALOG if check.group)]
    found = [check.name for check in schedule.by_cost(group)]

    assert sorted(check.name for check in group) == sorted(found)
    assert {"nccl.transport", "training.ddp", "compute.overlap"} == set(found[-3:])
    pairs = max(found.index(name) for name in ("collective.pairs", "nccl.pairs"))
    others = [check.name for check in CATALOG if check.group and check.turn is Turn.FREE]
    assert all(found.index(name) > pairs for name in others)
    assert found.index("site.own") < min(map(found.index, others))


def test_cheap_checks_come_first() -> None:
    """A minute of DCGM's diagnosis waits for the host pairs, and instant checks for nobody."""
    nodes = [check for check in CATALOG if check.scope is Scope.NODE and not check.closing]
    found = [check.name for check in schedule.by_cost(nodes)]

    assert found.index("system.resources") < found.index("network.pairs") < found.index("dcgm.diag")


def test_the_profiles_deadlines_hold_their_long_checks() -> None:
    """Quick is the promise; the others are the sum of what cannot run side by side, and quick's for the rest."""
    timeouts = {check.name: check.timeout_s for check in CATALOG}

    def own(name: str, profile: Profile) -> float:
        return options(name, profile, {}).get("deadline_s", timeouts[name])

    standard = ("dcgm.diag", "nccl.tests", "dcgm.health")
    deep = (*standard, "disk.io", "compute.sdc")
    assert 120.0 == DEADLINE_S[Profile.QUICK]
    assert 120.0 + sum(own(name, Profile.STANDARD) for name in standard) == DEADLINE_S[Profile.STANDARD]
    assert 120.0 + sum(own(name, Profile.DEEP) for name in deep) == DEADLINE_S[Profile.DEEP]


def test_the_gate_file_s_deadline_fits_into_the_job() -> None:
    """The profile's own unless the file says one; never longer than the job may run."""
    assert 120.0 == Checks().whole_deadline_s
    assert 60.0 == Checks(deadline_s=60.0).whole_deadline_s
    assert 870.0 == Checks(profile=Profile.STANDARD).whole_deadline_s  # of 15 minutes
    with pytest.raises(ValueError, match="at most 45 s do"):
        Checks(deadline_s=50.0, max_runtime_minutes=1.0)


def test_a_silent_resolver_costs_the_gate_s_own_ranks_a_second() -> None:
    """And what a training is started with is the user's."""
    assert "timeout:1 attempts:1" == rank_environment("eth0", {})["RES_OPTIONS"]
    assert ({"OMP_NUM_THREADS": "1"}, {}) == (threads_of(2), threads_of(1)), (
        "torchrun does not set it for one rank"
    )
    assert rank_environment("eth0", {}).keys() - {"RES_OPTIONS"} == interface_environment("eth0").keys()


@pytest.mark.parametrize(
    ("value", "of_ranks"), [("DETAIL", "INFO"), ("detail", "INFO"), ("INFO", None), (None, None)]
)
def test_pytorch_compares_no_collectives_of_the_gate_s_own_ranks(
    value: str | None, of_ranks: str | None
) -> None:
    """It would take pair tests for a mismatch, and a healthy machine could not be judged. The training keeps the user's value."""
    environ = {} if value is None else {"TORCH_DISTRIBUTED_DEBUG": value}

    assert of_ranks == rank_environment("eth0", environ).get("TORCH_DISTRIBUTED_DEBUG")
