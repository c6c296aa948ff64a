"""Products that are known without multiplying: the answers are right, exact, and of many bit patterns."""

from __future__ import annotations

from itertools import pairwise

import pytest

from checks.probes.compute import known_products
from checks.probes.compute.device import BF16, FP16, FP32, Precision
from checks.probes.compute.sdc import SIZES
from tests.late import Late

torch = Late("torch")
FLOAT16_MOST, EXACT = 65504, 1 << 24


@pytest.mark.parametrize("size", [64, 256])
def test_the_answer_is_the_product(size: int) -> None:
    """As 64-bit integers multiply it, in every element, of every problem, transposed ones too."""
    for known in known_products.all_known(size, 2):
        left, right = known.operands(FP32, "cpu")

        assert bool((left.long() @ right.long() == known.expected().long()).all()), known.name


def test_there_are_as_many_as_said() -> None:
    """The time for each follows from the count; names tell them apart."""
    names = [known.name for known in known_products.all_known(8, 3)]

    assert names == [*known_products.names(3)] and len(names) == len(set(names))


@pytest.mark.parametrize("precision", [BF16, FP16], ids=lambda precision: precision.name)
def test_operands_and_answers_are_exact_in_16_bits(precision: Precision) -> None:
    """Nothing is rounded on the way in or out."""
    for known in (known_products.orthogonal, known_products.alternating):
        for tensor in known(SIZES["cpu"], 0):
            assert bool((tensor.to(precision.torch_dtype).float() == tensor).all())


def test_partial_sums_are_exact_in_any_order() -> None:
    """The sum of the magnitudes along k stays below 2^24, where float32 holds every integer."""
    for known in (known_products.orthogonal, known_products.alternating):
        left, right, _ = known(SIZES["cpu"], 1)

        assert float(left.abs().sum(1).max() * right.abs().max()) < EXACT


def test_the_greatest_order_is_exact_too() -> None:
    """A GPU's: answers are 1 to 9 times it, and a power of two changes no digits; float16 holds them all."""
    answers = torch.tensor([float(a * b * known_products.MOST_ORDER) for a in (1, 2, 3) for b in (1, 2, 3)])

    assert SIZES["cuda"] == known_products.MOST_ORDER
    assert float(answers.max()) <= FLOAT16_MOST
    assert torch.equal(answers.half().float(), answers)
    assert torch.equal(answers.bfloat16().float(), answers)


def test_no_answer_is_a_negative_zero() -> None:
    """Its bytes would differ from those of the product's 0."""
    for known in known_products.all_known(32, 2):
        zeros = known.answer[known.answer == 0]

        assert not bool(torch.signbit(zeros).any())


def test_neighbours_differ_in_many_bits() -> None:
    """Along k the alternating operands change 5 of the 16 bits of a bfloat16, 4 of them in its 7 digits."""
    left, _, _ = known_products.alternating(64, 0)
    bits = left[0].abs().to(torch.bfloat16).view(torch.int16).tolist()

    assert {(a ^ b).bit_count() for a, b in pairwise(bits)} == {5}


def test_each_seed_has_another_answer() -> None:
    """Or a remembered answer would do."""
    for known in (known_products.orthogonal, known_products.alternating):
        answers = [known(64, seed)[2] for seed in range(4)]

        assert not any(torch.equal(a, b) for i, a in enumerate(answers) for b in answers[:i])


@pytest.mark.parametrize("order", [48, 8192])
def test_an_order_without_exact_products_is_refused(order: int) -> None:
    """No power of two, or too large."""
    with pytest.raises(ValueError, match=str(order)):
        known_products.hadamard(order)
