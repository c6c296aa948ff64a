"""Runs another program with a deadline and a limit on its output. Everything that it starts ends with it.

ToolMissing         it is not installed: the observation is SKIPPED with TOOL_MISSING
ToolError           it could not be started
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from checks.check import CheckError, NotInstalled
from checks.process.isolate import Output, end_child, piped
from checks.process.tree import with_pdeathsig

# Folders into which vendors install programs, and which are not on every PATH.
FOLDERS = (
    "/opt/amazon/efa/bin",
    "/opt/aws/neuron/bin",
    "/opt/nccl-tests/build",
    "/usr/local/nccl-tests/build",
)
AFTER_END_S = 2.0
T = TypeVar("T")


class ToolMissing(NotInstalled):
    """The program is not installed here."""


class ToolError(CheckError):
    """The program could not be started."""


@dataclass(frozen=True)
class ToolResult:
    """The output of a program (at most 1 MiB per stream) and how it ended; `code` is None if the deadline ended it, `killed` whether
    that took SIGKILL.
    """

    argv: tuple[str, ...]
    code: int | None
    stdout: str
    stderr: str
    seconds: float
    cut: bool
    killed: bool = False

    @property
    def whole(self) -> bool:
        """Whether it ended by itself and none of its output was cut."""
        return self.code is not None and not self.cut

    def parsed(self, parse: Callable[[str], T]) -> T:
        """What the parser makes of the output. Raises CheckError, which quotes an output that the parser refuses."""
        try:
            return parse(self.stdout)
        except CheckError as error:
            raise CheckError(f"{error}\n{self.account()[:1500]}") from error

    def account(self) -> str:
        """The command, how it ended and its output, for the evidence."""
        ended = "its deadline passed" if self.code is None else f"exit code {self.code}"
        head = f"$ {' '.join(self.argv)}\n[{ended} after {self.seconds:.1f} s]"
        return "\n".join(output for output in (head, self.stdout.strip(), self.stderr.strip()) if output)


def find(name: str) -> str:
    """The program's path. Raises ToolMissing with the remedy."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", *FOLDERS))
    program = shutil.which(name, path=path)
    if program is None:
        raise ToolMissing(f"{name} is not installed on this node. Install it, or correct PATH.")
    return program


def run(
    argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None, interrupt_s: float = 0.0
) -> ToolResult:
    """Runs it until its end or the deadline; `env` is added to the environment. At the deadline, or if
    this process dies, it is killed; or interrupted, where it may take `interrupt_s` to end by itself. Raises ToolMissing, ToolError.
    """
    path = argv[0] if "/" in argv[0] else find(argv[0])
    begun = time.monotonic()
    try:
        child = subprocess.Popen(
            with_pdeathsig((path, *argv[1:]), signal.SIGINT if interrupt_s else signal.SIGKILL),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C", **(env or {})},
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"{path} could not be started: {error.strerror}") from error
    if child.stderr is None:
        raise ToolError(f"{path} has no standard error")
    out, err = Output(piped(child)), Output(child.stderr)
    code: int | None = None
    killed = False
    try:
        code = child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        if interrupt_s:
            child.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(interrupt_s)
    finally:
        if child.poll() is None:
            killed = True
            end_child(child, AFTER_END_S)
    seconds = time.monotonic() - begun
    cut = bool(out.dropped or err.dropped)
    return ToolResult(tuple(argv), code, out.text(), err.text(), seconds, cut, killed)
