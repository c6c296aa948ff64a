"""The rank checks of one node: runs torchrun, or forks of one process in its place, under supervision, and reads what the ranks have
written so far. It always ends, and every observation is kept.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from checks.documents.decode import decode
from checks.facts.builtin import builtin
from checks.facts.instances import Instance
from checks.model import Declared, Observation, Scope, rank_subject
from checks.process import own_packages
from checks.process.fork_server import Child, ForkServer
from checks.process.isolate import Output, end_child, piped
from checks.process.observe import errored
from checks.process.stderr import say
from checks.process.tree import KILL_S, how_it_ended, start_ticks, with_pdeathsig
from checks.runner.barrier import OK, NodeBarrier
from checks.runner.deadline import CheckProgress
from checks.runner.journal import JournalWriter
from checks.runner.node_context import NodeContext
from checks.value_types import MOST_S, DecodeError

RANK = "checks.runner.rank_process"
OVERDUE_S = 3.0


@dataclass(frozen=True)
class RankState:
    """One rank: its observations, its process, and the check that it is running. `overdue` ranks are frozen or hang."""

    observations: tuple[Observation, ...]
    ended: bool
    current: str
    due_at: float
    pid: int = 0

    def overdue(self, now: float) -> bool:
        """Whether its own deadline passed without an event, which means that the watchdog inside it is frozen, too."""
        return not self.ended and now > self.due_at


def read(folder: Path, ranks: range, opened: float = 0.0) -> dict[int, RankState]:
    """The state of every rank that has written anything. `opened` (seconds since 1970) is when the report was opened."""
    states = {rank: _read_rank(folder / f"rank-{rank}.jsonl", opened) for rank in ranks}
    return {rank: state for rank, state in states.items() if state is not None}


def _read_rank(path: Path, opened: float) -> RankState | None:
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return None
    observations: list[Observation] = []
    ended, current, begun_at, due_at, pid = False, "", opened, time.time() + 3600, 0
    for line in lines:
        try:
            event = json.loads(line)
            if event["event"] == "start":
                current, begun_at = str(event["check"]), float(event["at"])
                due_at = begun_at + float(event["timeout_s"]) + OVERDUE_S
                pid = int(event["pid"])
            elif event["event"] == "observation":
                observation = decode(Observation, event["row"])
                started_s = min(max(begun_at - opened, 0.0), MOST_S) if observation.check == current else 0.0
                observations.append(replace(observation, started_s=round(started_s, 3)))
            else:
                ended = True
        except (ValueError, KeyError, TypeError, DecodeError):
            continue  # a line that cannot be read is a missing observation, which becomes a finding
    return RankState(tuple(observations), ended, current, due_at, pid)


POLL_S = 0.1
STARTUP_S = 150.0
RANK_CHECKS = "the rank checks"
AFTER_END_S = 3.0
TORCHRUN = "torchrun"
# Each rank of torch looks up its peers' names (c10d's socket.cpp asks for ::ffff:ADDRESS, which is not in /etc/hosts). A name server
# that does not answer costs glibc's 5 s twice for each of them (resolv.conf(5)), and pair tests whose ranks wait for different times
# would blame healthy ranks. This is for the gate's own ranks alone: the training has the user's settings.
RESOLVER = {"RES_OPTIONS": "timeout:1 attempts:1"}
# With DETAIL the ranks compare how many operations each has begun (ProcessGroupWrapper.cpp), and gloo counts sends and receives among
# them (ProcessGroupGloo.cpp): after pair tests, where not every rank takes part equally often, the next collective is a mismatch of
# healthy ranks. environment.lint warns of the value.
DEBUG = "TORCH_DISTRIBUTED_DEBUG"


def may_fork(declared: Declared, instance: Instance | None, environ: Mapping[str, str]) -> bool:
    """Whether the ranks may be forks of one process that has imported torch, as far as the declaration and the environment show.

    A driver of an accelerator does not survive a fork. If torch's libraries are to have several threads, they start them at import.
    """
    threads = environ.get("OMP_NUM_THREADS", "1" if declared.ranks_per_node > 1 else "")  # torchrun's default
    has_accelerator = declared.gpus_per_node > 0 or (instance is not None and instance.neuron_devices > 0)
    return threads == "1" and not has_accelerator


def torchrun(node_context: NodeContext, command: Sequence[str]) -> tuple[str, ...]:
    """The argv that starts this node's ranks; `command` is a module or script with its arguments."""
    roster, declared = node_context.roster, node_context.bundle.declared
    return (
        sys.executable, *own_packages.module("torch.distributed.run"),
        "--nnodes", str(declared.nodes),
        "--node-rank", str(node_context.node_rank),
        "--nproc-per-node", str(declared.ranks_per_node),
        "--master-addr", roster.members[0].address,
        "--master-port", str(roster.rendezvous_port),
        "--max-restarts", "0",
        "--log-dir", str(node_context.scratch / "torchrun"),
        *command,
    )  # fmt: skip


