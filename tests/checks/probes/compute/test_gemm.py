"""compute.gemm: right products pass, and a product that is wrong anywhere, or always the same, does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checks.check import CheckError
from checks.facts import profile_options
from checks.probes.compute import gemm
from checks.probes.compute.device import BF16, FP16, FP32, TF32, Precision
from tests.fakes import compute as fakes
from tests.late import Late

torch = Late("torch")
Matmul = Callable[[Any, Any], Any]


def measured_with(monkeypatch: pytest.MonkeyPatch, broken: Callable[[Matmul], Matmul]) -> dict[str, Any]:
    """The metrics of small products by a replaced torch.matmul."""
    monkeypatch.setattr("torch.matmul", broken(torch.matmul))
    return dict(gemm.measure("cpu", 64, seconds=0.0).metrics)


def test_the_known_answer_is_the_product() -> None:
    """The closed form equals integer multiplication, in every element, for both seeds."""
    for seed in (0, 1):
        problem = gemm.make_problem(96, seed, "cpu")
        exact = problem.left.long() @ problem.right.long()

        assert bool((problem.product.long() == exact).all())
        assert problem.row_sums.tolist() == exact.sum(dim=1).tolist()
        assert problem.column_sums.tolist() == exact.sum(dim=0).tolist()


def test_a_size_that_would_round_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a right product could look wrong, nothing is measured."""
    monkeypatch.setattr(gemm, "EXACT", 1000)

    with pytest.raises(CheckError, match="too large"):
        gemm.measure("cpu", 64, seconds=0.0)


def test_a_remembered_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A right product of other operands is wrong: the repeats alternate between two problems."""
    first: list[Any] = []

    def broken(healthy: Matmul) -> Matmul:
        def matmul(left: Any, right: Any) -> Any:
            first.append(healthy(left, right))
            return first[0]

        return matmul

    assert measured_with(monkeypatch, broken)["wrong_elements"] > 0


@pytest.mark.parametrize(
    "lie",
    [lambda product: product.t(), lambda product: product.roll(1, 0), lambda product: product[:1, :1]],
    ids=["transposed", "permuted", "broadcastable"],
)
def test_other_wrong_products_are_found(monkeypatch: pytest.MonkeyPatch, lie: Callable[[Any], Any]) -> None:
    """Transposed, permuted, and a shape that would compare by broadcasting."""
    metrics = measured_with(monkeypatch, lambda healthy: lambda a, b: lie(healthy(a, b)))

    assert metrics["wrong_elements"] > 0
    assert metrics["wrong_checksums"] > 0


def test_bfloat16_is_compared_by_its_own_precision() -> None:
    """Half a unit of rounding is right, a flipped bit of the exponent is wrong."""
    problem = gemm.make_problem(64, 0, "cpu")
    rounded = problem.product.to(torch.bfloat16)
    flipped = rounded.clone()
    flipped[3, 4] *= 2

    assert gemm.wrong_elements(rounded, problem, gemm.TOLERANCE["bf16"]) == 0
    assert gemm.wrong_elements(flipped, problem, gemm.TOLERANCE["bf16"]) == 1


@pytest.mark.parametrize("spoiled", [6, 12])
def test_the_last_of_a_batch_is_compared(monkeypatch: pytest.MonkeyPatch, spoiled: int) -> None:
    """A GPU makes many products between two waits. One that is not compared (the sixth, within the batch) leaves no trace; the last
    (the twelfth) does.
    """
    monkeypatch.setattr(gemm, "is_cuda", lambda device: True)
    monkeypatch.setattr(gemm, "MOST_BATCH", 7)
    with fakes.products(fakes.once(spoiled)):
        score = gemm.run([gemm.make_problem(64, 0, "cpu")], FP32, "cpu", 0.0)

    assert (score.products, score.repeats) == (7, gemm.LEAST_REPEATS + 1)
    assert score.wrong_elements == (spoiled == 12)


@pytest.mark.parametrize("precision", [FP32, TF32, BF16, FP16], ids=lambda precision: precision.name)
def test_every_precision_is_exact_enough(precision: Precision) -> None:
    """A sound product is right in each, and an element that is off by a hundredth is wrong in each."""
    problem = gemm.make_problem(128, 1, "cpu")
    sound = gemm.run([problem], precision, "cpu", 0.0)
    with fakes.products(lambda result, call: result * 1.01):
        broken = gemm.run([problem], precision, "cpu", 0.0)

    assert (sound.wrong_elements, sound.wrong_checksums) == (0, 0)
    assert broken.wrong_elements > 0.9 * 128 * 128 * broken.repeats


def test_a_float16_product_does_not_overflow() -> None:
    """At the order of a GPU the greatest element, shrunk, is below 65504, float16's greatest."""
    assert (6 + 4) * (5 + 8) * profile_options.GEMM_ORDER["cuda"] * gemm.FP16_SHRINK < 65504


def test_the_sustained_rate_counts_slow_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """All the time after the warm-up is in it; the best rate is that of the fastest product."""
    seconds = iter([1.0, 2.0, 2.0, 2.0, 2.0, 8.0])  # one to load, four compared, one timed
    healthy = gemm._multiply
    monkeypatch.setattr(gemm, "_multiply", lambda *args: (healthy(*args)[0], next(seconds)))
    score = gemm.run([gemm.make_problem(8, 0, "cpu")], FP32, "cpu", 0.0)

    assert (score.best_s, score.timed_s, score.products) == (2.0, 8.0, 1)
