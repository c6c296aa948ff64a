"""training.step: what does not learn, is not finite or differs from run to run is seen; the rate is counted as papers do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from unittest import mock

import pytest

from checks.check import fault_of
from checks.model import Value
from checks.probes.compute import training_step
from checks.probes.compute.device import BF16, FP32
from checks.probes.compute.training_step import Shape, TrainingRun
from tests.checks.local_policy import verdicts
from tests.fakes import compute as fakes
from tests.late import Late

torch = Late("torch")
SMALL = Shape(2, 16, 32, 2)


def measured(shape: Shape = SMALL, steps: int = 6) -> Mapping[str, Value]:
    return training_step.measure("cpu", shape, steps).metrics


def test_a_block_learns_in_both_precisions() -> None:
    """At the size in use, to the policy's content, with all that the check promises."""
    metrics = measured(training_step.SHAPES["cpu"], training_step.STEPS)

    assert fault_of(training_step.step, metrics) == ""
    assert metrics["precisions"] == ("fp32", "bf16")
    assert metrics["loss_ratio"] == pytest.approx((0.116, 0.116), abs=5e-3)
    assert verdicts("training.step", metrics) == []


def test_attention_is_that_of_torch() -> None:
    """The block's own products give what torch's attention gives."""
    shape = Shape(2, 8, 16, 2)
    inputs = training_step.make_batch(shape, "cpu")[0]
    joined, mixed, widened, narrowed = training_step.make_weights(shape, "cpu")
    made = training_step.block(inputs, [joined, mixed, widened, narrowed * 0], shape)

    normal = torch.nn.functional.layer_norm(inputs, (16,))
    query, key, value = (normal @ joined).view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
    seen = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    expected = inputs + seen.transpose(1, 2).reshape(2, 8, 16) @ mixed

    torch.testing.assert_close(made, expected)


@pytest.mark.parametrize("rank", [1, 64])
def test_a_step_is_as_large_whatever_the_rank_of_its_gradient(rank: int) -> None:
    """In the spectral norm, in which a fixed part of the Frobenius norm would be eight times as large for a gradient of rank 1."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn((64, 96), generator=generator) / 8
    left, right = torch.randn((64, rank), generator=generator), torch.randn((rank, 96), generator=generator)
    moved, before = weight.clone(), weight
    descent = training_step.Descent([weight])
    for _ in range(4):
        before = moved.clone()
        descent.step([moved], [left @ right])
    part = torch.linalg.matrix_norm(moved - before, 2) / torch.linalg.matrix_norm(weight, 2)

    assert float(part) == pytest.approx(training_step.LEARNING_RATE, rel=0.1)


def test_the_gradient_is_counted_rightly_against_torch() -> None:
    """torch's own counter of operations agrees, but for what the backward pass of the inputs would be."""
    counter = pytest.importorskip("torch.utils.flop_counter")
    weights = [weight.requires_grad_() for weight in training_step.make_weights(SMALL, "cpu")]
    batch = training_step.make_batch(SMALL, "cpu")
    with counter.FlopCounterMode(display=False) as mode:
        training_step.one_step(weights, batch, SMALL, "cpu", FP32, training_step.Descent(weights))
    first = 2 * SMALL.batch * SMALL.tokens * SMALL.width * 3 * SMALL.width  # the inputs need no gradient

    assert mode.get_total_flops() + first == SMALL.step_flops


def test_a_loss_that_is_not_finite_has_no_ratio() -> None:
    """It is counted, in both runs, and the ratio is null: nobody compares NaN."""
    with fakes.products(fakes.not_a_number):
        metrics = measured()

    assert metrics["nonfinite_losses"] == (12, 12)
    assert metrics["loss_ratio"] == (None, None)
    assert metrics["unequal_losses"] == (6, 6)
    assert fault_of(training_step.step, metrics) == ""


def test_training_step_counts_a_loss_that_differs_in_one_bit() -> None:
    """Bits count, not digits."""
    one = TrainingRun((2.0, 1.0, 0.5), 1.0, 2)

    assert training_step._unequal(one, one) == 0
    assert training_step._unequal(one, TrainingRun((2.0, math.nextafter(1.0, 2.0), 0.5), 1.0, 2)) == 1


@pytest.mark.parametrize("losses", [(0.0, 1.0), (math.inf, 1.0), (1.0, math.nan)])
def test_a_ratio_of_nonsense_is_null(losses: tuple[float, ...]) -> None:
    """Division by 0 or by infinity would look like learning."""
    assert training_step._ratio(losses) is None


def test_the_use_of_the_peak_is_given_where_the_model_is_known() -> None:
    """And left out where it is not."""
    with mock.patch.object(training_step, "peak_of", lambda name: SimpleNamespace(half_tflops=0.001)):
        used = measured()["mfu"]

    assert isinstance(used, tuple)
    assert len(used) == 2
    assert "mfu" not in measured()


def test_bfloat16_is_really_used() -> None:
    """Its first loss differs from float32's a little: autocast is on."""
    start, batch = training_step.make_weights(SMALL, "cpu"), training_step.make_batch(SMALL, "cpu")
    full, half = (training_step.train(start, batch, SMALL, 3, one).losses[0] for one in (FP32, BF16))

    assert full != half
    assert full == pytest.approx(half, rel=0.01)
