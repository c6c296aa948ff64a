"""What one rank does under torchrun: it runs its checks in order, and each observation is on disk before the next check begins.

A rank always exits with 0 once its file says "end": torchrun would end its neighbours after any other code, and a container's exit
code is never a verdict. The node's runner reads the files.

On a node without accelerators the ranks are forks of one process that has imported torch (checks.process.fork_server): torchrun's
agent and each of its ranks would import it. A fork copies only the thread that forks, and a lock that another thread held stays locked
in the copy for ever. So where the import of torch has started a thread, torchrun starts the ranks after all, and the store of all
ranks, which has threads, is in a fork of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from checks import catalog
from checks.check import Check, RankPlace
from checks.documents.report import plain
from checks.model import ErrorKind, Observation, Scope, rank_subject
from checks.policy import CheckPolicy
from checks.probes.collectives import nccl_log
from checks.probes.pairs.rendezvous import NoteStore
from checks.process.observe import errored
from checks.process.stderr import say
from checks.process.tree import die_with_parent
from checks.runner import repeated_measurement, schedule
from checks.runner.deadline import LEAST_S, CheckProgress
from checks.runner.node_context import NodeContext, open_node_context

IMPORT_S = 120.0
GROUP_SHARE = 0.6
SHORT_S = 2.0  # ranks of a busy machine may need as long to form their group
VOTE_SHARE = (
    0.15  # the share of a check's deadline for which a rank waits for the others' decision to measure again
)
TOLD_S = 60.0


class RankFile:
    """One JSON line per event, each on disk before the next: start, observation, end."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def start(self, check: str, timeout_s: float) -> None:
        """The check begins, and must end within `timeout_s`."""
        self._write(
            {"event": "start", "check": check, "timeout_s": timeout_s, "pid": os.getpid(), "at": time.time()}
        )

    def add(self, observation: Observation) -> None:
        """Writes an observation."""
        self._write({"event": "observation", "row": plain(observation)})

    def end(self) -> None:
        """No more events will come."""
        self._write({"event": "end"})

    def _write(self, event: dict[str, object]) -> None:
        with self._lock:
            os.write(self._file, json.dumps(event, allow_nan=False).encode() + b"\n")


class Watchdog:
    """Calls `expired` in a thread of its own if a section takes longer than it may."""

    def __init__(self, expired: Callable[[], None]) -> None:
        self._expired = expired
        self._timer: threading.Timer | None = None

    def arm(self, timeout_s: float) -> None:
        """Starts the time, or starts it again."""
        self.disarm()
        self._timer = threading.Timer(timeout_s, self._expired)
        self._timer.daemon = True
        self._timer.start()

    def disarm(self) -> None:
        """Stops it."""
        if self._timer is not None:
            self._timer.cancel()


