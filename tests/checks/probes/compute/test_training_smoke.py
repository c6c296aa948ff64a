"""training.*: what does not learn, does not average or does not agree is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from checks.probes.compute import training_smoke
from tests.checks.local_policy import findings, verdicts

Worlds = Mapping[str, list[Mapping[str, Any]]]


def test_a_collective_that_does_nothing_fails(world: Worlds) -> None:
    """With all-reduce replaced by identity each rank trains alone: wrong gradients, other weights."""
    found = verdicts("training.ddp", *world["ddp/identity"])

    assert found.count(("FAIL", "HARDWARE", "gradient_error")) == 2
    assert ("FAIL", "HARDWARE", "weights_digest") in found


def test_ddp_check_names_the_rank_with_a_wrong_gradient(world: Worlds) -> None:
    """One element of one rank's average is off: that rank's gradient is wrong, the other's is not."""
    found = findings("training.ddp", *world["ddp/one_element"])

    assert [f.subject for f in found if f.metric == "gradient_error"] == ["node-0/rank-1"]


def test_nan_in_one_rank_is_no_measurement(world: Worlds) -> None:
    """Weights that became NaN are said on both ranks: the average carries them."""
    assert [row["fault"][:3] for row in world["ddp/drift_to_NaN"]] == ["nan", "nan"]


def test_ranks_see_different_examples() -> None:
    """Or equal weights would prove no collective."""
    seeds = {training_smoke._seed(step, rank, 4) for step in range(3) for rank in range(4)}

    assert len(seeds) == 12
    assert not bool((training_smoke.examples(1, "cpu")[0] == training_smoke.examples(2, "cpu")[0]).any())


@pytest.mark.parametrize(
    ("check", "metric", "good", "bad", "cause"),
    [
        ("training.smoke", "loss_ratio", 0.49, 0.51, "CONFIGURATION"),
        ("training.ddp", "loss_ratio", 0.49, 0.51, "CONFIGURATION"),
        ("training.ddp", "gradient_error", 0.9e-4, 1.1e-4, "HARDWARE"),
        ("training.ddp", "gradient_error_last", 0.9e-4, 1.1e-4, "HARDWARE"),
    ],
)
def test_the_lines_of_the_local_policy(check: str, metric: str, good: float, bad: float, cause: str) -> None:
    """A value on either side of each threshold."""
    rest: dict[str, Any] = {"loss_ratio": 0.1, "weights_digest": "a"}
    rest |= {"gradient_error": 0.0, "gradient_error_last": 0.0}

    assert verdicts(check, {**rest, metric: good}) == []
    assert verdicts(check, {**rest, metric: bad}) == [("FAIL", cause, metric)]
