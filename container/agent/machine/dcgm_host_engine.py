"""Starts DCGM's host engine if GPUs are declared and none answers, because dcgmi gets everything from it.

It ends with the checks: supervisor.run ends every child of the agent. If the host runs its own engine, that one is used.
"""

from __future__ import annotations

import os
import shutil
import socket
import time

from checks.process.tree import alive, start_ticks, with_pdeathsig

PROGRAM = "nv-hostengine"
PORT = 5555  # DCGM's default; it listens on loopback alone unless it is told otherwise
READY_S = 10.0


def ensure(gpus_per_node: int, port: int = PORT) -> str:
    """Have a host engine answer on this host. Returns what was done, "" for nothing; dcgm.* says what is missing."""
    if not gpus_per_node or answers(port):
        return ""
    path = shutil.which(PROGRAM)
    if path is None:
        return ""
    argv = with_pdeathsig((path, "-n"))
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    try:
        # No Popen: supervisor.run reaps whatever ended, and would leave it a status that is gone.
        pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=quiet)
    except OSError as error:
        return f"{path} could not be started: {error.strerror}"
    started, deadline = start_ticks(pid), time.monotonic() + READY_S
    while time.monotonic() < deadline and alive(pid, started):
        if answers(port):
            return f"started {path}"
        time.sleep(0.1)
    return f"{path} was started and does not answer on port {port}"


def answers(port: int) -> bool:
    """Whether something listens there on loopback."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False
