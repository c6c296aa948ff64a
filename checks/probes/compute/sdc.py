"""compute.sdc: whether the device computes wrong results without an error (silent data corruption).

The answer of each product is known (checks.probes.compute.known_products), so that a fault which gives the same wrong answer every
time is found, too; comparing a device with itself would miss it. Results are also compared and hashed on the host, because a device
that multiplies wrongly may compare wrongly. The answers are integers, so the digest is the same on every GPU model and library.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from checks.check import Basis, Context, Measurement, check
from checks.model import Scope
from checks.model_details import Contents
from checks.probes.compute import device as devices
from checks.probes.compute.device import Precision, is_cuda, multiplying
from checks.probes.compute.known_products import KnownProduct, all_known, names

if TYPE_CHECKING:
    from torch import Tensor

SIZES = {"cpu": 256, "cuda": 4096}
# The number of products for each one that is fetched and hashed, so that the device works more than it waits.
BURST = {"cpu": 1, "cuda": 16}
SECONDS, SEEDS, LEAST_REPEATS = 0.2, 1, 2


@dataclass
class ProblemResult:
    """The results of the repeats of one problem; `digest` is that of the bytes of the first one."""

    wrong: int = 0
    unsteady: int = 0
    repeats: int = 0
    products: int = 0
    digest: str = ""
    places: list[str] = field(default_factory=list)


def holds(basis: Basis) -> tuple[Contents, ...]:
    """Every problem in every precision, each repeated."""
    known = names(int(basis.options.get("seeds", SEEDS)))
    problems = tuple(f"{precision} {name}" for name in known for precision in devices.expected(basis))
    counts = (Contents(name, LEAST_REPEATS * len(problems)) for name in ("repeats", "products"))
    return Contents("problems", labels=problems), *counts


@check(
    "compute.sdc",
    Scope.RANK,
    timeout_s=600,
    metrics=("wrong_elements", "problems", "unsteady_repeats", "digest", "repeats", "products"),
    needs="torch",
    cost="seconds",
    holds=holds,
)
def sdc(context: Context) -> Measurement:
    """Repeats products with known answers, in several bit patterns and precisions; one digest over all of them.

    `wrong_elements` counts for each of `problems` over all products; `unsteady_repeats` are those whose bytes differ
    from the first repeat's. `digest` is the SHA-256 over the first repeat's bytes of all problems, in their order:
    equal on every device that is sound, and in every run of a profile.
    """
    device, options = devices.place_of(context, "compute.sdc").device, context.options
    size = SIZES["cuda" if is_cuda(device) else "cpu"]
    with devices.released(device):
        return measure(device, size, options.get("seconds", SECONDS), int(options.get("seeds", SEEDS)))


def measure(device: str, size: int, seconds: float, seeds: int) -> Measurement:
    """The measurement on a torch device, in about `seconds`, with at least LEAST_REPEATS of each problem."""
    tried = devices.precisions(device)
    shown: dict[str, ProblemResult] = {}
    share_s = seconds / len(tried) / len(names(seeds))
    for known in all_known(size, seeds):
        for precision in tried:
            shown[f"{precision.name} {known.name}"] = run(known, precision, device, share_s)
    whole = hashlib.sha256("\n".join(f"{name} {one.digest}" for name, one in shown.items()).encode())
    return Measurement(
        {
            "wrong_elements": tuple(one.wrong for one in shown.values()),
            "problems": tuple(shown),
            "unsteady_repeats": sum(one.unsteady for one in shown.values()),
            "digest": whole.hexdigest(),
            "repeats": sum(one.repeats for one in shown.values()),
            "products": sum(one.products for one in shown.values()),
        },
        "\n".join(
            [f"{devices.name_of(device)} ({device}), order {size}: problem, SHA-256 of the first answer"]
            + [_account(name, one) for name, one in shown.items()]
        ),
    )


def run(known: KnownProduct, precision: Precision, device: str, seconds: float) -> ProblemResult:
    """Products of one problem until the time is over: all are compared on the device, and the last one of each burst on the host."""
    shown, expected = ProblemResult(), known.expected().to(precision.torch_dtype)
    left, right = known.operands(precision, device)
    answer, burst = expected.to(device), BURST["cuda" if is_cuda(device) else "cpu"]
    end = time.monotonic() + seconds
    with multiplying(precision, device):
        while shown.repeats < LEAST_REPEATS or time.monotonic() < end:
            last = _burst(shown, left, right, answer, burst)
            _look(shown, last.cpu(), expected)
            shown.repeats += 1
            shown.products += burst
    return shown


def _burst(shown: ProblemResult, left: Tensor, right: Tensor, answer: Tensor, count: int) -> Tensor:
    """The last of `count` products; the others are compared on the device."""
    import torch

    wrong = torch.zeros((), dtype=torch.int64, device=left.device)
    result = torch.matmul(left, right)
    for _ in range(count - 1):
        wrong += (result != answer).sum()
        result = torch.matmul(left, right)
    shown.wrong += int(wrong)
    return result


def _look(shown: ProblemResult, result: Tensor, expected: Tensor) -> None:
    """Compares and hashes on the host. NaN is wrong, and so is every element of another shape."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        shown.wrong += expected.numel()
        shown.places.append(f"the product is {tuple(result.shape)} of {result.dtype}")
    else:
        odd = (result != expected).nonzero()
        shown.wrong += len(odd)
        for row, column in odd[: max(0, 3 - len(shown.places))].tolist():
            said, due = float(result[row, column]), float(expected[row, column])
            shown.places.append(f"[{row},{column}] is {said:.9g}, but it must be {due:.9g}")
    digest = digest_of(result)
    shown.digest = shown.digest or digest
    shown.unsteady += digest != shown.digest


def digest_of(result: Tensor) -> str:
    """SHA-256 of the bytes, in hex, after adding 0, so that -0 is 0."""
    return devices.digest_of(result + 0)


def _account(name: str, one: ProblemResult) -> str:
    wrong = f", {one.wrong} wrong elements: {'; '.join(one.places)}" if one.wrong else ""
    unsteady = f", {one.unsteady} repeats differ from the first" if one.unsteady else ""
    return f"{name}: {one.digest[:16]}, {one.repeats} repeats, {one.products} products{unsteady}{wrong}"
