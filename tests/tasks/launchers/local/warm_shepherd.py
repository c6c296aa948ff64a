"""The shepherds of local jobs as forks of a process that has imported them, which takes 0.15 s each time.

What they do not show is that a shepherd is started from nothing: test_start.py and the tests of whole gates do.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[4]))

from tasks.launchers.local import shepherd
from tasks.launchers.local.job_folder import JobFolder
from tasks.launchers.local.nodes import WITHHELD
from tests.fakes.forks import Forking, fork_each


class WarmShepherds(Forking):
    """`spawn` takes the place of start_stop._spawn."""

    def __init__(self) -> None:
        super().__init__(sys.executable, "-P", __file__)

    def spawn(self, folder: JobFolder, withheld: Mapping[str, str]) -> WarmShepherd:
        """Start the shepherd of the job."""
        with open(folder.shepherd_log, "ab") as log:
            environment = {**os.environ, WITHHELD: json.dumps(withheld)}
            request = {"folder": str(folder.path), "environment": environment}
            return WarmShepherd(self.fork(request, [log.fileno()]))


class WarmShepherd:
    """What the product uses of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """None while it lives."""
        return None if Path(f"/proc/{self.pid}").exists() else 1

    def wait(self) -> None:
        """It was ended."""


def _child(request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
    os.setsid()
    for number in (1, 2):
        os.dup2(descriptors[0], number)
    os.close(descriptors[0])
    os.chdir("/")
    return shepherd.main((request["folder"],))


if __name__ == "__main__":
    sys.exit(fork_each(socket.socket(fileno=int(sys.argv[1])), _child))