class RanksNotReached(RuntimeError):
    """No rank could begin, or none had the time, and none of them is to blame. The message says why."""


def run_stage(node_context: NodeContext, keep: JournalWriter, barrier: NodeBarrier) -> str:
    """Run the rank checks; `keep` gets the observations as they come.

    Returns why they had to be ended, or "". At the node's deadline `keep` also gets what was given up. Raises RanksNotReached.
    """
    if importlib.util.find_spec("torch") is None:
        install = f"Install it there: {sys.executable} -m pip install torch"
        raise RanksNotReached(f"{RANK_CHECKS} did not start: {sys.executable} has no module torch. {install}")
    if problem := interface_problem(node_context.roster.interface):
        raise RanksNotReached(f"{RANK_CHECKS} did not start: {problem}")
    folder = node_context.scratch / "ranks"
    for old in folder.glob("rank-*.jsonl"):
        old.unlink()
    declared, own = node_context.bundle.declared, rank_environment(node_context.roster.interface, os.environ)
    environ = {**threads_of(declared.ranks_per_node), **os.environ, **own}
    instance = builtin().merged(declared).instances.get(declared.instance_type)
    with ExitStack() as ending:
        ranks = RankProcesses(node_context, environ, ending)
        with suppress(TimeoutError):  # what has not started is late
            if problem := ranks.start(barrier, may_fork(declared, instance, os.environ)):
                raise RanksNotReached(f"{RANK_CHECKS} did not start: {problem}")
        try:
            return _watch(node_context, ranks.children, folder, keep)
        finally:
            for name, child in ranks.children.items():
                if code := child.poll():
                    say(f"checks: {name} (process {child.pid}) {how_it_ended(code)}")
            if ranks.forked:
                until = time.monotonic() + AFTER_END_S
                barrier.put(f"ranked/{node_context.node}", OK, until)
                if barrier.rank == 0:  # the ranks of other nodes may still need the store
                    barrier.get_all([f"ranked/{member.name}" for member in barrier.members], until)


