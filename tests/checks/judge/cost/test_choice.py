"""A certified check is run where probability times loss exceeds its cost, and nothing else is decided by that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.documents.certificates import Certificate
from checks.facts.failures import builtin_failures
from checks.judge.certificates.findings import choice_text
from checks.judge.cost.choice import chosen
from checks.judge.cost.cost import Job
from checks.policy import CERTIFIABLE

NOW, HOUR_S = 1_795_000_000.0, 3600.0


def certificate(checks: dict[str, float], hours: float = 3.0, machine: int = 0) -> Certificate:
    """What a gate measured so many hours ago; `checks` say how many seconds each took."""
    return Certificate(f"{machine:064x}", "g1", "a" * 64, "b" * 64, NOW - hours * HOUR_S, 0.0, checks)


def job(hours: float | None = 24.0) -> Job:
    return Job("p5.48xlarge", 4, 8, hours, checkpoint_hours=1.0)


def test_the_sum_is_probability_times_loss_against_what_the_check_costs() -> None:
    """14.1 failures per 1,000 node-days (AWS, OPT-175B) is the greatest published rate."""
    rate = max(rate.per_1000_node_days for rate in builtin_failures().rates.values())
    offered = [certificate({"dcgm.diag": 900.0}, 24.0, machine) for machine in range(4)]
    left, [choice] = chosen(offered, NOW, job(), builtin_failures())

    assert (4, "GPU-hours", 8.0) == (choice.machines, choice.unit, choice.cost)
    assert 0.0 < choice.probability <= 4 * rate / 1000
    assert not choice.is_worth
    assert offered == [*left]
    assert choice_text(choice).startswith("A fault since then on 4 machines: ")
    assert choice_text(choice).endswith("; the check: 8 GPU-hours")


@pytest.mark.parametrize(
    ("hours", "seconds", "worth"), [(0.5, 60.0, False), (24.0, 60.0, True), (24.0, 100_000.0, False)]
)
def test_an_older_certificate_of_a_shorter_check_is_measured_again(
    hours: float, seconds: float, worth: bool
) -> None:
    offered = [certificate({"cpu.stress": seconds}, hours)]
    left, [choice] = chosen(offered, NOW, job(hours=240.0), builtin_failures())

    assert worth is choice.is_worth
    assert worth is (not left)


def test_only_the_checks_that_are_worth_it_are_taken_out() -> None:
    offered = [certificate({"cpu.stress": 1.0, "dcgm.diag": 14_400.0}, 24.0)]
    [left], choices = chosen(offered, NOW, job(hours=720.0), builtin_failures())

    assert {"dcgm.diag": 14_400.0} == left.checks
    assert {"cpu.stress": True, "dcgm.diag": False} == {one.check: one.is_worth for one in choices}


@given(
    st.lists(
        st.builds(
            certificate,
            st.dictionaries(st.sampled_from(CERTIFIABLE), st.floats(0.0, 20_000.0), min_size=1),
            st.floats(-100.0, 200.0),
            st.integers(0, 5),
        ),
        max_size=6,
    ),
    st.one_of(st.none(), st.floats(0.01, 9000.0)),
)
def test_the_choice_adds_no_check_to_what_certificates_cover(
    offered: list[Certificate], hours: float | None
) -> None:
    left, choices = chosen(offered, NOW, job(hours=hours), builtin_failures())
    before = {(one.machine, one.gate_id, one.at, check) for one in offered for check in one.checks}

    assert {(one.machine, one.gate_id, one.at, check) for one in left for check in one.checks} <= before
    assert {check for _, _, _, check in before} == {choice.check for choice in choices}
    assert all(0.0 <= choice.probability <= 1.0 and choice.lost >= 0.0 for choice in choices)
