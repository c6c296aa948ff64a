"""A FAKE torch, part 2: tensors without elements.

A tensor knows its shape, how many of its elements are wrong, and
what its device would have taken; results are taken as exact, so that a healthy device's comparisons find nothing, and a planted
fault is found wherever it spreads to. Small tensors hold their numbers. Whether the checks compare the right things is for the
tests with the real torch (tests/checks/compute, tests/checks/nccl).
"""

from __future__ import annotations

import builtins
import ctypes
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._device import CLOCK, WORLD, boolean, dtype, float32, float64, int64

SMALL = 64  # tensors of so many elements or fewer hold numbers where they were given some


class Storage:
    """Bytes in memory. They are as many as they are, because a tensor has no elements here: not one for each byte of its elements."""

    def __init__(self, content: bytes) -> None:
        self._content = ctypes.create_string_buffer(content, len(content))

    def data_ptr(self) -> int:
        """Where they are."""
        return ctypes.addressof(self._content)

    def nbytes(self) -> int:
        """How many they are."""
        return len(self._content)


class Tensor:
    """`wrong` counts wrong elements; `age` how often the weights behind it were updated; `odd` is a comparison's result."""

    def __init__(
        self,
        shape: Sequence[int],
        kind: dtype = float32,
        device: str = "cpu",
        data: Any = None,
        wrong: int = 0,
    ) -> None:
        self.shape, self.dtype, self.device = tuple(shape), kind, str(device)
        self.data: list[Any] | None = data
        self.wrong, self.age, self.leaves = wrong, 0, frozenset[Any]()
        self.odd: bool | None = None
        self.gap = False
        self.grad: Tensor | None = None
        self.work = 0.0
        self.base: Tensor = self  # of a view: whose elements they are
        self.hook: Callable[[Tensor], Any] | None = None

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a GPU."""
        return self.device.startswith("cuda")

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.numel() * self.dtype.itemsize

    def numel(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    def like(self, shape: Sequence[int] | None = None, *others: Any, kind: dtype | None = None) -> Tensor:
        """What comes of this and the others."""
        parts = [self, *(other for other in others if isinstance(other, Tensor))]
        made = Tensor(self.shape if shape is None else shape, kind or self.dtype, self.device)
        made.wrong = min(sum(part.wrong for part in parts), max(made.numel(), 1))
        made.age = max(part.age for part in parts)
        made.leaves = frozenset[Any]().union(*(part.leaves for part in parts))
        made.work = sum(part.work for part in parts)
        made.hook = next((part.hook for part in parts if part.hook), None)
        return made

    def _with(self, other: Any, both: Callable[[Any, Any], Any] | None = None) -> Tensor:
        shape = broadcast(self.shape, other.shape if isinstance(other, Tensor) else ())
        kind = self.dtype
        if isinstance(other, Tensor) and (
            other.dtype.name.startswith("float") and not kind.name.startswith("float")
        ):
            kind = other.dtype
        return self.like(shape, other, kind=kind)

    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __floordiv__ = __and__ = __rshift__ = __pow__ = _with
    __truediv__ = __rtruediv__ = __rsub__ = _with

    def __sub__(self, other: Any) -> Tensor:
        made = self._with(other)
        made.gap = True
        return made

    def __neg__(self) -> Tensor:
        return self.like()

    def _compare(self, other: Any, odd: bool) -> Tensor:
        made = self._with(other)
        made.dtype, made.odd = boolean, odd
        if self.data is not None and isinstance(other, Tensor) and other.data is not None:
            made.wrong += sum(a != b for a, b in zip(self.data, other.data, strict=True))
        return made

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._compare(other, True)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._compare(other, False)

    def __le__(self, other: Any) -> Tensor:
        return self._compare(other, False)

    __hash__ = object.__hash__

    def __invert__(self) -> Tensor:
        made = self.like()
        made.odd = None if self.odd is None else not self.odd
        return made

    def sum(self, dim: int | None = None) -> Tensor:
        """Of a comparison: how many."""
        if dim is not None:
            return self.like([n for at, n in enumerate(self.shape) if at != dim % len(self.shape)])
        made = self.like((), kind=int64)
        made.data = [0 if self.odd is None else self.wrong if self.odd else self.numel() - self.wrong]
        return made

    def max(self) -> Tensor:
        """Small: exact in every precision."""
        made = self.like(())
        made.data = [0]
        return made

    def norm(self) -> Tensor:
        """Of a difference nothing but rounding, or half where something is wrong."""
        made = self.like(())
        made.data = [(0.5 if self.wrong else 5e-8) if self.gap else 1.0]
        return made

    def mean(self) -> Tensor:
        """A loss, that falls with every update of the weights."""
        made = self.like(())
        # of a loss from one update to the next: training.step measured 0.61 after 8 steps on an H100
        made.data = [math.nan if self.wrong and WORLD["faults"].get("nan") else 0.93**self.age]
        return made

    def _number(self) -> Any:
        CLOCK.wait()
        if self.data is None:
            return 0
        return self.data[0]

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    item = _number

    def __bool__(self) -> bool:
        return bool(self._number())

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[at] for at in range(self.shape[0])])

    def tolist(self) -> list[Any]:
        """The numbers of a small tensor."""
        CLOCK.wait()
        if self.odd is not None or (self.data is None and len(self.shape) > 1):
            return [[0] * self.shape[1]] * self.shape[0]
        return list(self.data) if self.data is not None else [0] * self.shape[0]

    def nonzero(self) -> Tensor:
        """Where a comparison says so: so many places."""
        return Tensor((self.wrong, len(self.shape)), int64, self.device)

    def __getitem__(self, key: Any) -> Tensor:
        shape, keys, at = list[int](), key if isinstance(key, tuple) else (key,), 0
        for one in keys:
            if one is None:
                shape.append(1)
            elif isinstance(one, slice):
                shape.append(len(range(*one.indices(self.shape[at]))))
                at += 1
            else:
                shape += list(one.shape) if isinstance(one, Tensor) else []
                at += 1
        made = self.like((*shape, *self.shape[at:]))
        made.base = self.base
        if self.data is not None and len(keys) == 1 and isinstance(key, slice):
            made.data = self.data[key]
        return made

    def __setitem__(self, key: Any, value: Tensor) -> None:
        self.wrong += value.wrong

    def view(self, *shape: Any) -> Tensor:
        """The same elements in another shape, or as another type."""
        if len(shape) == 1 and isinstance(shape[0], dtype):
            return self.like((*self.shape[:-1], self.shape[-1] * self.dtype.itemsize // shape[0].itemsize))
        wanted = [*shape[0]] if isinstance(shape[0], (tuple, list)) else [*shape]
        if -1 in wanted:
            wanted[wanted.index(-1)] = -(self.numel() // math.prod(wanted))
        made = self.like([abs(n) for n in wanted])
        made.base = self.base
        return made

    reshape = view

    def permute(self, *order: int) -> Tensor:
        """Other axes."""
        return self.like([self.shape[at] for at in order])

    def transpose(self, one: int, other: int) -> Tensor:
        """Two axes exchanged."""
        shape = list(self.shape)
        shape[one], shape[other] = shape[other], shape[one]
        return self.like(shape)

    def t(self) -> Tensor:
        """A matrix transposed."""
        return self.transpose(0, 1)

    def flatten(self) -> Tensor:
        """In a row."""
        return self.like((self.numel(),))

    def repeat(self, times: int) -> Tensor:
        """So often in a row."""
        return self.like((self.shape[0] * times,))

    def roll(self, *by: int) -> Tensor:
        """Shifted."""
        return self.like()

    contiguous = abs = sign = bitwise_not = pin_memory = roll

    def to(self, target: Any) -> Tensor:
        """On another device, or of another type."""
        made = self.like(kind=target if isinstance(target, dtype) else None)
        made.data = self.data
        if not isinstance(target, dtype):
            made.device = str(target)
        return made

    def float(self) -> Tensor:
        """In float32."""
        return self.to(float32)

    def double(self) -> Tensor:
        """In float64."""
        return self.to(float64)

    def cpu(self) -> Tensor:
        """On the host."""
        CLOCK.wait()
        return self.to("cpu")

    def clone(self) -> Tensor:
        """Another one."""
        made = self.like()
        made.data = None if self.data is None else list(self.data)
        return made

    detach = clone

    def requires_grad_(self) -> Tensor:
        """It is a weight."""
        self.leaves = frozenset((self,))
        return self

    def untyped_storage(self) -> Storage:
        """What this tensor has in place of elements: bytes that are equal for what should be equal, and others with wrong elements."""
        return Storage(f"{self.shape} {self.dtype} {self.age} {self.wrong}".encode())

    def new_zeros(self, size: Any, dtype: dtype | None = None) -> Tensor:
        """On the same device."""
        return Tensor((size,) if isinstance(size, int) else size, dtype or self.dtype, self.device)

    def new_full(self, size: Sequence[int], value: builtins.float) -> Tensor:
        """On the same device."""
        return Tensor(size, self.dtype, self.device)

    def zero_(self) -> Tensor:
        """Whatever was wrong is overwritten."""
        self.wrong = 0
        return self

    def fill_(self, value: builtins.float) -> Tensor:
        """The same."""
        return self.zero_()

    def div_(self, *by: builtins.float) -> Tensor:
        """As it is: a wrong word stays wrong."""
        return self

    bitwise_not_ = clamp_min = div_

    def __iadd__(self, other: Tensor) -> Tensor:  # type: ignore[misc]
        if self.data is not None and other.data is not None:
            self.data = [a + b for a, b in zip(self.data, other.data, strict=True)]
        return self

    def sub_(self, step: Tensor) -> Tensor:
        """An update of weights."""
        self.age += 1
        self.wrong = min(self.numel(), self.wrong + step.wrong)
        return self

    def copy_(self, source: Tensor, non_blocking: bool = False) -> Tensor:
        """From one place to another, in the time that it takes."""
        ends = {self.device, source.device}
        if len(ends) > 1 and "cpu" in ends:
            way = "d2h" if self.device == "cpu" else "h2d"
            [gpu] = ends - {"cpu"}
            seconds = self.nbytes / WORLD.rate(way, gpu) / 1e9
        elif len(ends) > 1:
            way, gpu = "p2p", source.device
            seconds = self.nbytes / min(WORLD.rate(way, end) for end in ends) / 1e9
        else:
            way, gpu = "copy", self.device
            seconds = 2 * self.nbytes / WORLD.rate(way, gpu) / 1e9
        CLOCK.run(seconds)
        if not gpu.startswith("cuda"):
            CLOCK.wait()
        self.data = None if source.data is None else list(source.data)
        bad = self.numel() >= SMALL and WORLD.fault(f"{way}_wrong", gpu, 0)
        self.wrong, self.age = min(self.numel(), source.wrong + (bad or 0)), source.age
        return self

    def backward(self) -> None:
        """A gradient for every weight behind it; with the hook's average where there is one."""
        CLOCK.run(2 * self.work)
        for leaf in self.leaves:
            leaf.grad = leaf.like(None, self)
        if self.hook is not None and self.leaves:
            bucket = Tensor(
                (sum(leaf.numel() for leaf in self.leaves),), device=self.device, wrong=self.wrong
            )
            self.hook(bucket)
            for leaf in self.leaves:
                leaf.grad.wrong = bucket.wrong


def broadcast(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """The shape of both together."""
    length = max(len(one), len(other))
    rows = [(1,) * (length - len(shape)) + tuple(shape) for shape in (one, other)]
    return tuple(max(a, b) if a and b else 0 for a, b in zip(*rows, strict=True))


def multiplied(left: Tensor, right: Tensor, precision: str) -> Tensor:
    """The product, exact, after the time that the device takes."""
    shape = (*broadcast(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])
    made = left.like(shape, right)
    seconds = 2 * math.prod(shape) * left.shape[-1] / WORLD.rate(precision, made.device) / 1e12
    CLOCK.run(seconds)
    if made.leaves:
        made.work += seconds
    if made.is_cuda:
        nvml = sys.modules.get("pynvml")
        if nvml is not None:
            nvml._dial("busy", False)  # so that it has read what FAKE_NVML names
            nvml.busy(True)
    else:
        CLOCK.wait()
    made.wrong = min(made.numel(), made.wrong + WORLD.fault("product_wrong", made.device, 0))
    return made