class RankProcesses:
    """The processes of this node's ranks, by their names. They end with the stack."""

    def __init__(self, node_context: NodeContext, environ: Mapping[str, str], ending: ExitStack) -> None:
        self._node_context, self._environ, self._ending = node_context, environ, ending
        self._words = (*node_context.arguments, repr(node_context.deadline.begun_at))
        self.children: dict[str, Child] = {}
        self.forked = False

    def start(self, barrier: NodeBarrier, may_fork: bool) -> str:
        """Starts the ranks: as forks if every node can fork them, else by torchrun on every node, because the two meet at different
        stores. Returns why they did not start, or "". Raises TimeoutError.
        """
        until = self._node_context.deadline.stage_ends_at
        server = self._import(barrier) if may_fork else None
        objection = barrier.agree("imported", "" if server else TORCHRUN, STARTUP_S, until)
        if server is None or objection == TORCHRUN:
            self._ending.close()
            argv = torchrun(self._node_context, own_packages.module(RANK, *self._words))
            child = subprocess.Popen(
                with_pdeathsig(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=self._environ,
            )  # fmt: skip
            self.children["the process that starts the ranks"] = self._ends_with_stack(child)
            return ""
        return objection or self._fork(server)

    def _import(self, barrier: NodeBarrier) -> ForkServer | None:
        """A process that has imported torch, and on the first node the store of all ranks. None where they cannot be forks, which that
        process has said. Raises TimeoutError.
        """
        world, port = self._node_context.bundle.declared.ranks, self._node_context.roster.rendezvous_port
        server = self._ending.enter_context(closing(ForkServer(RANK, str(world), environ=self._environ)))
        store = (barrier.first.address, str(port)) if barrier.rank == 0 else ()
        try:
            self._ends_with_stack(server.fork(("--store", *store), self._patience_s()))
        except ConnectionError:
            return None
        return server

    def _fork(self, server: ForkServer) -> str:
        self.forked = True
        for local, rank in enumerate(_ranks(self._node_context)):
            try:
                child = server.fork((*self._words, str(local)), self._patience_s())
            except ConnectionError as error:
                return f"rank {rank} could not be forked: {error}"
            self.children[f"rank {rank}"] = self._ends_with_stack(child)
        return ""

    def _patience_s(self) -> float:
        return min(STARTUP_S, self._node_context.deadline.left_s(), self._node_context.bundle.stage_s)

    def _ends_with_stack(self, child: Child) -> Child:
        self._ending.callback(self._end, child, Output(piped(child), sys.stderr.buffer))
        return child

    def _end(self, child: Child, output: Output) -> None:
        end_s = self._node_context.deadline.end_s
        end_child(child, min(AFTER_END_S, end_s or AFTER_END_S), kill_s=end_s or KILL_S)
        output.text(0.5)


def interface_problem(declared: str) -> str:
    """Why the collectives cannot use that interface, or "": gloo's error names no setting.

    NCCL takes the beginning of a name. About the other forms that it reads nothing is said.
    """
    names = sorted(name for _, name in socket.if_nameindex())
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", declared) or any(name.startswith(declared) for name in names):
        return ""
    has = ", ".join(names)
    return f"this node has no network interface {declared}, but {has}. Correct the gate file's `interface`, or leave it out"


def threads_of(ranks: int) -> dict[str, str]:
    """What torchrun sets for several ranks, with a banner that would stand in the middle of the progress."""
    return {"OMP_NUM_THREADS": "1"} if ranks > 1 else {}


def rank_environment(interface: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables of the gate's own ranks, which the training does not get: a name server that does not answer costs them
    only a second, and PyTorch does not compare their collectives.
    """
    compares = environ.get(DEBUG, "").upper() == "DETAIL"
    return {**interface_environment(interface), **RESOLVER, **({DEBUG: "INFO"} if compares else {})}


def interface_environment(interface: str) -> dict[str, str]:
    """Environment variables that make gloo and NCCL use the roster's interface."""
    if not interface:
        return {}
    return {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface, "TP_SOCKET_IFNAME": interface}


def _watch(
    node_context: NodeContext, children: Mapping[str, Child], folder: Path, keep: JournalWriter
) -> str:
    ranks = _ranks(node_context)
    begun, count, ended_at = time.monotonic(), 0, 0.0
    while True:
        running = not children or any(child.poll() is None for child in children.values())
        states = read(folder, ranks, keep.opened)
        observations = [observation for state in states.values() for observation in state.observations]
        if len(observations) > count:
            count = len(observations)
            keep(observations)
        if not running:
            name, child = next(iter(children.items()))
            if not states:
                raise RanksNotReached(f"{RANK_CHECKS} did not start: {name} {how_it_ended(child.returncode)}")
            return ""
        if node_context.deadline.left_s() <= 0:
            keep(given_up(node_context, states))
            return f"the ranks did not finish before the deadline of {node_context.deadline.seconds:g} s"
        silent = _why_end(states, len(ranks), time.monotonic() - begun, node_context.bundle.stage_s)
        if silent:
            return silent
        if len(states) == len(ranks) and all(state.ended for state in states.values()):
            # The agents of torchrun wait for each other at the end. Only the ranks matter.
            ended_at = ended_at or time.monotonic()
            if time.monotonic() - ended_at > AFTER_END_S:
                return ""
        time.sleep(POLL_S)


def _ranks(node_context: NodeContext) -> range:
    per_node = node_context.bundle.declared.ranks_per_node
    return range(node_context.node_rank * per_node, (node_context.node_rank + 1) * per_node)


def given_up(node_context: NodeContext, states: Mapping[int, RankState]) -> list[Observation]:
    """Observations for the checks that the node's ranks had not reported by its deadline. A rank that died gets none, because it
    gave up nothing.
    """
    observations: list[Observation] = []
    for rank in _ranks(node_context):
        state = states.get(rank)
        if state is not None and (state.ended or start_ticks(state.pid) is None):
            continue
        reported = {observation.check for observation in state.observations} if state else set()
        for check in node_context.planned():
            if check.scope is Scope.RANK and check.name not in reported:
                running = state is not None and state.current == check.name
                reason = node_context.deadline.reason(
                    CheckProgress.RUNNING if running else CheckProgress.NEVER_STARTED
                )
                observations.append(errored(check.name, rank_subject(node_context.node, rank), reason, 0.0))
    return observations


def _why_end(states: dict[int, RankState], ranks: int, seconds: float, stage_s: float) -> str:
    if seconds > stage_s:
        raise RanksNotReached(
            f"{RANK_CHECKS} took longer than {stage_s:g} s. Raise [checks] stage_s if that is too short"
        )
    if seconds > STARTUP_S and len(states) < ranks:
        raise RanksNotReached(
            f"{RANK_CHECKS}: {ranks - len(states)} ranks did not start within {STARTUP_S:g} s"
        )
    now = time.time()
    overdue = [rank for rank, state in states.items() if state.overdue(now)]
    busy = [rank for rank, state in states.items() if not state.ended and rank not in overdue]
    if overdue and not busy:
        hanging = ", ".join(f"rank {rank} in {states[rank].current}" for rank in overdue)
        return f"some ranks are frozen or hang: {hanging}"
    return ""