class RankSession:
    """The run of one rank through its checks."""

    def __init__(self, node_context: NodeContext, rank: RankPlace, file: RankFile) -> None:
        self.node_context, self.rank, self.file = node_context, rank, file
        self.subject = rank_subject(node_context.node, rank.rank)
        # The order is the same on every rank, because it follows from the bundle alone.
        checks = schedule.by_cost([check for check in node_context.planned() if check.scope is Scope.RANK])
        self.left = [c for c in checks if not c.group] + [c for c in checks if c.group]
        self.lost = ""
        self.store: Any = None
        self.watchdog = Watchdog(self._give_up)

    def run(self) -> None:
        """Runs every check of this rank, then writes "end"."""
        grouped = False
        while self.left:
            check = self.left[0]
            if check.group and not grouped:
                grouped = True
                self._join()
            self._observe(check)
        self.file.end()

    def _observe(self, check: Check) -> None:
        timeout_s, limit = self._timeout_s(check), self.node_context.limit_of(check)
        if check.group and self.lost:
            record = errored(check.name, self.subject, self.lost, 0.0, error_kind=ErrorKind.NOT_RUN)
        elif not limit.starts and self.left_s() >= LEAST_S:
            record = errored(check.name, self.subject, limit.reason, 0.0, error_kind=limit.error_kind)
        elif timeout_s < LEAST_S:
            record = errored(
                check.name, self.subject, self.node_context.deadline.reason(CheckProgress.NEVER_STARTED), 0.0
            )
        else:
            self.file.start(check.name, timeout_s)
            self.watchdog.arm(timeout_s)
            context = self.node_context.check_context(check, self.rank)
            context = replace(context, lose_group=self._lose, timeout_s=timeout_s, store=self.store)
            agree = partial(self._agree, check, timeout_s)
            record = repeated_measurement.observed(check, context, self.subject, self._line(check), agree)
            self.watchdog.disarm()
            # A CheckError is raised by the check itself, on every rank; any other exception may have broken the group.
            if check.group and record.error_kind is ErrorKind.RAISED:
                self.lost = f"not run: the process group was lost in {check.name}"
        self.file.add(record)
        self.left.pop(0)

    def left_s(self) -> float:
        """The rest of the node's time, without the time that its runner needs to read the last events of this rank."""
        return max(0.0, self.node_context.deadline.left_s() - self.node_context.deadline.end_s / 2)

    def _timeout_s(self, check: Check) -> float:
        return min(self.node_context.own_timeout_s(check), self.left_s())

    def _line(self, check: Check) -> CheckPolicy:
        return self.node_context.bundle.policy.checks.get(check.name, CheckPolicy())

    def _agree(self, check: Check, timeout_s: float, slow: bool, has_time: bool) -> bool:
        """Whether the check is to be measured again. For a group check all ranks must agree."""
        if not check.group:
            return repeated_measurement.decide_alone(slow, has_time)
        note_store = NoteStore(self.store, f"again/{check.name}/", end=time.monotonic() + timeout_s)
        return repeated_measurement.together(note_store, self.rank.world_size, VOTE_SHARE * timeout_s)(
            slow, has_time
        )

    def _lose(self, reason: str) -> None:
        self.lost = f"not run: {reason}"

    def _join(self) -> None:
        """Joins the group and verifies that all ranks have the same catalogue, before the first collective.

        A limit below SHORT_S that the gate file sets for one check is that check's own matter: the others need the group as well.
        """
        own = ((self.node_context.own_timeout_s(check), check) for check in self.left)
        limits = [s if s >= SHORT_S else max(s, self.node_context.usual_timeout_s(check)) for s, check in own]
        timeout_s = GROUP_SHARE * min(*limits, self.left_s())
        if timeout_s < LEAST_S:
            self.lost = self.node_context.deadline.reason(CheckProgress.NEVER_STARTED)
            return
        left_s = min(3 * timeout_s, self.left_s())
        self.file.start("process group", left_s)
        self.watchdog.arm(left_s)
        try:
            self.store = init_group(self.node_context, self.rank, timeout_s)
            _leave_time_to_tell(max(self.node_context.own_timeout_s(check) for check in self.left))
        except Exception as error:  # noqa: BLE001 - whatever torch raises, it costs the group checks alone
            self.lost = f"not run: the process group could not be formed: {type(error).__name__}: {error}"
        self.watchdog.disarm()

    def _give_up(self) -> None:
        """The watchdog's action: writes what is known and exits, because a call that hangs cannot be interrupted."""
        hung, *others = self.left
        limit, over = self.node_context.limit_of(hung), self.left_s() < LEAST_S
        within = (
            f" within its time limit of {limit.seconds:g} s ([checks] timeouts_s)" if limit.declared else ""
        )
        reason, then = limit.reason, f"not run: the check {hung.name} did not return{within}"
        error_kind, after = limit.error_kind, ErrorKind.NOT_RUN
        if over:
            error_kind = after = ErrorKind.OTHER
            reason, then = map(
                self.node_context.deadline.reason, (CheckProgress.RUNNING, CheckProgress.NEVER_STARTED)
            )
        try:
            self.file.add(errored(hung.name, self.subject, reason, limit.seconds, error_kind=error_kind))
            for check in others:
                self.file.add(errored(check.name, self.subject, then, 0.0, error_kind=after))
            self.file.end()
        finally:
            os._exit(0)


def init_group(node_context: NodeContext, rank: RankPlace, timeout_s: float) -> Any:
    """Forms the group of all ranks. Returns a second connection to their store, for calls that may hang.

    It is made before the ranks wait for each other: torch's store looks up the name of each that connects (c10d's socket.cpp) in the
    one thread that answers all, so that a name server without an answer would later make the store look lost to healthy ranks.
    """
    import torch
    import torch.distributed as dist

    backend = "nccl" if rank.device.startswith("cuda") else "gloo"
    if backend == "nccl":
        # NCCL reads it when it is initialised.
        os.environ.update(nccl_log.environment(os.environ, node_context.scratch))
        torch.cuda.set_device(rank.local_rank)
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    store: Any = dist.distributed_c10d._get_default_store()
    connection = store.clone()
    store.set(f"catalogue/{rank.rank}", catalog.digest(node_context.checks))
    for other in range(rank.world_size):
        key = f"catalogue/{other}"
        store.wait([key], timedelta(seconds=timeout_s))
        if store.get(key).decode() != catalog.digest(node_context.checks):
            raise RuntimeError(
                f"rank {other} has a different list of checks. Use the same image on every node."
            )
    return connection


