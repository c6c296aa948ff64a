"""Runs one node check in a process of its own, with a deadline and a limit on its output."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from checks.documents.decode import decode, parse_json
from checks.model import ErrorKind, Observation
from checks.process.fork_server import Child
from checks.process.observe import errored
from checks.process.stderr import silence
from checks.process.tree import KILL_S, end_tree, how_it_ended
from checks.value_types import DecodeError

OUTPUT_BYTES = 1 << 20
RESULT_BYTES = 8 << 20
GRACE_S = 1.0

Start = Callable[[float], Child]
"""Starts the process of a check within so many seconds, with a pipe for its output and a session of its own. Raises OSError."""


class Output:
    """Reads a pipe until it is closed, so that the writer never blocks, and keeps the first MiB."""

    def __init__(self, pipe: IO[bytes], copy_to: IO[bytes] | None = None) -> None:
        self.kept = bytearray()
        self.dropped = 0
        self._pipe, self._copy_to = pipe, copy_to
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def text(self, wait_s: float = 1.0) -> str:
        """The output so far; what was cut is counted."""
        self._thread.join(wait_s)
        text = bytes(self.kept).decode("utf-8", "replace")
        return text + (f"\n[{self.dropped} more bytes were cut]" if self.dropped else "")

    def _drain(self) -> None:
        with self._pipe as pipe:
            while data := os.read(pipe.fileno(), 1 << 16):
                fitting = data[: max(OUTPUT_BYTES - len(self.kept), 0)]
                self.kept += fitting
                self.dropped += len(data) - len(fitting)
                self._copy(fitting)

    def _copy(self, data: bytes) -> None:
        try:
            if self._copy_to is not None and data:
                self._copy_to.write(data)
                self._copy_to.flush()
        except (OSError, ValueError):
            # A full disk or a closed pipe at the destination must not stop the process that writes.
            if self._copy_to is sys.stderr.buffer:
                silence()
            self._copy_to = None


def piped(child: Child) -> IO[bytes]:
    """The child's output, which must have been requested as a pipe."""
    if child.stdout is None:
        raise ValueError("start it with stdout=PIPE")
    return child.stdout


def isolated(
    check: str,
    subject: str,
    start: Start,
    result: Path,
    timeout_s: float,
    late: str = "",
    error_kind: ErrorKind = ErrorKind.DEADLINE,
) -> Observation:
    """The observation that the process writes to `result`. If it writes none in time, it is ERRORED, with this kind and the reason
    `late`.
    """
    result.unlink(missing_ok=True)
    ends_at = time.monotonic() + timeout_s + GRACE_S

    def too_late(evidence: str) -> Observation:
        problem = late or f"the check did not end within its deadline of {timeout_s:g} s"
        return errored(check, subject, problem, timeout_s, evidence, error_kind)

    try:
        child = start(timeout_s + GRACE_S)
    except TimeoutError as error:
        return too_late(str(error))
    except OSError as error:
        return errored(check, subject, f"the check's process could not be started: {error.strerror}", 0.0)
    output = Output(piped(child))
    try:
        code = child.wait(max(ends_at - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        return _flag(too_late(output.text(0.1)), output)
    finally:
        if child.poll() is None:
            end_child(child, GRACE_S, GRACE_S, GRACE_S)
    return _flag(_read(check, subject, result, code, output), output)


def end_child(child: Child, wait_s: float, grace_s: float = 0.0, kill_s: float = KILL_S) -> None:
    """Ends the child as in `end_tree`, and waits for it for `wait_s`. What it started may stop what runs elsewhere for it, as dcgmi
    does. One that is blocked in the kernel (state D) cannot be ended, and is not waited for.
    """
    end_tree(child.pid, grace_s, kill_s=kill_s)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(wait_s)


def _read(check: str, subject: str, result: Path, code: int, output: Output) -> Observation:
    how = f"the check's process {how_it_ended(code)}"
    try:
        data = result.read_bytes()
    except OSError:
        return errored(check, subject, f"{how} and left no result", 0.0, output.text())
    try:
        entry = decode(Observation, parse_json(data, RESULT_BYTES))
    except DecodeError as error:
        return errored(check, subject, f"the check's result cannot be read: {error}", 0.0, output.text())
    if code:
        return errored(check, subject, f"{how} after the measurement", 0.0, output.text())
    if (entry.check, entry.subject) != (check, subject):
        return errored(
            check, subject, f"the result belongs to {entry.check} on {entry.subject}", 0.0, output.text()
        )
    return entry


def _flag(observation: Observation, output: Output) -> Observation:
    """Adds to the observation that output was cut, if so."""
    if not output.dropped:
        return observation
    evidence = f"{observation.evidence}\n[it printed {output.dropped + len(output.kept)} bytes; all but 1 MiB was cut]"
    return replace(observation, evidence=evidence, evidence_truncated=True)
