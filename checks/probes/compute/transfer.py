"""compute.transfer: whether data that is sent between the host and a GPU, and between the GPUs of a node, arrives, and how fast."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks.check import Basis, CheckError, Context, Measurement
from checks.facts.instances import Instance
from checks.model import MachinePart
from checks.model_details import Contents
from checks.probes.compute import bit_patterns
from checks.probes.compute import device as devices
from checks.probes.compute.device import is_cuda, torch_check, wait

if TYPE_CHECKING:
    from torch import Tensor

MIB = 1 << 20
BUFFER_MIB = 64
NVSWITCH_LINKS = 12
HOST = ("host to GPU", "GPU to host")
LEAST_PEERS = 4  # the min_peers of the policies: on a node with fewer GPUs too few ranks reach each of them for a comparison
SECONDS, LEAST_REPEATS = 0.1, 3


@dataclass
class TransferResult:
    """The results of one direction: the best rate in 10^9 bytes/s, and the number of words that arrived wrong."""

    gbps: float = 0.0
    wrong: int = 0
    repeats: int = 0


def holds(basis: Basis) -> tuple[Contents, ...]:
    """Both ways to the host, and each GPU; of `gpus` as many as `between_gpus` compares."""
    count = max(1, basis.declared.gpus_per_node)
    links = (*HOST, *(f"to GPU {index}" for index in range(count)))
    few = joined_in_part(basis.instance) or count <= LEAST_PEERS
    compared = Contents("gpus", 1 if few else count - 1, along=("p2p_gbps",))
    return Contents("links", labels=links), compared, Contents("peer_access", count)


@torch_check(
    "compute.transfer",
    ("wrong_words", "h2d_gbps", "d2h_gbps", "links", "p2p_gbps", "gpus"),
    timeout_s=180,
    part=MachinePart.GPU,
    holds=holds,
)
def transfer(context: Context) -> Measurement:
    """Sends words from pinned memory to the rank's GPU, back, and on to every GPU of the node; all are compared.

    Rates in 10^9 bytes/s, the best of single copies: all ranks send at once, and two may meet on one link.
    `p2p_gbps` is the rank's row of the node's matrix, one for each of `gpus`, the others (alone on its node: its own
    copy, since a copy within a GPU is no peer of one between two); where they are joined in part (V100) or few, the
    slowest of those reached directly and of the rest. `peer_access`, for each GPU, is 1 where the driver lets the two talk
    directly, 0 where it goes through the host. `wrong_words` counts 32-bit words for each of `links`. Raises CheckError
    if torch sees fewer GPUs than are declared.
    """
    own, options = devices.place_of(context, "compute.transfer"), context.options
    if not is_cuda(own.device):
        raise CheckError(f"the rank's device is {own.device}, so there is no GPU to send data to")
    others = visible(context.declared.gpus_per_node)
    size = int(options.get("buffer_mib", BUFFER_MIB)) * MIB
    with devices.released(own.device):
        return measure(
            own.device, others, size, options.get("seconds", SECONDS), joined_in_part(context.instance)
        )


def visible(declared: int) -> tuple[str, ...]:
    """The node's GPUs, as torch names them. Raises CheckError if there are fewer than declared."""
    import torch

    count = torch.cuda.device_count()
    if count < declared:
        raise CheckError(
            f"torch sees {count} of {declared} GPUs: {declared - count} cannot be reached (see gpu.inventory)"
        )
    return tuple(f"cuda:{index}" for index in range(declared))


def joined_in_part(instance: Instance | None) -> bool:
    """Whether some pairs have one or two NVLinks and others none: this is so before NVSwitch, which came with the A100 and its 12
    links.
    """
    return instance is not None and 0 < (instance.nvlinks or 0) < NVSWITCH_LINKS


