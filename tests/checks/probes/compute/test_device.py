"""The device of a rank, and the peaks of GPU models: what is not there is no measurement."""

from __future__ import annotations

from unittest import mock

import pytest

from checks.check import CheckError
from checks.facts import rooflines
from checks.probes.compute import device
from tests.late import Late

torch = Late("torch")


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("Tesla V100-SXM2-16GB", 125),
        ("NVIDIA A10G", 125),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("Tesla T4", 65),
        ("NVIDIA GB200", 2500),
        ("NVIDIA B200", 2250),
        ("NVIDIA T4G", 65),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 504),
    ],
)
def test_a_model_is_found_by_its_name(name: str, tflops: float) -> None:
    """As NVML and CUDA print it; no name is taken for a longer or a shorter one."""
    assert rooflines.limit_tflops(name) == tflops


@pytest.mark.parametrize(
    ("precision", "tflops"), [("fp32", 67), ("tf32", 494.7), ("bf16", 989), ("fp64", 989)]
)
def test_a_precision_has_its_own_peak(precision: str, tflops: float) -> None:
    """An H100's float32 at its bfloat16 rate was not float32; one that the table lacks is held to the fastest."""
    assert rooflines.limit_tflops("NVIDIA H100 80GB HBM3", precision) == tflops


@pytest.mark.parametrize("name", ["cpu", "NVIDIA L20", "NVIDIA H1000", "NVIDIA A100 beside H100", ""])
def test_an_unknown_model_has_no_peak(name: str) -> None:
    """But cannot be faster than the fastest that is known."""
    assert rooflines.peak_of(name) is None
    assert rooflines.limit_tflops(name) == 2500


def test_a_gpu_that_torch_does_not_see_is_said() -> None:
    """No CUDA at all, or fewer devices."""
    absent = pytest.raises(CheckError, match="no CUDA device")
    with mock.patch("torch.cuda.is_available", lambda: False), absent:
        device.require("cuda:0")
    with (
        mock.patch("torch.cuda.is_available", lambda: True),
        mock.patch("torch.cuda.device_count", lambda: 4),
        pytest.raises(CheckError, match="4 CUDA devices, and cuda:4 is not among them"),
    ):
        device.require("cuda:4")


@pytest.mark.parametrize(
    ("capability", "names"),
    [((7, 5), "fp32 fp16"), ((8, 0), "fp32 tf32 bf16 fp16"), ((9, 0), "fp32 tf32 bf16 fp16")],
)
def test_older_gpus_are_not_tried_with_what_they_lack(capability: tuple[int, int], names: str) -> None:
    """TF32 and bfloat16 came with Ampere."""
    with mock.patch("torch.cuda.get_device_capability", lambda device: capability):
        assert " ".join(one.name for one in device.precisions("cuda:0")) == names


def test_the_precision_of_products_is_put_back() -> None:
    """Also after a failure: later checks and the training get what they had."""
    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="lost"), device.multiplying(device.TF32, "cpu"):
        assert torch.get_float32_matmul_precision() == "high"
        raise RuntimeError("lost")

    assert torch.get_float32_matmul_precision() == before
