"""The torch device of a rank, and the precisions in which it can multiply. If the device is missing, the check cannot measure."""

from __future__ import annotations

import ctypes
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from checks.check import Basis, Body, Check, CheckError, Context, RankPlace, Turn, check
from checks.facts.expected_tables import builtin as tables
from checks.model import Scope

if TYPE_CHECKING:
    import torch
    from torch import Tensor


# Compute capability 8.0 (Ampere) brought TF32 and bfloat16 to the tensor cores (CUDA programming guide).
AMPERE = 8


def torch_check(name: str, metrics: tuple[str, ...], **more: Any) -> Callable[[Body], Check]:
    """Makes a function a check in which a rank computes with torch for some seconds."""
    return check(name, Scope.RANK, metrics=metrics, needs="torch", cost="seconds", **more)


# All ranks together, after the checks in which each computes alone.
joint_check = partial(torch_check, min_ranks=2, group=True, turn=Turn.LAST)


@dataclass(frozen=True)
class Precision:
    """A precision of products: torch's name of the operands' type, and whether float32 is rounded to TF32 (11 bits)."""

    name: str
    dtype: str
    tf32: bool = False

    @property
    def torch_dtype(self) -> torch.dtype:
        """The operands' type."""
        import torch

        data_type = getattr(torch, self.dtype)
        if not isinstance(data_type, torch.dtype):
            raise CheckError(f"torch has no data type {self.dtype}")
        return data_type


FP32 = Precision("fp32", "float32")
TF32 = Precision("tf32", "float32", tf32=True)
BF16 = Precision("bf16", "bfloat16")
FP16 = Precision("fp16", "float16")


def is_cuda(device: str) -> bool:
    """Whether the device is a GPU."""
    return device.startswith("cuda")


def precisions(device: str) -> tuple[Precision, ...]:
    """The precisions that are tested on the device: only float32 on a CPU, which often emulates the others."""
    if not is_cuda(device):
        return (FP32,)
    import torch

    return (FP32, FP16) if torch.cuda.get_device_capability(device)[0] < AMPERE else (FP32, TF32, BF16, FP16)


def expected(basis: Basis) -> tuple[str, ...]:
    """The names of those that are tested on the declared machine; of a GPU that no table has, those that every GPU multiplies in."""
    if not basis.declared.gpus_per_node:
        return (FP32.name,)
    model = tables().rooflines.find(basis.instance.gpu) if basis.instance else None
    return ("fp32", "tf32", "bf16", "fp16") if model and "bf16" in model.tflops else ("fp32", "fp16")


def name_of(device: str) -> str:
    """The device's own name ("NVIDIA H100 80GB HBM3")."""
    if not is_cuda(device):
        return device
    import torch

    return str(torch.cuda.get_device_name(device))


def place_of(context: Context, check: str) -> RankPlace:
    """The rank's place, with a device that torch can use. Raises CheckError."""
    if context.rank_place is None:
        raise CheckError(f"{check} must run in a rank. Run it under torchrun.")
    require(context.rank_place.device)
    return context.rank_place


def require(device: str) -> None:
    """Raises CheckError unless torch sees the device."""
    if not is_cuda(device):
        return
    import torch

    if not torch.cuda.is_available():
        raise CheckError(f"torch {torch.__version__} finds no CUDA device, but {device} is declared")
    index, count = int(device.partition(":")[2] or 0), torch.cuda.device_count()
    if index >= count:
        raise CheckError(f"torch sees {count} CUDA devices, and {device} is not among them")


def digest_of(*tensors: Tensor) -> str:
    """SHA-256 over the bytes of the tensors' elements, in hex."""
    sums = hashlib.sha256()
    for tensor in tensors:
        # Tensor.numpy() would need numpy, which torch does not bring. The storage of a copy holds exactly its elements.
        storage = tensor.detach().cpu().contiguous().clone().untyped_storage()
        sums.update((ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr()))
    return sums.hexdigest()


def wait(device: str) -> None:
    """Waits until the device has finished its work."""
    if is_cuda(device):
        import torch

        torch.cuda.synchronize(device)


def timed(run: Callable[[], object], device: str, times: int = 1) -> float:
    """The mean seconds of so many runs in a row."""
    wait(device)
    begun = time.perf_counter()
    for _ in range(times):
        run()
    wait(device)
    return (time.perf_counter() - begun) / times


@contextmanager
def released(device: str) -> Iterator[None]:
    """Releases the device's memory afterwards, for the next check and for those that look for other users."""
    try:
        yield
    finally:
        if is_cuda(device):
            import torch

            torch.cuda.empty_cache()


@contextmanager
def multiplying(precision: Precision, device: str) -> Iterator[None]:
    """Products in exactly this precision: TF32 only if it is asked for, and partial sums in float32."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision.tf32 else "highest")
    flags = torch.backends.cuda.matmul
    names = ("allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction")
    flags_before = {name: getattr(flags, name) for name in names} if is_cuda(device) else {}
    for name in flags_before:
        setattr(flags, name, False)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for name, value in flags_before.items():
            setattr(flags, name, value)
