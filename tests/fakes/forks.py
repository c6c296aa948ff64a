"""Forks of one process that has imported what each of them needs: imports of seconds are paid once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

# What a child does: its exit code. It gets what was asked, and the descriptors that came with it.
Work = Callable[[Mapping[str, Any], Sequence[int]], int]


def fork_each(asked: socket.socket, work: Work) -> int:
    """0 once nobody can ask any more. The children go on, and are not waited for: whoever asked knows their pid.

    A child has the environment that the request names.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, descriptors, _, _ = socket.recv_fds(asked, 1 << 20, 3)
        if not data:
            return 0
        child = os.fork()
        if child == 0:
            asked.close()
            _do(work, json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        asked.send(str(child).encode())


class Forking:
    """The process that children are forks of; it ends with this one. Its command gets the number of a socket as its last word."""

    def __init__(self, *command: str, **options: Any) -> None:
        self._ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            argv, kept = (*command, str(its.fileno())), [its.fileno()]
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=kept, **options)

    def fork(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """The pid of a new child; 0 if the process that would fork it has ended."""
        socket.send_fds(self._ours, [json.dumps(request).encode()], list(descriptors))
        return int(self._ours.recv(32) or 0)

    def end(self) -> None:
        """End it; its children go on."""
        self._ours.close()
        self._process.wait(60)


def _do(work: Work, request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(request["environment"])
        code = work(request, descriptors)
        sys.stdout.flush()
    except BaseException:  # whatever it was, it must not go on as its parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)
