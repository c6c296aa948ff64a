"""compute.sdc: a device that computes wrongly is found, steadily wrong or once; sound ones have one digest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest

from checks.check import fault_of
from checks.model import Value
from checks.probes.compute import sdc
from tests.fakes import compute as fakes
from tests.late import Late

torch = Late("torch")


def measured(seeds: int = 1) -> Mapping[str, Value]:
    return sdc.measure("cpu", 64, seconds=0.0, seeds=seeds).metrics


def test_a_sound_device_has_the_digest_of_the_known_answers() -> None:
    """The digest follows from the answers alone, not from what was measured."""
    from checks.probes.compute import known_products

    known = [sdc.digest_of(one.expected()) for one in known_products.all_known(64, 1)]
    said = sdc.measure("cpu", 64, 0.0, 1).evidence

    assert fault_of(sdc.sdc, measured()) == ""
    assert [digest[:16] in said for digest in known] == [True] * len(known)
    assert measured()["digest"] == measured()["digest"]


def test_the_digest_does_not_depend_on_how_often() -> None:
    """Ranks that are faster repeat more often, and must still agree."""
    assert sdc.measure("cpu", 64, 0.05, 1).metrics["digest"] == measured()["digest"]


def test_every_problem_counts_in_the_digest() -> None:
    """Another answer to one problem of many is another digest."""
    with fakes.products(lambda result, call: fakes.off_by_one(result, call) if call > 6 else result):
        broken = measured()["digest"]

    assert broken != measured()["digest"]


def test_a_wrong_product_within_a_burst_is_found() -> None:
    """Those that are not fetched are compared on the device."""
    with mock.patch.dict(sdc.BURST, {"cpu": 8}), fakes.products(fakes.once(3)):
        metrics = measured()

    assert metrics["wrong_elements"] == (1, 0, 0, 0)
    assert metrics["products"] == 8 * 2 * 4


def test_a_device_that_compares_wrongly_is_found_by_the_host() -> None:
    """What came off the device is compared again where it did not compute."""
    with mock.patch.object(sdc, "_burst", lambda shown, left, right, answer, count: answer + 1):
        metrics = measured()

    assert metrics["wrong_elements"] == (2 * 64 * 64,) * 4


@pytest.mark.parametrize(
    "lie",
    [
        lambda result: result[:1, :1],
        lambda result: result.double(),
        lambda result: result.t().contiguous(),
        lambda result: result.roll(1, 0),
        lambda result: -result,
    ],
    ids=["broadcastable", "another type", "transposed", "permuted", "negated"],
)
def test_other_wrong_products_are_found(lie: Any) -> None:
    """In every problem."""
    with fakes.products(lambda result, call: lie(result)):
        wrong = measured()["wrong_elements"]

    assert isinstance(wrong, tuple)
    assert all(isinstance(count, int) and count > 0 for count in wrong)


def test_a_negative_zero_is_a_zero() -> None:
    """Kernels may leave either; both are the right answer."""
    assert sdc.digest_of(torch.tensor([0.0, 1.0])) == sdc.digest_of(torch.tensor([-0.0, 1.0]))


def test_a_digest_is_of_every_bit() -> None:
    """The last bit of one element makes another one, in 16 bits too."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        one = torch.ones(4, dtype=dtype)
        other = one.clone()
        other[3] += torch.finfo(dtype).eps

        assert sdc.digest_of(one) != sdc.digest_of(other)


def test_the_account_says_where() -> None:
    """The first wrong elements, with what they are and must be."""
    with fakes.products(fakes.once(2)):
        said = sdc.measure("cpu", 64, 0.0, 1).evidence

    assert "1 repeats differ from the first, 1 wrong elements: [0,5] is 1, but it must be 0" in said
