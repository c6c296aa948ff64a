"""A FAKE torch.distributed: collectives take the published time and are exact but for planted faults; small tensors' numbers and
the messages between two ranks really travel, over the store of tests/worlds/library/torch/distributed/_store.py.
"""

from __future__ import annotations

import itertools
import math
import os
import socket
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from .._device import CLOCK, WORLD
from .._tensors import Tensor
from ._store import Store

ANSWER_S = 300.0
FACTORS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "alltoall": 1.0}


class Group:
    """The ranks of a communicator. Collectives of a group have the same order on all of them."""

    def __init__(self, members: tuple[int, ...], name: str) -> None:
        self.members, self.name, self.turns, self.logged = members, name, itertools.count(), False

    @property
    def span(self) -> str:
        """What lies between its members: "node", "rails" (one rank a node) or "all"."""
        per_node = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = {rank // per_node for rank in self.members}
        return "node" if len(nodes) == 1 else "rails" if len(nodes) == len(self.members) else "all"


class _State:
    store: Store
    world: Group
    backend = ""
    groups = itertools.count(1)
    lag = 0.0

    def __init__(self) -> None:
        self.sent: dict[tuple[int, int, int], int] = {}


_state = _State()
ReduceOp = SimpleNamespace(MAX="max", SUM="sum")
distributed_c10d = SimpleNamespace(
    _get_default_store=lambda: _state.store, _set_pg_timeout=lambda timeout: None
)


def init_process_group(backend: str, timeout: Any = None) -> None:
    """From torchrun's environment."""
    _state.store = Store(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    _state.world = Group(tuple(range(int(os.environ["WORLD_SIZE"]))), "world")
    _state.backend = backend


def is_initialized() -> bool:
    """Whether there is a group."""
    return bool(_state.backend)


def get_backend() -> str:
    """nccl or gloo."""
    return _state.backend


def get_world_size() -> int:
    """All ranks."""
    return len(_state.world.members)


def get_rank() -> int:
    """This one."""
    return int(os.environ["RANK"])


def destroy_process_group() -> None:
    """There is none any more."""
    _state.backend = ""


def new_group(ranks: Sequence[int], timeout: Any = None, use_local_synchronization: bool = False) -> Group:
    """Of these ranks."""
    return Group(tuple(ranks), f"{','.join(map(str, ranks))}/{next(_state.groups)}")


def _collective(kind: str, size_bytes: int, result: Tensor, group: Group | None) -> None:
    group = group or _state.world
    _log(group)
    _meet(group)
    ranks = len(group.members)
    where = "cuda" if result.is_cuda else "cpu"
    factor = 1.0 if kind == "sendrecv" else FACTORS[kind] * (ranks - 1) / ranks
    busbw = _busbw(kind, size_bytes, group) * WORLD.fault(f"{group.span}_share", result.device, 1.0)
    CLOCK.carry({"cuda": 2e-5, "cpu": 1e-4}[where] + size_bytes * factor / busbw / 1e9)
    _count(size_bytes, group)
    if not result.is_cuda:
        CLOCK.wait()
    if result.numel() > 1:
        result.wrong = min(result.numel(), result.wrong + WORLD.fault(f"{kind}_wrong", result.device, 0))


def _count(size_bytes: int, group: Group) -> None:
    """What the ports of InfiniBand count, in units of four bytes; the first rank of a node keeps the numbers of all."""
    if group.span == "node" or os.environ["LOCAL_RANK"] != "0":
        return
    for name in WORLD["ports"]:
        with open(name, encoding="ascii") as file:
            before = int(file.read())
        with open(name, "w", encoding="ascii") as file:
            file.write(f"{before + size_bytes // 4 + 1}\n")


def _meet(group: Group) -> None:
    """Nobody leaves a collective before all have come: a line of the store for each."""
    turn = next(group.turns)
    keys = [f"meet/{group.name}/{turn}/{rank}" for rank in group.members]
    if WORLD["meet"]:
        _state.store.set(f"meet/{group.name}/{turn}/{get_rank()}", "")
        _state.store.multi_get(keys)


def _busbw(kind: str, size_bytes: int, group: Group) -> float:
    """10^9 bytes/s, between the known sizes by their logarithms."""
    table = WORLD["busbw"][group.span]
    points = table.get(kind) or table["all_reduce"]
    below = [point for point in points if point[0] <= size_bytes] or [[1, points[0][1] / points[0][0]]]
    above = [point for point in points if point[0] >= size_bytes] or [points[-1]]
    (x0, y0), (x1, y1) = below[-1], above[0]
    if x0 == x1 or size_bytes >= x1:
        return float(y1)
    share = math.log(size_bytes / x0) / math.log(x1 / x0)
    return float(y0 * (y1 / y0) ** share)


class _Work:
    def wait(self, timeout: Any = None) -> None:
        CLOCK.products = max(CLOCK.products, CLOCK.link)


def all_reduce(tensor: Tensor, group: Group | None = None, async_op: bool = False) -> _Work | None:
    """A sum."""
    if async_op and tensor.is_cuda:
        kept = CLOCK.products
        _collective("all_reduce", tensor.nbytes, tensor, group)
        CLOCK.products = kept
        return _Work()
    _collective("all_reduce", tensor.nbytes, tensor, group)
    _Work().wait()
    return _Work() if async_op else None


def all_gather_into_tensor(result: Tensor, own: Tensor, group: Group | None = None) -> None:
    """From all."""
    result.wrong = own.wrong
    _collective("all_gather", result.nbytes, result, group)


def all_gather(parts: Sequence[Tensor], own: Tensor, group: Group | None = None) -> None:
    """From all, into parts of one tensor."""
    whole = Tensor((sum(part.numel() for part in parts),), own.dtype, own.device, wrong=own.wrong)
    _collective("all_gather", whole.nbytes, whole, group)
    parts[0].base.wrong = whole.wrong


def reduce_scatter_tensor(result: Tensor, own: Tensor, group: Group | None = None) -> None:
    """A part of the sum."""
    result.wrong = own.wrong
    _collective("reduce_scatter", own.nbytes, result, group)


def all_to_all_single(result: Tensor, own: Tensor, group: Group | None = None) -> None:
    """A part to each."""
    result.wrong = own.wrong
    _collective("alltoall", own.nbytes, result, group)


def reduce(tensor: Tensor, dst: int, op: str, group: Group | None = None) -> None:
    """The greatest of each number, on rank `dst`."""
    group = group or _state.world
    turn = next(group.turns)
    _state.store.ask("set", f"reduce/{group.name}/{turn}/{get_rank()}", tensor.data)
    if get_rank() == dst:
        rows = _state.store.ask(
            "get_all", [f"reduce/{group.name}/{turn}/{rank}" for rank in group.members], ANSWER_S
        )
        tensor.data = [max(column) for column in zip(*rows, strict=True)]


def broadcast(tensor: Tensor, src: int, group: Group | None = None) -> None:
    """The numbers of rank `src`, on all."""
    group = group or _state.world
    key = f"broadcast/{group.name}/{next(group.turns)}"
    if get_rank() == src:
        _state.store.ask("set", key, tensor.data)
    else:
        [tensor.data] = _state.store.ask("get_all", [key], ANSWER_S)


class P2POp:
    """One side of a message."""

    def __init__(self, op: Any, tensor: Tensor, peer: int, group: Group | None = None, tag: int = 0) -> None:
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag


def isend() -> None:
    """A name for P2POp alone."""


def irecv() -> None:
    """A name for P2POp alone."""


def batch_isend_irecv(operations: Sequence[P2POp]) -> list[Any]:
    """All at once; the time is the longest's."""
    first = operations[0].tensor
    if len(operations) == 2 and operations[0].op is isend and operations[0].tag == 0:
        operations[1].tensor.wrong = operations[0].tensor.wrong
        _collective("sendrecv", first.nbytes, operations[1].tensor, operations[0].group)
        return []
    for operation in operations:
        if operation.op is isend:
            _give(operation)
    return [_Arrival(operation) for operation in operations if operation.op is irecv]


def _seconds(operation: P2POp) -> float:
    """A message's time on the way between the two, as this side has it."""
    per_node, me = int(os.environ["LOCAL_WORLD_SIZE"]), get_rank()
    inside = me // per_node == operation.peer // per_node
    span = "node" if inside else "rails"
    rate = WORLD["pairs"][span] * WORLD.fault(f"{span}_share", operation.tensor.device, 1.0)
    return float(WORLD["pairs"][f"{span}_latency_s"] + operation.tensor.nbytes / rate / 1e9)


def _key(source: int, target: int, tag: int) -> str:
    turn = _state.sent.get((source, target, tag), 0)
    _state.sent[source, target, tag] = turn + 1
    return f"message/{source}/{target}/{tag}/{turn}"


def _give(operation: P2POp) -> None:
    tensor = operation.tensor
    data = tensor.data if tensor.data is not None else None
    seconds = max(_seconds(operation), _state.lag)
    _state.lag = 0.0
    _state.store.ask("set", _key(get_rank(), operation.peer, operation.tag), (data, tensor.wrong, seconds))


class _Arrival:
    def __init__(self, operation: P2POp) -> None:
        self._operation = operation

    def wait(self, timeout: Any = None) -> None:
        operation = self._operation
        key = _key(operation.peer, get_rank(), operation.tag)
        [(data, wrong, seconds)] = _state.store.ask("get_all", [key], ANSWER_S, True)
        seconds = max(seconds, _seconds(operation))
        operation.tensor.data, operation.tensor.wrong = data, wrong
        if operation.tensor.numel() > 1000:
            bad = WORLD.fault("message_wrong", operation.tensor.device, 0)
            operation.tensor.wrong = min(operation.tensor.numel(), wrong + bad)
            _state.lag = seconds  # who sent it learns of it with the answer
        CLOCK.now += seconds


def _log(group: Group) -> None:
    """What NCCL writes when a communicator comes up: the forms of checks/probes/collectives/nccl_log.py's recordings."""
    if group.logged or _state.backend != "nccl":
        return
    group.logged = True
    named, told = os.environ.get("NCCL_DEBUG_FILE", ""), WORLD["nccl"]
    if not named:
        return
    host = socket.gethostname().partition(".")[0]
    me, per_node = get_rank(), int(os.environ["LOCAL_WORLD_SIZE"])
    at, ranks = group.members.index(me), len(group.members)
    head = f"{host}:{os.getpid()}:{threading.get_native_id()} [{me % per_node}] NCCL INFO "
    comm = f"comm 0x{0x55000000 + id(group) % 0xFFFFFF:x} rank {at} nRanks {ranks} nNodes"
    comm = f"ncclCommInitRankConfig comm 0x{id(group) & 0xFFFFFFFFF:x} rank {at} nranks {ranks} cudaDev {me % per_node}"
    lines = [f"NCCL version {told['version']}+cuda12.8", *told["network"], f"{comm} - Init START"]
    for step, end in ((1, "send"), (-1, "receive")):
        other = group.members[(at + step) % ranks]
        inside = me // per_node == other // per_node
        way = told["inside" if inside else "outside"]
        ends = (at, (at + step) % ranks) if step > 0 else ((at + step) % ranks, at)
        mark = f" [{end}]" if not inside else ""
        if inside and step < 0:
            continue
        lines.append(
            f"Channel 00/0 : {ends[0]}[{me % per_node}] -> {ends[1]}[{other % per_node}]{mark} via {way}"
        )
    lines.append(f"{comm} - Init COMPLETE")
    path = named.replace("%h", host).replace("%p", str(os.getpid()))
    with open(path, "a", encoding="ascii") as file:
        file.writelines(f"{head}{line}\n" for line in lines)
