"""The gate that a drill starts: a process of its own, in a session of its own, which Ctrl-C in the terminal does not reach."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from checks.process.tree import end_tree
from tasks.drills.model import Argv

# A gate that is asked to end first ends its jobs at the engine.
GRACE_S = 120.0


@dataclass(frozen=True)
class GateProcess:
    """A gate that runs. What it prints goes to stderr, because stdout is the drill's."""

    child: subprocess.Popen[bytes]

    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.child.poll()

    def end(self) -> None:
        """End it and all that it started, in bounded time."""
        if self.child.poll() is None:
            end_tree(self.child.pid, GRACE_S)
        try:
            self.child.wait(1.0)
        except subprocess.TimeoutExpired:  # it is blocked in the kernel, and is said to be left
            print(f"prelaunch: process {self.child.pid} of the gate does not end", file=sys.stderr)


def start_gate(argv: Argv) -> GateProcess:
    """Start it. Raises OSError."""
    sys.stderr.flush()
    return GateProcess(
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True)
    )
