"""The product's child process for a trainer's request, as a fork of a process that has imported the SDK, which takes 3 s each time.

What it does not show is that the child gets there from nothing: tests of test_request.py that run the real child do.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

SDK = (
    "sagemaker.train.model_trainer",
    "sagemaker.train.defaults",
    "sagemaker.core.helper.session_helper",
    "sagemaker.core.telemetry.telemetry_logging",
    "sagemaker.core.workflow.pipeline_context",
    "sagemaker.core.training.configs",
)


class WarmChildren:
    """`popen` takes the place of subprocess.Popen for one module."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                (sys.executable, "-P", __file__, str(its.fileno())),
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=(its.fileno(),),
            )

    def popen(
        self, command: Sequence[str], *, env: Mapping[str, str], stdout: IO[bytes], **_: object
    ) -> WarmChild:
        """Start the child that the command names."""
        asked = json.dumps({"argv": list(command[2:]), "environment": dict(env), "folder": os.getcwd()})
        socket.send_fds(self._ours, [asked.encode()], [stdout.fileno()])
        return WarmChild(self._ours, int(self._ours.recv(64)))

    def end(self) -> None:
        """End the process that children are forks of."""
        self._ours.close()
        self._process.wait(10)


class WarmChild:
    """One child: what the product uses of a Popen."""

    def __init__(self, ours: socket.socket, pid: int) -> None:
        self._ours, self.pid = ours, pid
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; subprocess.TimeoutExpired if it does not end in time."""
        if self.returncode is None:
            self._ours.settimeout(timeout)
            try:
                self.returncode = int(self._ours.recv(64) or b"-1")
            except TimeoutError:
                raise subprocess.TimeoutExpired((), timeout or 0.0) from None
        return self.returncode


def main(asked: socket.socket) -> int:
    """One child after another, until nobody asks any more. Each is a session of its own."""
    importlib.import_module("tasks.launchers.sagemaker.model_trainer.child")
    for name in SDK:
        importlib.import_module(name)
    own = [path for path in sys.path if path not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    while True:
        data, descriptors, _, _ = socket.recv_fds(asked, 1 << 20, 1)
        if not data:
            return 0
        child = os.fork()
        if child == 0:
            _become(json.loads(data), descriptors[0], own)
        os.close(descriptors[0])
        asked.send(str(child).encode())
        _, status = os.waitpid(child, 0)
        asked.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(said: Mapping[str, object], output: int, own: Sequence[str]) -> None:
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    environment, argv = said["environment"], said["argv"]
    assert isinstance(environment, dict) and isinstance(argv, list)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(said["folder"]))
    sys.path[:] = [*environment["PYTHONPATH"].split(os.pathsep), *own]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.argv = argv
    child = importlib.import_module("tasks.launchers.sagemaker.model_trainer.child")
    code = child.main(argv[2])
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(socket.socket(fileno=int(sys.argv[1]))))
