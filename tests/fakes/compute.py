"""Devices that compute wrongly, or not at all: torch's own products and copies on a CPU, altered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from checks.check import Context, Measurement, RankPlace
from checks.facts import profile_options
from checks.model import Value
from checks.probes.compute import device, sdc, transfer

CPU = RankPlace(0, 0, 1, "cpu")
GPU = RankPlace(0, 0, 8, "cuda:0")
Change = Callable[[Any, int], Any]


@contextmanager
def one_thread() -> Iterator[None]:
    """As torchrun gives a rank: more of them wait for each other where the CPUs are busy."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def products(change: Change) -> Iterator[None]:
    """Every product passes through `change(result, number of the call)`."""
    import torch

    healthy, calls = torch.matmul, 0

    def matmul(left: Any, right: Any) -> Any:
        nonlocal calls
        calls += 1
        return change(healthy(left, right), calls)

    with mock.patch.object(torch, "matmul", matmul):
        yield


def off_by_one(result: Any, call: int) -> Any:
    """One element is off, in every product and beyond every rounding: a unit that is stuck."""
    result = result.clone()
    result[0, 5] = result[0, 5] * 2 + 1
    return result


def once(number: int) -> Change:
    """One element is off in the product of that number alone."""
    return lambda result, call: off_by_one(result, call) if call == number else result


def not_a_number(result: Any, call: int) -> Any:
    """One element is NaN."""
    result = result.clone()
    result[0, 0] = float("nan")
    return result


def zeros(result: Any, call: int) -> Any:
    """Nothing was computed."""
    return result * 0


def noisy(result: Any, call: int) -> Any:
    """The last digits depend on the call."""
    return result * (1 + call * 1e-6)


@contextmanager
def every_precision(size: int = 64) -> Iterator[None]:
    """A CPU that multiplies in all precisions of a GPU, small matrices."""
    every = (device.FP32, device.TF32, device.BF16, device.FP16)
    with (
        mock.patch.object(device, "precisions", lambda name: every),
        mock.patch.dict(profile_options.GEMM_ORDER, {"cpu": size}),
        mock.patch.dict(sdc.SIZES, {"cpu": size}),
    ):
        yield


@contextmanager
def gpus(count: int) -> Iterator[None]:
    """`count` GPUs for compute.transfer, which are this machine's memory."""
    import torch

    real = transfer.measure

    def measure(own: str, targets: Any, size: int, seconds: float, in_part: bool) -> Measurement:
        return real("cpu", ["cpu" for _ in targets], size, seconds, in_part)

    with (
        mock.patch.object(device, "require", lambda name: None),
        mock.patch.object(torch.cuda, "device_count", lambda: count),
        mock.patch.object(transfer, "measure", measure),
    ):
        yield


@contextmanager
def group_of_one(folder: Path) -> Iterator[None]:
    """A process group of this process alone."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder / 'group'}", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def with_metrics(
    body: Callable[[Context], Any], metrics: Mapping[str, Value]
) -> Callable[[Context], Measurement]:
    """The check's own measurement, with some numbers of another machine."""

    def measured(context: Context) -> Measurement:
        result = body(context)
        return Measurement({**result.metrics, **metrics}, result.evidence)

    return measured
