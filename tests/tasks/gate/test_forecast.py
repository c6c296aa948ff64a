"""What a plan says of time and money: estimates with their sources, limits, and what is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.facts.durations import Devices, builtin_durations, duration_of
from checks.facts.profile_options import OPTIONS
from checks.model import Profile
from tasks.gate.forecast import Forecast, forecast
from tasks.launchers.base import Placement
from tests.tasks.gate_file.gate_files import opened

ROOT = Path(__file__).resolve().parents[3]
GATES = sorted((ROOT / "deployments" / "gates").glob("*.toml"))
# "dcgmi diag", --run: about so many minutes for a level.
MINUTES = {2: 2, 3: 15}


def made(name: str, *overrides: str) -> Forecast:
    """Of a shipped gate."""
    return forecast(opened(ROOT / "deployments" / "gates" / f"{name}.toml", *overrides), 30)


@pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)
def test_each_stage_has_a_source_and_a_limit(path: Path) -> None:
    """What is not known says so, and its limit holds all the same."""
    found = made(path.stem)

    assert all(stage.source and stage.at_most_s for stage in found.stages)
    assert all(stage.about_s is None or stage.about_s <= (stage.at_most_s or 0) for stage in found.stages)
    assert [True] == [one.chosen for one in found.placements if one.chosen]


def test_a_pool_costs_what_its_machines_cost_while_they_are_idle() -> None:
    """Four ml.p5.48xlarge at 63.296 USD an hour: 4.22 USD per minute, 253.18 USD in the hour for which they are kept."""
    plan = made("sagemaker-p5")
    found = {one.placement: one for one in plan.placements}
    pooled, in_job = found[Placement.POOLED], found[Placement.IN_JOB]

    assert plan.price is not None
    price = plan.price.usd_per_node_hour
    assert (4.22, 253.18) == (round(4 * price / 60, 2), round(pooled.idle_at_most_node_hours * price, 2))
    assert 0.0 == in_job.idle_at_most_node_hours
    assert (126.59, 379.78) == tuple(round(one.at_most_node_hours * price, 2) for one in (in_job, pooled))
    assert (True, False) == (pooled.chosen, in_job.chosen)


def test_the_checks_of_gpus_are_estimated_from_below() -> None:
    """DCGM's level 2 and the health watch are known, the rest was never measured: three minutes are the least."""
    found = made("sagemaker-p5")
    checks = found.stages[1]

    assert ("checks, profile standard", 180.0) == (checks.name, checks.about_s)
    assert (True, 1800.0) == (checks.is_least, checks.at_most_s)
    assert "dcgmi diag level 2 takes about two minutes" in checks.source
    assert {(True, 0.2)} == {(one.is_least, one.about_node_hours) for one in found.placements}


@pytest.mark.parametrize("profile", [Profile.STANDARD, Profile.DEEP])
def test_the_estimates_follow_the_profiles(profile: Profile) -> None:
    """Where a profile asks DCGM for another level, or watches for longer, the row has to be another one."""
    row = next(row for row in builtin_durations() if (row.profile, row.devices) == (profile, Devices.NVIDIA))
    level, watch_s = OPTIONS["dcgm.diag"][profile]["level"], OPTIONS["dcgm.health"][profile]["watch_s"]

    assert row.seconds == 60 * MINUTES[int(level)] + watch_s


def test_forecast_does_not_guess_unmeasured_durations() -> None:
    """No profile has a row for Trainium: what its checks should take and cost is not known, and their limit is."""
    found = made("sagemaker-trn1")

    assert (None, 1800.0) == (found.stages[1].about_s, found.stages[1].at_most_s)
    assert {None} == {one.about_node_hours for one in found.placements}
    assert duration_of(Profile.DEEP, Devices.NONE) is None


def test_without_a_price_hours_are_said_and_no_dollars() -> None:
    """m5.large is in no table of prices."""
    found = made("sagemaker-cpu")

    assert found.price is None
    assert all(one.at_most_node_hours > 0 for one in found.placements)


def test_a_price_that_was_said_is_taken() -> None:
    """And named as the gate file's."""
    found = made("sagemaker-cpu", "cost.usd_per_node_hour=0.1")

    assert found.price is not None
    assert 0.1 == found.price.usd_per_node_hour and "declared for this job" in str(found.price.provenance)


def test_spot_machines_are_offered_no_pool() -> None:
    """SageMaker keeps none."""
    offered = [one.placement for one in made("sagemaker-p5-injob", "cluster.options.spot=true").placements]

    assert [Placement.IN_JOB, Placement.NONE] == offered
