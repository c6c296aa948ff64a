"""Small worlds of real ranks (gloo over loopback) that play a tournament, healthy and broken in the middle of it.

As a script this is the keeper of the ranks: it imports torch once, holds the store as torchrun's agent does, and forks
the ranks of one world after the other. It imports nothing of `tests`, a name that installed packages use too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[4]
ENOUGH_S = 60.0
SIDE_BY_SIDE = 4
OPTIONS = {
    "round_s": 2.0, "budget_s": 5.0, "max_bytes": 1 << 20, "pings": 2, "repeats": 1, "repeat_s": 0.0, "confirms": 0,
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """What is played: nodes x ranks of each, what happens to rank `victim` in round 2, and the check's options.

    `harm`: stop, kill, corrupt (the last element of what it sends), mute (rank 3 gets nothing from it), late (it
    sleeps a while, less than the deadline), storeless (it stops the store, and is late in every round), uncertain (it
    stops the store as soon as it knows how many rounds there are; the last rank is late in every round). `fragile`: as
    with NCCL, where an exchange that hangs ends a rank's tournament.
    """

    nodes: int
    ranks_per_node: int
    harm: str = ""
    victim: int = 1
    fragile: bool = False
    options: Mapping[str, float] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True)
class Ended:
    """The rows of the ranks that had one, and the ranks that had none.

    A row has `later` as well, what an all_reduce after the tournament gave, and `lost`, why the group is.
    """

    rows: Mapping[int, Mapping[str, Any]]
    missing: tuple[int, ...]

    def failures(self, rank: int, peer: int) -> list[str]:
        """What one rank says of another, in order."""
        row = self.rows[rank]
        return [why for met, why in zip(row["peers"], row["failures"], strict=True) if met == peer]

    def results(self, rank: int, peer: int) -> list[str]:
        """How one rank's tests with another ended, in order."""
        row = self.rows[rank]
        return [result for met, result in zip(row["peers"], row["results"], strict=True) if met == peer]


def play(worlds: Sequence[World]) -> list[Ended]:
    """Play these worlds, several side by side: most of their time is waiting for a rank that does not answer."""
    from checks.runner.rank_stage import rank_environment

    env = {**os.environ, **rank_environment("lo", os.environ)}
    env |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    argv = (sys.executable, "-W", "ignore", __file__, json.dumps([asdict(world) for world in worlds]))
    done = subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    made = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            made.update(json.loads(line))
    ended = [made[str(number)] for number in range(len(worlds))]
    return [Ended({int(k): row for k, row in one["rows"].items()}, tuple(one["missing"])) for one in ended]


def keeper(worlds: Sequence[World]) -> None:
    """Play each world and print how those of each row of worlds ended."""
    import torch

    __import__("checks.probes.pairs.pairs")  # once for all that are forked
    torch.set_num_threads(1)
    rows = [range(row, len(worlds), SIDE_BY_SIDE) for row in range(SIDE_BY_SIDE)]
    playing = [_fork(partial(_play, worlds, row)) for row in rows]
    for child, told in playing:
        print(json.dumps(_read(told)), flush=True)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _play(worlds: Sequence[World], row: Sequence[int], writer: int) -> None:
    ended = {number: _one(worlds[number]) for number in row}
    with os.fdopen(writer, "w") as file:
        file.write(json.dumps(ended) + "\n")


def _one(world: World) -> dict[str, Any]:
    """The store has a process of its own: whoever is forked beside its threads may find a lock held for ever."""
    readers, children = {}, {}
    store, told = _fork(_store)
    port = _read(told)
    for rank in range(world.ranks):
        children[rank], readers[rank] = _fork(partial(_rank, world, rank, port, store))
    healthy = [r for r in readers if not (world.harm in ("stop", "kill") and r == world.victim)]
    rows = {rank: _read(readers[rank]) for rank in healthy}
    for child in (store, *children.values()):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    kept = {rank: row for rank, row in rows.items() if row is not None}
    return {"rows": kept, "missing": [r for r in readers if r not in kept]}


def _fork(body: Callable[[int], None]) -> tuple[int, int]:
    """A process that runs the body with the writing end of a pipe: its id, and the reading end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        body(writer)
        time.sleep(ENOUGH_S)
        os._exit(0)
    os.close(writer)
    return child, reader


def _store(writer: int) -> None:
    from torch._C._distributed_c10d import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.write(writer, f"{store.port}\n".encode())
    time.sleep(ENOUGH_S)


def _read(reader: int) -> Any:
    with os.fdopen(reader) as file:
        text = file.readline()
    return json.loads(text) if text else None


def _rank(world: World, rank: int, port: int, store: int, writer: int) -> None:
    """One rank's life; it ends when it is killed."""
    try:
        row = _measured(world, rank, port, store)
    except BaseException:  # the test is to see it
        row = {"error": traceback.format_exc()}
    os.write(writer, json.dumps(row).encode() + b"\n")


