"""A FAKE torchrun: the ranks of a node as forks of one process that has imported the checks; the first node keeps the store."""

from __future__ import annotations

import argparse
import importlib
import os
import runpy
import signal
import sys
import warnings

from ._store import Server


def main(argv: list[str]) -> int:
    """0 once every rank has ended with 0; the others are ended with the first that did not."""
    parser = argparse.ArgumentParser()
    for name in ("nnodes", "node-rank", "nproc-per-node", "master-port", "max-restarts"):
        parser.add_argument(f"--{name}", type=int, default=1)
    parser.add_argument("--master-addr", default="127.0.0.1")
    parser.add_argument("--log-dir")
    parser.add_argument("-m", dest="is_module", action="store_true")
    parser.add_argument("--no-python", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(argv)
    kept = Server(given.master_addr, given.master_port) if given.node_rank == 0 else None
    if given.is_module:
        importlib.import_module(given.command[0])
        warnings.filterwarnings("ignore", "'.*' found in sys.modules", RuntimeWarning)
    children = {}
    for local in range(given.nproc_per_node):
        environment = {
            "RANK": given.node_rank * given.nproc_per_node + local,
            "LOCAL_RANK": local,
            "WORLD_SIZE": given.nnodes * given.nproc_per_node,
            "LOCAL_WORLD_SIZE": given.nproc_per_node,
            "MASTER_ADDR": given.master_addr,
            "MASTER_PORT": given.master_port,
        }
        child = os.fork()
        if child == 0:
            os.environ.update({name: str(value) for name, value in environment.items()})
            _become(given)
        children[child] = local
    code = 0
    while children:
        pid, status = os.wait()
        children.pop(pid, None)
        if status and not code:
            code = os.waitstatus_to_exitcode(status) & 255
            for other in children:
                os.kill(other, signal.SIGTERM)
    del kept
    return code


def _become(given: argparse.Namespace) -> None:
    """In a rank: never returns."""
    code = 1
    try:
        sys.argv = list(given.command)
        if given.no_python:
            os.execvp(given.command[0], given.command)
        if given.is_module:
            runpy.run_module(given.command[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(given.command[0], run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
