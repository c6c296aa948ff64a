"""The product's child process for a trainer's request, as a fork of a process that has imported the SDK, which takes 3 s each time.

What it does not show is that the child gets there from nothing: a test of test_request.py that runs the real child does.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[5]))

from tests.fakes.forks import Forking, fork_each

SDK = (
    "sagemaker.train.model_trainer",
    "sagemaker.train.defaults",
    "sagemaker.core.helper.session_helper",
    "sagemaker.core.telemetry.telemetry_logging",
    "sagemaker.core.workflow.pipeline_context",
    "sagemaker.core.training.configs",
)
CHILD = "tasks.launchers.sagemaker.model_trainer.child"


class WarmChildren(Forking):
    """`popen` takes the place of subprocess.Popen for one module."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(sys.executable, "-P", __file__, env=environment)

    def popen(
        self, command: Sequence[str], *, env: Mapping[str, str], stdout: IO[bytes], **_: object
    ) -> WarmChild:
        """Start the child that the command names."""
        asked = {"argv": list(command[2:]), "environment": dict(env), "folder": os.getcwd()}
        return WarmChild(self.fork(asked, [stdout.fileno()]))


class WarmChild:
    """One child: what the product uses of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._alive = os.pidfd_open(pid)
        except ProcessLookupError:
            self._alive = -1

    def wait(self, timeout: float | None = None) -> None:
        """Return once it has ended; subprocess.TimeoutExpired if it does not end in time."""
        if self._alive < 0:
            return
        if not select.select([self._alive], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired((), timeout or 0.0)
        os.close(self._alive)
        self._alive = -1


def main(asked: socket.socket) -> int:
    """Import what every child needs, and fork."""
    importlib.import_module(CHILD)
    for name in SDK:
        importlib.import_module(name)
    own = [path for path in sys.path if path not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]

    def child(said: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        os.setsid()
        os.dup2(descriptors[0], 1)
        os.dup2(descriptors[0], 2)
        os.chdir(said["folder"])
        sys.path[:] = [*said["environment"]["PYTHONPATH"].split(os.pathsep), *own]
        sys.argv = said["argv"]
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return int(importlib.import_module(CHILD).main(sys.argv[2]))

    return fork_each(asked, child)


if __name__ == "__main__":
    sys.exit(main(socket.socket(fileno=int(sys.argv[1]))))
