"""A FAKE torch.nn: networks whose loss falls with each update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from .._tensors import Tensor, multiplied


class Module:
    """What has weights."""

    def parameters(self) -> Iterator[Tensor]:
        """None by itself."""
        return iter(())

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for weights in self.parameters():
            weights.grad = None

    def to(self, device: Any) -> Module:
        """On another device."""
        for weights in self.parameters():
            weights.device = str(device)
        return self


class Linear(Module):
    """A product with a matrix."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.weights = Tensor((inputs, outputs)).requires_grad_()
        self.bias = Tensor((outputs,)).requires_grad_()

    def parameters(self) -> Iterator[Tensor]:
        """Matrix and bias."""
        return iter((self.weights, self.bias))

    def __call__(self, given: Tensor) -> Tensor:
        return multiplied(given, self.weights, "fp32") + self.bias


class Tanh(Module):
    """As it is."""

    def __call__(self, given: Tensor) -> Tensor:
        return given.like()


class Sequential(Module):
    """One after the other."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def parameters(self) -> Iterator[Tensor]:
        """Of all parts."""
        return (weights for part in self.parts for weights in part.parameters())

    def __call__(self, given: Tensor) -> Tensor:
        for part in self.parts:
            given = part(given)
        return given


class DistributedDataParallel(Module):
    """Its gradients pass through the hook, in one bucket."""

    def __init__(self, module: Module, device_ids: Any = None) -> None:
        self.module = module
        self._hook: Callable[[Tensor], Any] | None = None

    def register_comm_hook(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        """Called with each bucket."""
        self._hook = lambda buffer: hook(state, SimpleNamespace(buffer=lambda: buffer))

    def parameters(self) -> Iterator[Tensor]:
        """The module's."""
        return self.module.parameters()

    def __call__(self, given: Tensor) -> Tensor:
        made: Tensor = self.module(given)  # type: ignore[operator]
        made.hook = self._hook
        return made


functional = SimpleNamespace(layer_norm=lambda given, shape: given.like(), gelu=lambda given: given.like())
