"""GPU records: PCI addresses in one form, figures that can be, columns with a label each."""

from __future__ import annotations

import math

import pytest

from checks.probes.gpu.record import Gpu, columns, is_model, padded, texts, usable_value


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "", True, 0xFFFFFFFF, (1 << 64) - 1, -(1 << 63)])
def test_a_figure_that_means_nothing_is_none(value: object) -> None:
    """NaN and the all-ones patterns that stand for "not available" are no readings."""
    assert usable_value(value) is None


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (-3, -3), (b"GPU-1", "GPU-1"), (1.5, 1.5)])
def test_a_figure_is_kept(value: object, expected: object) -> None:
    """0 is a figure, bytes are text."""
    assert expected == usable_value(value)


def test_a_declared_gpu_that_is_not_listed_is_not_measured() -> None:
    """Its place in every column is None, and its label says so."""
    gpus = padded([Gpu(0, "0000:53:00.0", {"limit_w": 700.0})], 2)

    expected = {"limit_w": (700.0, None), "gpus": ("GPU 0 (0000:53:00.0)", "GPU 1")}
    assert expected == columns(gpus, ("limit_w",))


def test_gpu_text_column_is_none_when_one_text_is_unread() -> None:
    """A column is of one kind: a text is never invented for the GPU that has none."""
    gpus = [Gpu(0, "", {"model": "Tesla T4"}), Gpu(1, "", {})]

    assert (None, None) == texts(gpus, "model")


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3", True),
        ("Tesla T4", "T4", True),
        ("NVIDIA T4G", "T4", False),
        ("NVIDIA L40S", "L4", False),
        ("NVIDIA H100 PCIe", "H100 80GB HBM3", False),
        ("NVIDIA GB200", "B200", False),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell SE", True),
        ("NVIDIA H200", "", False),
    ],
)
def test_models_are_compared_by_whole_words(name: str, model: str, expected: bool) -> None:
    """The table's name is NVML's without the maker's; a beginning of a word is another model."""
    assert expected is is_model(name, model)
