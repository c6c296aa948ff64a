"""Starts the ranks of a node without accelerators as forks of one process that has imported torch. It stands in for torchrun there,
whose agent and ranks would each import torch.

It takes torchrun's arguments, gives the ranks torchrun's environment, and on the first node it keeps the store at the same address. A
fork copies only the thread that forks, and a lock that another thread held stays locked in the copy for ever. So the ranks are forked
before there is a second thread, and wait: the store, which has threads, comes after them. If the import of torch has already started a
thread, torchrun takes the place of this process.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from typing import NoReturn

from checks.process import own_packages
from checks.process.stderr import say
from checks.process.tree import die_with_parent, how_it_ended
from checks.runner import rank_process

TORCHRUN = "torch.distributed.run"
RANK = own_packages.module("checks.runner.rank_process")
MEET_S = 900.0  # torchrun's own; the node's runner ends a node that waits for others after STARTUP_S


def main(argv: list[str]) -> int:
    """argv: torchrun's options, then the command of a rank. 0 once every rank has ended with 0."""
    given = _parser().parse_args(argv)
    if given.nproc_per_node > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # torchrun does the same, and torch reads it at import
    why = why_not(given.command, given.nnodes * given.nproc_per_node)
    if why:
        say(f"checks: torchrun starts the ranks, because {why}")
        os.execv(sys.executable, (sys.executable, *own_packages.module(TORCHRUN, *argv)))
    waiting, release = os.pipe()
    gc.freeze()  # a collection in a rank would otherwise copy the pages that all ranks share
    ranks = {_forked(given, local, waiting, release): local for local in range(given.nproc_per_node)}
    os.close(waiting)
    return _supervise(given, ranks, release)


def why_not(command: Sequence[str], world: int) -> str:
    """Why the ranks cannot be forks of this process, or "". Imports torch, and what the checks of `world` ranks make it import."""
    if tuple(command[: len(RANK)]) != RANK:
        return f"{' '.join(command[:2])} is not the command of a rank"
    try:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: F401
    except Exception as error:  # noqa: BLE001 - torchrun then says itself what is wrong with this torch
        return f"torch cannot be imported: {type(error).__name__}: {error}"
    if world > 1 and thread_count() == 1:
        _import_dynamo()
    return why_not_with(thread_count())


def _import_dynamo() -> None:
    """What DistributedDataParallel imports when it is made: it takes as long as torch, and sets a variable for its own cache."""
    before = set(os.environ)
    with contextlib.suppress(Exception):  # training.ddp says what is wrong
        import_module("torch._dynamo")
    for name in set(os.environ) - before:
        del os.environ[name]


def why_not_with(threads: int) -> str:
    """Why a process with so many threads cannot fork ranks, or "". Pure."""
    return "" if threads == 1 else f"the process that imported torch has {threads} threads"


def thread_count() -> int:
    """The threads of this process, including those that libraries have started without Python's knowledge."""
    return max(threading.active_count(), len(os.listdir("/proc/self/task")))


def environment(given: argparse.Namespace, local: int) -> dict[str, str]:
    """What torchrun adds to the environment of the rank `local` of this node, as far as PyTorch reads it. Pure."""
    world, rank = given.nnodes * given.nproc_per_node, given.node_rank * given.nproc_per_node + local
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "GROUP_RANK": str(given.node_rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(given.nproc_per_node),
        "MASTER_ADDR": given.master_addr,
        "MASTER_PORT": str(given.master_port),
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    for name in ("nnodes", "node-rank", "nproc-per-node", "master-port", "max-restarts"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--master-addr", required=True)
    parser.add_argument("--log-dir", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def _forked(given: argparse.Namespace, local: int, waiting: int, release: int) -> int:
    """The number of a process that becomes the rank once a byte comes; it ends if this process ends before."""
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _become_rank(given, local, parent, waiting, release)
    return child


def _become_rank(given: argparse.Namespace, local: int, parent: int, waiting: int, release: int) -> NoReturn:
    code = 1
    try:
        os.setsid()  # torchrun gives each rank a session of its own
        die_with_parent(parent)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)  # as torchrun's ranks, also if this process ignores it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(release)
        os.environ.update(environment(given, local))
        sys.argv = list(given.command[1:])
        if os.read(waiting, 1):
            os.close(waiting)
            code = rank_process.main(sys.argv[1:])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does with an error that nobody catches
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _supervise(given: argparse.Namespace, ranks: Mapping[int, int], release: int) -> int:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    # Its constructor waits until every node has connected.
    store = TCPStore(
        given.master_addr, given.master_port, given.nnodes, given.node_rank == 0, timedelta(seconds=MEET_S)
    )
    os.write(release, bytes(len(ranks)))
    os.close(release)
    failed = _wait(given, ranks)
    # The ranks of other nodes may still need the store. A node that lost a rank leaves at once, as torchrun's agent does.
    with contextlib.suppress(RuntimeError):
        store.set(f"ended/{given.node_rank}", "")
        if given.node_rank == 0 and not failed:
            store.wait([f"ended/{node}" for node in range(given.nnodes)])
    return int(failed)


def _wait(given: argparse.Namespace, ranks: Mapping[int, int]) -> bool:
    """Whether any rank ended with another code than 0. The others are not ended for it: they still write what they observe."""
    left, failed = dict(ranks), False
    while left:
        pid, status = os.wait()
        local, code = left.pop(pid, None), os.waitstatus_to_exitcode(status)
        if local is None or code == 0:
            continue
        failed = True
        say(
            f"checks: rank {given.node_rank * given.nproc_per_node + local} (process {pid}) {how_it_ended(code)}"
        )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
