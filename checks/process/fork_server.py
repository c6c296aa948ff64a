"""Starts the processes of checks as forks of one process that has imported what each of them needs: of node checks, and of ranks on a
node without accelerators.

A node runs one or two dozen of them, and each would otherwise import the same modules again, which takes it most of its CPU time. The
server has no thread, so that a fork of it copies no lock. It ends when its starter closes the connection, or ends. Where it cannot be
used, `start` starts a Python of its own as before.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol

from checks.process import own_packages
from checks.process.tree import die_with_parent, end_tree

MESSAGE_BYTES = 1 << 16
NUMBER = struct.Struct("=i")
STOP_S = 1.0


class Child(Protocol):
    """A process of a check, as subprocess.Popen has it: `returncode` is None while it runs, and minus the signal that ended it."""

    pid: int
    stdout: IO[bytes] | None
    returncode: int | Any

    def poll(self) -> int | None:
        """The return code if it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """The return code. Raises subprocess.TimeoutExpired."""


class ForkedChild:
    """A fork of the server. The server, which is its parent, says its number and later how it ended."""

    def __init__(
        self, argv: Sequence[str], answers: socket.socket, output: IO[bytes], timeout_s: float
    ) -> None:
        """Raises TimeoutError if the server does not fork in time, ConnectionError if it has ended."""
        self._words, self._answers = argv, answers
        self.stdout: IO[bytes] | None = output
        self.returncode: int | Any = None
        number = self._number(timeout_s)
        if number is None:
            raise BrokenPipeError("the process that starts checks has ended")
        self.pid = number

    def poll(self) -> int | None:
        """The return code if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The return code; that of SIGKILL if the server ended before, with which its forks end."""
        if self.returncode is None:
            try:
                code = self._number(timeout)
            except TimeoutError as error:
                raise subprocess.TimeoutExpired(self._words, timeout or 0.0) from error
            self.returncode = -signal.SIGKILL if code is None else code
            self._answers.close()
        return int(self.returncode)

    def _number(self, timeout_s: float | None) -> int | None:
        """The server's next answer; None if it has ended. Raises TimeoutError."""
        if not select.select([self._answers], [], [], timeout_s)[0]:
            raise TimeoutError("the process that starts checks does not answer")
        data = self._answers.recv(NUMBER.size)
        return NUMBER.unpack(data)[0] if data else None


class ForkServer:
    """A server whose forks run `main` of one module of ours, after `prepare` of that module has run once in the server, with these
    arguments.
    """

    def __init__(self, module: str, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        """Return at once: the server imports the module meanwhile."""
        self._module = module
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server: subprocess.Popen[bytes] | None = None
        self._waiting: list[socket.socket] = []
        argv = (sys.executable, *own_packages.module("checks.process.fork_server", module, *arguments))
        with theirs, contextlib.suppress(OSError):  # `start` says so where no process can be started
            self._server = subprocess.Popen(
                argv, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True, env=environ
            )

    def start(self, argv: Sequence[str], timeout_s: float) -> Child:
        """A process of its own session that runs main(words). Its output is a pipe.

        Raises TimeoutError if the server, which may still import its module, does not fork in time; otherwise OSError.
        """
        with contextlib.suppress(ConnectionError):
            return self.fork(argv, timeout_s)
        return started(own_packages.module(self._module, *argv))

    def close(self) -> None:
        """End the server, and with it what it started."""
        for connection in (self._requests, *self._waiting):
            connection.close()
        if self._server is None:
            return
        try:
            self._server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            end_tree(self._server.pid, 0.0, kill_s=STOP_S)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(STOP_S)

    def fork(self, argv: Sequence[str], timeout_s: float) -> Child:
        """The server starts a process as in `start`, without a substitute. Raises ConnectionError where the server has ended."""
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        try:
            handles = array.array("i", (write, theirs.fileno()))
            self._requests.sendmsg(
                [json.dumps(list(argv)).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handles)]
            )
        except BaseException:
            ours.close()
            os.close(read)
            raise
        finally:
            os.close(write)
            theirs.close()
        output = os.fdopen(read, "rb")
        self._waiting.append(ours)
        try:
            return ForkedChild(argv, ours, output, timeout_s)
        except BaseException:
            ours.close()
            output.close()
            raise


def started(argv: Sequence[str]) -> Child:
    """A Python of its own with these arguments, which has what a fork of the server has. Raises OSError."""
    return subprocess.Popen(
        (sys.executable, *argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def main(argv: list[str]) -> int:
    """argv: MODULE and the arguments of its `prepare`. Serve until the starter closes the connection; a fork ends as its main."""
    die_with_parent()
    module = importlib.import_module(argv[0])
    module.prepare(*argv[1:])
    gc.freeze()  # a fork that looked for garbage in what is shared would copy it
    arguments = _serve()
    if arguments is None:
        os._exit(0)  # there is nothing to be cleared away
    return int(module.main(arguments))


def _serve() -> list[str] | None:
    """Fork for each request. Returns None at the end, and in each fork the words that it has to run."""
    requests = socket.socket(fileno=os.dup(0))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(running)
        if requests.fileno() not in ready:
            continue
        data, handles, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, 2)
        if not data:
            return None
        try:
            output, answers = handles
            child = os.fork()
        except (OSError, ValueError):
            # Too many processes or open files: the starter sees that nobody answers.
            for handle in handles:
                os.close(handle)
            continue
        if child == 0:
            requests.detach()
            _become_child(output)
            return [str(argument) for argument in json.loads(data)]
        os.close(output)
        running[child] = answers
        if not _answer(answers, child):  # its starter has given it up
            os.kill(child, signal.SIGKILL)


def _become_child(output: int) -> None:
    """A process as subprocess starts one: a session of its own, no input, one pipe for its output, and no other open file."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2:
                os.close(int(name))


def _reap(running: dict[int, int]) -> None:
    for child in list(running):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid == child:
            answers = running.pop(child)
            _answer(answers, os.waitstatus_to_exitcode(status))
            os.close(answers)


def _answer(answers: int, number: int) -> bool:
    """Whether somebody still waits for it."""
    try:
        return os.write(answers, NUMBER.pack(number)) == NUMBER.size
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
