"""training.smoke and training.ddp: whether a tiny model learns on this machine, alone and across all ranks.

A small network learns to repeat a fixed one from noise-free examples, so that its loss must fall. The optimiser is plain gradient
descent, written out, so that the reference takes the same steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checks.check import Basis, CheckError, Context, Measurement, RankPlace
from checks.model_details import Contents
from checks.probes.compute.device import digest_of, joint_check, torch_check

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

LEARNING_RATE = 0.1
INPUTS, HIDDEN, OUTPUTS = 16, 32, 4
BATCH = 32
WEIGHTS_SEED, TEACHER_SEED, DATA_SEED = 1, 2, 1000
STEPS = 30
METRICS = ("loss_first", "loss_last", "loss_ratio", "steps")


def holds(basis: Basis) -> tuple[Contents, ...]:
    """All steps."""
    return (Contents("steps", max(1, int(basis.options.get("steps", STEPS)))),)


@torch_check("training.smoke", METRICS, timeout_s=60, holds=holds)
def smoke(context: Context) -> Measurement:
    """Trains a tiny model in one process; `loss_ratio` is last loss over first, 1 if nothing was learnt.

    Both losses are of the same held-out examples. NaN is returned as it is.
    """
    device = context.rank_place.device if context.rank_place else "cpu"
    steps, batch = int(context.options.get("steps", STEPS)), int(context.options.get("batch", BATCH))
    model, test = make_model(device), examples(0, device)
    first = _loss(model, test)
    for step in range(steps):
        model.zero_grad()
        learn(model, examples(1 + step, device, batch))
        descend(model)
    last = _loss(model, test)
    return Measurement(
        {"loss_first": first, "loss_last": last, "loss_ratio": _ratio(last, first), "steps": steps},
        f"{device}: loss {first:.6g} -> {last:.6g} in {steps} steps",
    )


@joint_check(
    "training.ddp",
    (*METRICS, "gradient_error", "gradient_error_last", "weights_digest"),
    timeout_s=60,
    holds=holds,
)
def ddp(context: Context) -> Measurement:
    """Trains a tiny model with DistributedDataParallel, every rank on examples of its own.

    `gradient_error` is the distance between the averaged gradient of the first step and the one that a single
    process gets from all ranks' examples, relative to it: it is this rank's own. `gradient_error_last` is
    that of the last step, where one rank's fault has reached all. `weights_digest` is the SHA-256 of the
    final weights, equal on all ranks. NaN is returned as it is.
    """
    import torch.distributed as dist

    if context.rank_place is None or not dist.is_initialized():
        raise CheckError("there is no process group. Run this check under torchrun.")
    steps, batch = max(1, int(context.options.get("steps", STEPS))), int(context.options.get("batch", BATCH))
    device, ranks = context.rank_place.device, context.rank_place.world_size
    model, test = make_model(device), examples(0, device)
    first = _loss(model, test)
    errors = _train_together(model, steps, batch, context.rank_place)
    last = _loss(model, test)
    return Measurement(
        {
            "loss_first": first,
            "loss_last": last,
            "loss_ratio": _ratio(last, first),
            "steps": steps,
            "gradient_error": errors[0],
            "gradient_error_last": errors[-1],
            "weights_digest": digest(model),
        },
        f"{ranks} ranks on {device}: loss {first:.6g} -> {last:.6g}, gradient errors {errors}",
    )


def _train_together(model: nn.Sequential, steps: int, batch: int, own: RankPlace) -> list[float]:
    """Trains the model. Returns the errors of the gradient in the first and the last step."""
    parallel, errors = wrap(model, own.device, own.world_size), []
    for step in range(steps):
        compared = step in (0, steps - 1)
        reference = _reference(model, step, batch, own.world_size, own.device) if compared else None
        parallel.zero_grad()
        learn(parallel, examples(_seed(step, own.rank, own.world_size), own.device, batch))
        if reference is not None:
            errors.append(_distance(_gradient(model), reference))
        descend(model)
    return errors


def make_model(device: str, seed: int = WEIGHTS_SEED) -> nn.Sequential:
    """The network, with weights that depend on the seed alone."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, OUTPUTS))
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.randn(weights.shape, generator=source) / INPUTS**0.5)
    return model.to(device)


def examples(seed: int, device: str, batch: int = BATCH) -> tuple[Tensor, Tensor]:
    """A batch of inputs (batch x INPUTS) and the outputs of the fixed network for them; another one for every seed."""
    import torch

    source = torch.Generator().manual_seed(DATA_SEED + seed)
    inputs = torch.randn((batch, INPUTS), generator=source).to(device)
    with torch.no_grad():
        return inputs, make_model(device, TEACHER_SEED)(inputs)


def wrap(model: nn.Sequential, device: str, ranks: int) -> nn.Module:
    """The model in DistributedDataParallel, whose buckets are averaged with torch.distributed.all_reduce."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    parallel = DistributedDataParallel(model, device_ids=[torch.device(device)] if device != "cpu" else None)
    # The hook is a lambda because torch compares a hook's annotations as objects, and here they are text.
    parallel.register_comm_hook(ranks, lambda ranks, bucket: _average(ranks, bucket.buffer()))
    return parallel


def learn(model: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    """Adds the batch's gradient to that of the model."""
    _error(model, batch).backward()  # type: ignore[no-untyped-call]


def descend(model: nn.Module) -> None:
    """One step of gradient descent."""
    import torch

    with torch.no_grad():
        for weights in model.parameters():
            if weights.grad is not None:
                # Two roundings and not a fused one, so that CPUs with and without FMA get equal bits.
                weights.sub_(weights.grad * LEARNING_RATE)


def digest(model: nn.Module) -> str:
    """The SHA-256 over all weights, in hex: equal for weights that are equal in every bit."""
    return digest_of(*model.parameters())


def _average(ranks: int, buffer: Tensor) -> torch.futures.Future[Tensor]:
    # A hook, so that the gradients are averaged as in user code, by torch.distributed.all_reduce.
    import torch
    import torch.distributed as dist

    dist.all_reduce(buffer.div_(ranks))
    future: torch.futures.Future[Tensor] = torch.futures.Future(
        devices=[buffer.device] if buffer.is_cuda else None
    )
    future.set_result(buffer)
    return future


def _reference(model: nn.Module, step: int, batch: int, ranks: int, device: str) -> Tensor:
    """The gradient that a single process gets from the examples of all ranks in a step."""
    model.zero_grad()
    for rank in range(ranks):
        learn(model, examples(_seed(step, rank, ranks), device, batch))
    return _gradient(model) / ranks


def _seed(step: int, rank: int, ranks: int) -> int:
    return 1 + step * ranks + rank


def _gradient(model: nn.Module) -> Tensor:
    import torch

    return torch.cat([weights.grad.flatten() for weights in model.parameters() if weights.grad is not None])


def _error(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    error: Tensor = ((model(batch[0]) - batch[1]) ** 2).mean()
    return error


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> float:
    import torch

    with torch.no_grad():
        return float(_error(model, batch))


def _distance(averaged: Tensor, reference: Tensor) -> float:
    return float((averaged - reference).norm() / reference.norm())


def _ratio(last: float, first: float) -> float:
    return last / first if first else float("nan")
