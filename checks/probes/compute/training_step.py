"""training.step: whether a transformer block trains, with the same result twice, and at what rate.

One block (attention, then a feed-forward layer of four times the width) is written out in matrix products that are deterministic on
one stream. The optimiser is gradient descent. A step's spectral norm (its largest singular value) is a fixed part of the weight's,
because the Frobenius norm says nothing about how far a step of low rank moves what goes through the weight: with it, the loss of
4,096 tokens of width 4,096 rose on a healthy H100. The block learns to rotate the components of its input, so that the loss must fall.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks.check import Basis, Context, Measurement
from checks.facts.rooflines import limit_tflops, peak_of
from checks.model import Value
from checks.model_details import Contents
from checks.probes.compute import device as devices
from checks.probes.compute.device import BF16, FP32, Precision, is_cuda, multiplying, torch_check, wait

if TYPE_CHECKING:
    from torch import Tensor

FEED_FORWARD = 4
LEARNING_RATE = 0.3
SMALLEST = 1e-30  # a gradient of zeros changes nothing, and must not cause a division by zero
# The power iteration finds the largest singular value. It takes more steps at a weight's first step than from an earlier direction.
FIRST_ITERATIONS, ITERATIONS = 4, 1
STEPS, LEAST_STEPS = 8, 3
# The first steps load libraries and raise clocks. They count for the losses, but not for the rate.
UNTIMED_STEPS = 1


@dataclass(frozen=True)
class Shape:
    """Sequences per batch, tokens per sequence, width, heads."""

    batch: int
    tokens: int
    width: int
    heads: int

    @property
    def text(self) -> str:
        """For people."""
        return f"batch {self.batch}, {self.tokens} tokens, width {self.width}, {self.heads} heads"

    @property
    def step_flops(self) -> float:
        """The operations of one step: 6 per weight and token (forward 2, backward 4), and 12 per pair of tokens for attention.

        As in PaLM (Chowdhery et al. 2022, appendix B), for one layer.
        """
        weights = (4 + 2 * FEED_FORWARD) * self.width**2
        return self.batch * self.tokens * (6.0 * weights + 12.0 * self.tokens * self.width)


# On a GPU 0.8 GB of weights, as much of gradients and 4 GB of what the backward pass needs: it fits into 16 GB.
SHAPES = {"cpu": Shape(4, 64, 128, 4), "cuda": Shape(4, 1024, 4096, 32)}


@dataclass(frozen=True)
class TrainingRun:
    """One training from the same start: one loss per step, and the seconds of the timed steps."""

    losses: tuple[float, ...]
    seconds: float
    timed: int


def holds(basis: Basis) -> tuple[Contents, ...]:
    """float32, and bfloat16 where `precisions` tests it."""
    halves = not basis.declared.gpus_per_node or "bf16" in devices.expected(basis)
    names = (FP32.name, BF16.name) if halves else (FP32.name,)
    steps = max(LEAST_STEPS, int(basis.options.get("steps", STEPS)))
    return Contents("precisions", labels=names), Contents("steps", steps)


@torch_check(
    "training.step",
    ("precisions", "loss_ratio", "nonfinite_losses", "unequal_losses", "tokens_per_s", "above_peak", "steps"),
    timeout_s=180,
    holds=holds,
)
def step(context: Context) -> Measurement:
    """Trains a transformer block twice from one start, in float32 and in bfloat16 (autocast), and takes the rate.

    Arrays have one entry for each of `precisions`. `loss_ratio` is the last loss over the first, null where one is
    not finite; `nonfinite_losses` counts those, `unequal_losses` the steps whose loss differs in any bit between
    both runs. `tokens_per_s` is the faster run's. `above_peak` counts rates beyond what the device can do by its
    maker's word. `mfu`, the fraction of the bfloat16 peak that is used, is there for GPU models whose peak is known.
    """
    device, options = devices.place_of(context, "training.step").device, context.options
    shape = SHAPES["cuda" if is_cuda(device) else "cpu"]
    with devices.released(device):
        return measure(device, shape, max(LEAST_STEPS, int(options.get("steps", STEPS))))


def measure(device: str, shape: Shape, steps: int) -> Measurement:
    """The measurement on a torch device, with `steps` steps per run."""
    tried = precisions(device)
    start, batch = make_weights(shape, device), make_batch(shape, device)
    runs = {
        run_pair.name: [train(start, batch, shape, steps, run_pair) for _ in (0, 1)] for run_pair in tried
    }
    tokens = shape.batch * shape.tokens
    rates = {name: tokens * max(run.timed / run.seconds for run in pair) for name, pair in runs.items()}
    tflops = {name: rate * shape.step_flops / tokens / 1e12 for name, rate in rates.items()}
    name = devices.name_of(device)
    metrics: dict[str, Value] = {
        "precisions": tuple(runs),
        "loss_ratio": tuple(_ratio(pair[0].losses) for pair in runs.values()),
        "nonfinite_losses": tuple(
            sum(not math.isfinite(loss) for run in pair for loss in run.losses) for pair in runs.values()
        ),
        "unequal_losses": tuple(_unequal(*pair) for pair in runs.values()),
        "tokens_per_s": tuple(rates.values()),
        "above_peak": sum(rate > limit_tflops(name) for rate in tflops.values()),
        "steps": steps,
    }
    if peak := peak_of(name):
        metrics["mfu"] = tuple(rate / peak.half_tflops for rate in tflops.values())
    return Measurement(
        metrics, "\n".join([f"{name} ({device}), {shape.text}", *_account(runs, rates, tflops)])
    )


def precisions(device: str) -> tuple[Precision, ...]:
    """float32 and bfloat16. GPUs before Ampere have no bfloat16, and CPUs emulate what they lack."""
    return (FP32, BF16) if not is_cuda(device) or BF16 in devices.precisions(device) else (FP32,)


class Descent:
    """Steps down the gradients of some weights, each as large as LEARNING_RATE of the weight's spectral norm at the start."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        import torch

        ones = [torch.ones(weight.shape[1], device=weight.device) for weight in weights]
        with torch.no_grad():
            self._sizes = [
                largest(weight, seed, FIRST_ITERATIONS)[0] for weight, seed in zip(weights, ones, strict=True)
            ]
        self._directions, self._iterations = ones, FIRST_ITERATIONS

    def step(self, weights: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Change the weights."""
        import torch

        with torch.no_grad():
            for index, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
                size, self._directions[index] = largest(gradient, self._directions[index], self._iterations)
                weight.sub_(gradient * (LEARNING_RATE * self._sizes[index] / size.clamp_min(SMALLEST)))
        self._iterations = ITERATIONS


def largest(matrix: Tensor, direction: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """The largest singular value of a matrix, from below, and its direction, by power iteration from another direction."""
    import torch

    for _ in range(iterations):
        turned = torch.mv(matrix.t(), torch.mv(matrix, direction))
        direction = (turned + SMALLEST * direction) / (turned.norm() + SMALLEST)  # a matrix of zeros keeps it
    return torch.mv(matrix, direction).norm(), direction


def train(
    start: Sequence[Tensor], batch: tuple[Tensor, Tensor], shape: Shape, steps: int, precision: Precision
) -> TrainingRun:
    """Trains from the same weights on the same batch, and times all steps except the first ones."""
    weights = [weight.clone().requires_grad_() for weight in start]
    device, losses, begun = str(batch[0].device), [], 0.0
    descent = Descent(weights)
    with multiplying(precision, device):
        for index in range(steps):
            if index == UNTIMED_STEPS:
                wait(device)
                begun = time.perf_counter()
            losses.append(one_step(weights, batch, shape, device, precision, descent))
        wait(device)
    seconds = time.perf_counter() - begun
    return TrainingRun(tuple(float(loss) for loss in losses), seconds, steps - UNTIMED_STEPS)


def one_step(
    weights: Sequence[Tensor],
    batch: tuple[Tensor, Tensor],
    shape: Shape,
    device: str,
    precision: Precision,
    descent: Descent,
) -> Tensor:
    """Forward, backward and one step of descent. Returns the loss before the step."""
    import torch

    with _autocast(device, precision):
        outputs = block(batch[0], weights, shape)
    loss = ((outputs.float() - batch[1]) ** 2).mean()
    descent.step(weights, torch.autograd.grad(loss, weights))
    return loss.detach()


def block(inputs: Tensor, weights: Sequence[Tensor], shape: Shape) -> Tensor:
    """A transformer block: attention over all tokens, then the feed-forward layer, each added to its input."""
    import torch

    joined, mixed, widened, narrowed = weights
    projections = torch.matmul(_normal(inputs), joined).view(shape.batch, shape.tokens, 3, shape.heads, -1)
    query, key, value = projections.permute(2, 0, 3, 1, 4)
    scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
    attention = torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2).reshape(inputs.shape)
    attended = inputs + torch.matmul(attention, mixed)
    hidden = torch.nn.functional.gelu(torch.matmul(_normal(attended), widened))
    return attended + torch.matmul(hidden, narrowed)


def make_weights(shape: Shape, device: str) -> list[Tensor]:
    """Weights that depend on the shape alone."""
    import torch

    source, width = torch.Generator().manual_seed(1), shape.width
    sizes = ((width, 3 * width), (width, width), (width, FEED_FORWARD * width), (FEED_FORWARD * width, width))
    return [(torch.randn(size, generator=source) / math.sqrt(size[0])).to(device) for size in sizes]


def make_batch(shape: Shape, device: str) -> tuple[Tensor, Tensor]:
    """The inputs, and the outputs that the block has to learn."""
    import torch

    source = torch.Generator().manual_seed(2)
    inputs = torch.randn((shape.batch, shape.tokens, shape.width), generator=source).to(device)
    return inputs, inputs.roll(1, -1)


def _normal(tensor: Tensor) -> Tensor:
    import torch

    return torch.nn.functional.layer_norm(tensor, tensor.shape[-1:])


def _autocast(device: str, precision: Precision) -> AbstractContextManager[object]:
    import torch

    if precision == FP32:
        return nullcontext()
    return torch.autocast(device.partition(":")[0], dtype=precision.torch_dtype)


def _ratio(losses: Sequence[float]) -> float | None:
    finite = math.isfinite(losses[0]) and math.isfinite(losses[-1]) and losses[0] > 0
    return losses[-1] / losses[0] if finite else None


def _unequal(first: TrainingRun, other: TrainingRun) -> int:
    """How many losses differ. NaN differs from NaN."""
    return sum(a != b for a, b in zip(first.losses, other.losses, strict=True))


def _account(
    runs: Mapping[str, Sequence[TrainingRun]], rates: Mapping[str, float], tflops: Mapping[str, float]
) -> list[str]:
    lines = []
    for name, pair in runs.items():
        losses = " | ".join(", ".join(f"{loss:.9g}" for loss in run.losses[:20]) for run in pair)
        lines.append(
            f"{name}: {rates[name]:.0f} tokens/s, {tflops[name]:.4g} TFLOP/s; losses of both runs: {losses}"
        )
    return lines