def _measured(world: World, rank: int, port: int, store_pid: int) -> dict[str, Any]:
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import TCPStore

    from checks.check import Context, Measurement, RankPlace, fault_of
    from checks.model import Declared, Profile
    from checks.probes.pairs import pairs
    from checks.roster import Roster
    from tests.exchanges import access

    store = TCPStore("127.0.0.1", port, world_size=None, is_master=False)
    connection = store.clone()  # type: ignore[attr-defined]  # before the ranks wait for each other, as the product's do
    limit = timedelta(seconds=30)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world.ranks, timeout=limit)
    if world.harm in ("storeless", "uncertain"):
        _break_the_store(world, rank, store_pid)
    elif rank == world.victim and world.harm:
        _arrange(world)
    lost: list[str] = []
    if world.fragile:
        _make_fragile()
    context = Context(
        access=access(),
        catalogue="catalogue",
        declared=Declared("cpu", world.nodes, 0, world.ranks_per_node),
        profile=Profile.QUICK,
        node=f"node-{rank // world.ranks_per_node}",
        node_rank=rank // world.ranks_per_node,
        roster=Roster((), 1, ""),
        scratch=Path("/tmp"),
        timeout_s=20.0,
        options={**OPTIONS, **world.options},
        rank_place=RankPlace(rank, rank % world.ranks_per_node, world.ranks, "cpu"),
        lose_group=lost.append,
        store=connection,
    )
    begun = time.monotonic()
    result = pairs.collective_pairs.body(context)
    assert isinstance(result, Measurement)
    found = {**result.metrics, "evidence": result.evidence, "seconds": time.monotonic() - begun, "lost": lost}
    found["fault"] = fault_of(pairs.collective_pairs, dict(result.metrics))
    if world.harm not in ("stop", "kill"):
        total = torch.ones(1)
        dist.all_reduce(total)
        found["later"] = total.item()
    return found


def _make_fragile() -> None:
    """As if the device were a GPU, as far as waiting is concerned."""
    from checks.probes.pairs.pair_wait import PairWait

    real: Any = PairWait.__init__

    def fragile(pair_wait: PairWait, *args: Any, **kwargs: Any) -> None:
        real(pair_wait, *args, **{**kwargs, "fragile": True})

    mock.patch.object(PairWait, "__init__", fragile).start()


def _break_the_store(world: World, rank: int, store: int) -> None:
    """The victim stops it, in its second duel or once it has an answer from it; one rank is late in every round."""
    from checks.probes.pairs.pair_test import PairTest
    from checks.probes.pairs.rank import RankSchedule

    send, agreed = PairTest._send, RankSchedule._agreed
    late_s = 0.6 if world.harm == "storeless" else 0.3

    def late(duel: PairTest) -> None:
        if world.harm == "storeless" and duel.tag // 8 % (1 << 15) == 1:
            os.kill(store, signal.SIGSTOP)
        time.sleep(late_s)
        send(duel)

    def last_word(schedule: RankSchedule, done: int, most: int) -> int:
        answer = agreed(schedule, done, most)
        os.kill(store, signal.SIGSTOP)
        return answer

    if rank == (world.victim if world.harm == "storeless" else world.ranks - 1):
        mock.patch.object(PairTest, "_send", late).start()
    if rank == world.victim and world.harm == "uncertain":
        mock.patch.object(RankSchedule, "_agreed", last_word).start()


def _arrange(world: World) -> None:
    """The harm to this process, once its third duel is under way (or from the start, where it concerns what it sends)."""
    import torch.distributed as dist

    from checks.probes.pairs.pair_test import PairTest

    real, batch = PairTest._trips, dist.batch_isend_irecv

    def broken(duel: PairTest, times: list[float]) -> None:
        real(duel, times)
        if duel.tag // 8 % (1 << 15) == 2:
            if world.harm == "late":
                time.sleep(0.7)
            else:
                os.kill(os.getpid(), signal.SIGSTOP if world.harm == "stop" else signal.SIGKILL)

    def lying(operations: list[Any]) -> Any:
        for operation in operations:
            if operation.op is dist.isend and operation.tensor.numel() > 1000:
                operation.tensor = operation.tensor.clone()
                operation.tensor[-1] += 1
        return batch(operations)

    def mute(operations: list[Any]) -> Any:
        if any(operation.peer == 3 for operation in operations):
            time.sleep(ENOUGH_S)
        return batch(operations)

    if world.harm in ("stop", "kill", "late"):
        mock.patch.object(PairTest, "_trips", broken).start()
    else:
        mock.patch.object(dist, "batch_isend_irecv", {"corrupt": lying, "mute": mute}[world.harm]).start()


if __name__ == "__main__":
    keeper([World(**world) for world in json.loads(sys.argv[1])])