def measure(
    device: str, targets: Sequence[str], buffer_bytes: int, seconds: float, in_part: bool = False
) -> Measurement:
    """The measurement from a torch device to others, in about `seconds` per direction."""
    count = buffer_bytes // bit_patterns.WORD_BYTES
    host = pinned(bit_patterns.make(count, 0, "cpu"), device)
    down = _send(host, _empty(count, device), seconds, device)
    own_words = bit_patterns.make(count, 1, device)
    up = _send(own_words, pinned(_empty(count, "cpu"), device), seconds, device, seed=1)
    reached = {}
    for at in _in_turn(targets, device):
        pattern, target = bit_patterns.make(count, 2, device), targets[at]
        reached[at] = _send(pattern, _empty(count, target), seconds, device, target, seed=2)
    links = [reached[at] for at in range(len(targets))]
    access = [reachable(device, target) for target in targets]
    names = tuple(f"GPU {index}" for index in range(len(targets)))
    ways = ("", "", *(", directly" if direct else ", through the host" for direct in access))
    own = targets.index(device) if device in targets else -1
    rates = between_gpus([link.gbps for link in links], access, own, in_part)
    return Measurement(
        {
            "wrong_words": (down.wrong, up.wrong, *(link.wrong for link in links)),
            "h2d_gbps": down.gbps,
            "d2h_gbps": up.gbps,
            "links": (*HOST, *(f"to {name}" for name in names)),
            "p2p_gbps": tuple(rates.values()),
            "gpus": tuple(rates),
            "peer_access": tuple(access),
        },
        "\n".join(
            [f"{devices.name_of(device)} ({device}), best of copies of {buffer_bytes} bytes"]
            + [
                f"{name}: {link.gbps:.2f} GB/s, {link.repeats} copies, {link.wrong} wrong words{path}"
                for name, link, path in zip(
                    (*HOST, *(f"to {name}" for name in names)), (down, up, *links), ways, strict=True
                )
            ]
        ),
    )


def _in_turn(targets: Sequence[str], device: str) -> list[int]:
    """The other GPUs, starting after the device's own: all ranks send at the same time, and so each sends to another one."""
    own = targets.index(device) if device in targets else 0
    return [*range(own, len(targets)), *range(own)]


def between_gpus(gbps: Sequence[float], access: Sequence[int], own: int, in_part: bool) -> dict[str, float]:
    """The rates that can be compared with those of other ranks, by their names."""
    others = [index for index in range(len(gbps)) if index != own]
    if not others or not (in_part or len(others) < LEAST_PEERS):
        return {f"GPU {index}": gbps[index] for index in others or [own]}
    slowest: dict[str, float] = {}
    for index in others:
        path = f"the slowest GPU reached {'directly' if access[index] else 'through the host'}"
        slowest[path] = min(gbps[index], slowest.get(path, gbps[index]))
    return slowest


def pinned(tensor: Tensor, device: str) -> Tensor:
    """The tensor in memory that the GPU can read by itself; unchanged if the device is not a GPU."""
    return tensor.pin_memory() if is_cuda(device) else tensor


def reachable(device: str, target: str) -> int:
    """1 if the one device may read the memory of the other directly, else 0."""
    if device == target or not is_cuda(device):
        return 1
    import torch

    return int(torch.cuda.can_device_access_peer(device, target))


def _send(
    source: Tensor, target: Tensor, seconds: float, device: str, other: str | None = None, seed: int = 0
) -> TransferResult:
    """Copies with all bits flipped between two copies; each is compared completely where it arrives: on a device with the formula."""
    link, flipped = TransferResult(), False
    target.copy_(source)  # the first copy sets up the path
    end = time.monotonic() + seconds
    while link.repeats < LEAST_REPEATS or time.monotonic() < end:
        source.bitwise_not_()
        flipped = not flipped
        spent = _timed(source, target, device, other or device)
        link.gbps = max(link.gbps, source.nbytes / spent / 1e9)
        link.wrong += bit_patterns.wrong(target, seed, flipped)
        link.repeats += 1
    return link


def _timed(source: Tensor, target: Tensor, device: str, other: str) -> float:
    wait(device)
    wait(other)
    begun = time.perf_counter()
    target.copy_(source, non_blocking=True)
    wait(device)
    wait(other)
    return time.perf_counter() - begun


def _empty(count: int, device: str) -> Tensor:
    import torch

    return torch.zeros(count, dtype=torch.int32, device=device)
