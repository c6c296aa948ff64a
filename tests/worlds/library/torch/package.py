"""A FAKE torch for machines that are not there: what the checks call of the library, and nothing else.

A machine of tests/worlds has a copy of this folder before the real torch on its PYTHONPATH, in which each package.py is an
__init__.py. See _tensors.py for what a tensor here is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

from ._device import CLOCK, WORLD, bfloat16, dtype, float16, float32, float64, int32, int64, uint8
from ._tensors import SMALL, Tensor, multiplied

__all__ = ["Tensor", "bfloat16", "dtype", "float16", "float32", "float64", "int32", "int64", "uint8"]
__version__ = "2.8.0+a.fake"
_precision = ["highest"]
_autocast: list[dtype] = []


class device(str):
    """A device is its name."""

    __slots__ = ()


def _sized(size: Any) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)


def _made(size: Any, dtype: dtype | None, device: Any, value: Any) -> Tensor:
    shape = _sized(size)
    made = Tensor(shape, dtype or float32, str(device or "cpu"))
    if made.numel() <= SMALL and len(shape) < 2:
        made.data = [value] * made.numel()
    return made


def zeros(size: Any, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """Small ones have numbers."""
    return _made(size, dtype, device, 0)


def ones(size: Any, dtype: dtype | None = None, device: Any = None, pin_memory: bool = False) -> Tensor:
    """Small ones have numbers."""
    return _made(size, dtype, device, 1)


def full(size: Any, value: float, device: Any = None) -> Tensor:
    """Small ones have numbers."""
    return _made(size, None, device, value)


def empty(size: Any, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """Without numbers."""
    return Tensor(_sized(size), dtype or float32, str(device or "cpu"))


def arange(first: int, last: int | None = None, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """So many elements."""
    count = first if last is None else last - first
    return Tensor((count,), dtype or int64, str(device or "cpu"))


def tensor(values: Sequence[Any], dtype: dtype | None = None, device: Any = None) -> Tensor:
    """These numbers, where they are few."""
    data = list(values) if len(values) <= SMALL else None
    return Tensor((len(values),), dtype or float32, str(device or "cpu"), data)


def randn(size: Any, generator: Any = None) -> Tensor:
    """Of this shape."""
    return Tensor(_sized(size))


def cat(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """One after the other."""
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    made = parts[0].like(shape, *parts[1:])
    made.gap = any(part.gap for part in parts)
    return made


def equal(one: Tensor, other: Tensor) -> bool:
    """Whether nothing is wrong in either."""
    CLOCK.wait()
    return not int((one != other).sum())


def add(one: Tensor, other: Tensor, alpha: float = 1, out: Tensor | None = None) -> Tensor:
    """A sum, in the time of three passes over memory."""
    made = one._with(other)
    CLOCK.run(3 * made.nbytes / WORLD.rate("triad", made.device) / 1e9)
    if out is None:
        return made
    out.wrong = min(out.numel(), made.wrong + WORLD.fault("copy_wrong", made.device, 0))
    if not out.is_cuda:
        CLOCK.wait()
    return out


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """A product."""
    kind = _autocast[-1] if _autocast else left.dtype
    tf32 = kind is float32 and _precision[0] == "high"
    names = {float32: "fp32", bfloat16: "bf16", float16: "fp16"}
    return multiplied(left, right, "tf32" if tf32 else names.get(kind, "fp32"))


mm = matmul


def mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """A matrix times a vector."""
    return matrix.like((matrix.shape[0],), vector)


def softmax(values: Tensor, dim: int) -> Tensor:
    """Of the same shape."""
    return values.like()


def get_float32_matmul_precision() -> str:
    """What was set."""
    return _precision[0]


def set_float32_matmul_precision(name: str) -> None:
    """ "high" is TF32."""
    _precision[0] = name


def get_num_threads() -> int:
    """One."""
    return 1


def set_num_threads(count: int) -> None:
    """Nothing here has threads."""


def no_grad() -> AbstractContextManager[None]:
    """No weight learns here by itself."""
    return contextlib.nullcontext()


@contextlib.contextmanager
def autocast(kind: str, dtype: dtype) -> Iterator[None]:
    """Products in this type."""
    _autocast.append(dtype)
    try:
        yield
    finally:
        _autocast.pop()


class Generator:
    """Random numbers are not needed: nothing looks at an element."""

    def manual_seed(self, seed: int) -> Generator:
        """Itself."""
        return self


def _grad(loss: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    CLOCK.run(2 * loss.work)
    return [weight.like(None, loss) for weight in weights]


class _Future:
    def __init__(self, devices: Any = None) -> None:
        self.value: Any = None

    def set_result(self, value: Any) -> None:
        self.value = value


autograd = SimpleNamespace(grad=_grad)
futures = SimpleNamespace(Future=_Future)
_flags = {"allow_bf16_reduced_precision_reduction": True, "allow_fp16_reduced_precision_reduction": True}
backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(**_flags)))


class _Cuda:
    """torch.cuda, for the GPUs that FAKE_TORCH names."""

    nccl = SimpleNamespace(version=lambda: tuple(map(int, WORLD["nccl"]["version"].split("."))))

    def is_available(self) -> bool:
        return self.device_count() > 0

    def device_count(self) -> int:
        return int(WORLD["gpus"])

    def set_device(self, index: Any) -> None:
        if isinstance(index, int) and index >= self.device_count():
            raise RuntimeError("CUDA error: invalid device ordinal")

    def get_device_name(self, device: Any) -> str:
        return str(WORLD["name"])

    def get_device_capability(self, device: Any) -> tuple[int, int]:
        major, minor = WORLD["capability"]
        return major, minor

    def get_device_properties(self, device: Any) -> SimpleNamespace:
        import pynvml

        index = int(str(device).partition(":")[2] or 0)
        return SimpleNamespace(uuid=pynvml.uuid_of(index).removeprefix("GPU-"))

    def mem_get_info(self, device: Any) -> tuple[int, int]:
        total = int(WORLD["memory_mib"]) << 20
        return total - (1 << 29), total

    def can_device_access_peer(self, one: Any, other: Any) -> bool:
        return bool(WORLD["peers"])

    def empty_cache(self) -> None:
        return

    def synchronize(self, device: Any = None) -> None:
        CLOCK.wait()
        if threading.current_thread() is not threading.main_thread():
            # a thread that keeps a GPU busy waits for it
            time.sleep(0.02)

    def current_stream(self, device: Any = None) -> SimpleNamespace:
        return SimpleNamespace(synchronize=CLOCK.wait_products)

    def Stream(self, device: Any) -> object:
        return object()

    def stream(self, stream: object) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def device(self, device: Any) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


cuda = _Cuda()
from . import distributed, nn  # noqa: E402 - they need what is above

_ = (distributed, nn)