def _leave_time_to_tell(longest_s: float) -> None:
    """Gives NCCL collectives a longer timeout than this rank's own watchdog.

    torch ends a process whose NCCL collective is late (_set_pg_timeout: "the process will crash"). If that came first, every rank
    except the frozen one would be silent as well, without having written that it waited. gloo raises an exception instead, and has
    to do so before the watchdog acts.
    """
    import torch.distributed as dist

    if dist.get_backend() == "nccl":
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=longest_s + TOLD_S))


def prepare(world: str) -> None:
    """In the process of which `world` ranks, with those of other nodes, are forks: imports what their checks import. Raises SystemExit
    where they cannot be forks.
    """
    if reason := why_not_forked(int(world)):
        say(f"checks: torchrun starts the ranks, because {reason}")
        raise SystemExit(1)


def why_not_forked(world: int) -> str:
    """Why the ranks cannot be forks of this process, or ""."""
    try:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: F401
    except Exception as error:  # noqa: BLE001 - torchrun then says itself what is wrong with this torch
        return f"torch cannot be imported: {type(error).__name__}: {error}"
    if world > 1 and thread_count() == 1:
        # What DistributedDataParallel imports when it is made: it takes as long as torch, and sets a variable for its own cache.
        before = set(os.environ)
        with suppress(Exception):  # training.ddp says what is wrong
            import_module("torch._dynamo")
        for name in set(os.environ) - before:
            del os.environ[name]
    threads = thread_count()
    return "" if threads == 1 else f"the process that imported torch has {threads} threads"


def thread_count() -> int:
    """The threads of this process, including those that libraries have started without Python's knowledge."""
    return max(threading.active_count(), len(os.listdir("/proc/self/task")))


def environment(node_context: NodeContext, local: int) -> dict[str, str]:
    """What torchrun adds to the environment of the rank `local` of this node, as far as PyTorch reads it."""
    declared, roster = node_context.bundle.declared, node_context.roster
    return {
        "RANK": str(node_context.node_rank * declared.ranks_per_node + local),
        "LOCAL_RANK": str(local),
        "GROUP_RANK": str(node_context.node_rank),
        "WORLD_SIZE": str(declared.ranks),
        "LOCAL_WORLD_SIZE": str(declared.ranks_per_node),
        "MASTER_ADDR": roster.members[0].address,
        "MASTER_PORT": str(roster.rendezvous_port),
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def rank_place(gpus_per_node: int) -> RankPlace:
    """The rank's place comes from the environment of torchrun."""
    local = int(os.environ["LOCAL_RANK"])
    device = f"cuda:{local}" if gpus_per_node else "cpu"
    return RankPlace(int(os.environ["RANK"]), local, int(os.environ["WORLD_SIZE"]), device)


def main(argv: list[str]) -> int:
    """argv: BUNDLE ROSTER NODE SCRATCH BEGUN_AT [LOCAL]. BEGUN_AT is when the node's checks began (time.monotonic()), LOCAL the number
    of a rank that torchrun did not start. Or --store [ADDRESS PORT].
    """
    die_with_parent()
    if argv[0] == "--store":
        if argv[1:]:
            # Keeps the store at which all ranks meet, as torchrun's agent does, until this process is ended.
            from torch.distributed import TCPStore  # type: ignore[attr-defined]

            store = TCPStore(argv[1], int(argv[2]), None, True, wait_for_workers=False)
            while store is not None:
                signal.pause()
        return 0
    # torchrun ends the neighbours of a rank that died, but they still have to write what they observed. They end by
    # themselves within the group's timeout, and otherwise the node's runner ends them.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    bundle, roster, node, scratch, begun, *local = argv
    node_context = open_node_context(Path(bundle), Path(roster), node, Path(scratch), begun_at=float(begun))
    if local:
        os.environ.update(environment(node_context, int(local[0])))
    rank = rank_place(node_context.bundle.declared.gpus_per_node)
    file = RankFile(Path(scratch) / "ranks" / f"rank-{rank.rank}.jsonl")
    session = RankSession(node_context, rank, file)
    file.start("import torch", min(IMPORT_S, session.left_s()))
    session.watchdog.arm(min(IMPORT_S, session.left_s()))
    __import__("torch.distributed")
    session.run()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
