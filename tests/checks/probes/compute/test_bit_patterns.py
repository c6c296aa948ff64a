"""Words that depend on their place: what is moved, lost or doubled differs."""

from __future__ import annotations

import pytest

from checks.probes.compute import bit_patterns
from tests.late import Late

torch = Late("torch")


def test_bit_patterns_have_no_wrong_words_when_unchanged() -> None:
    """Across the pieces in which it is made and compared; its complement as well."""
    made = bit_patterns.make(bit_patterns.CHUNK + 5, 3, "cpu")

    assert bit_patterns.wrong(made, 3) == 0
    assert bit_patterns.wrong(made.bitwise_not(), 3, flipped=True) == 0


@pytest.mark.parametrize(
    "index", [0, 1000, bit_patterns.CHUNK - 1, bit_patterns.CHUNK, bit_patterns.CHUNK + 4]
)
def test_flipped_bit_counts_as_one_wrong_word(index: int) -> None:
    """In the first word, the last, and where two pieces meet."""
    made = bit_patterns.make(bit_patterns.CHUNK + 5, 0, "cpu")
    made[index] ^= 1 << 30

    assert bit_patterns.wrong(made, 0) == 1


@pytest.mark.parametrize("shift", [1, 2, 64, 4096])
def test_shifted_words_are_wrong(shift: int) -> None:
    """Nearly everywhere."""
    made = bit_patterns.make(10_000, 0, "cpu")

    assert bit_patterns.wrong(made.roll(shift), 0) > 9_990


def test_another_seed_and_the_complement_are_wrong() -> None:
    """An earlier block is not taken for this one."""
    made = bit_patterns.make(1000, 0, "cpu")

    assert bit_patterns.wrong(made, 1) == 1000
    assert bit_patterns.wrong(made, 0, flipped=True) == 1000


def test_the_words_are_those_of_the_formula() -> None:
    """By Python's own integers."""
    expected = [(i * 2654435761 + 7) % (1 << 31) for i in range(50)]

    assert bit_patterns.make(50, 7, "cpu").tolist() == expected
