"""Processes that watch during the whole run for a closing check. They are started before everything else, and always ended.

A check's `watch` is a generator: what it yields is recorded, and None means that nothing happened for a while; its first record says
that it is watching. It runs in a child process whose standard input the runner keeps open: when that is closed, by the runner or
because the runner died, the child writes a last line and ends. A record without that last line does not count, because a watcher
that died, hung or was stopped cannot say that nothing happened.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from checks.check import Check
from checks.process import own_packages
from checks.process.isolate import Output, end_child, piped
from checks.runner.deadline import LEAST_S
from checks.runner.node_context import NodeContext, watch_path

READY_S = 20.0
STOP_S = 5.0
LOOK_S = 0.05
# More than a run can need: beyond one fault per millisecond no more have to be recorded.
MOST_RECORDS = 10_000
ENDED = "ended"


class Watchers:
    """The watching processes of one node's run."""

    def __init__(self, node_context: NodeContext) -> None:
        self._node_context = node_context
        self._running: dict[str, tuple[subprocess.Popen[bytes], Output]] = {}
        self.failed: dict[str, str] = {}

    def start(self, checks: Iterable[Check]) -> None:
        """Starts one process for each check that has a `watch`. `failed` says why one could not be started."""
        for check in checks:
            if check.watch is None:
                continue
            path = watch_path(self._node_context.scratch, check.name)
            path.unlink(missing_ok=True)
            arguments = (*self._node_context.arguments, str(path), f"{self._node_context.timeout_s(check):g}")
            argv = own_packages.module(
                "checks.runner.isolated_child", "--watch", check.name, check.path, *arguments
            )
            try:
                child = subprocess.Popen(
                    (sys.executable, *argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                self.failed[check.name] = f"the check's watch process could not be started: {error.strerror}"
                continue
            self._running[check.name] = child, Output(piped(child))

    def ready(self) -> None:
        """Waits until each of them is watching or has failed, or the time is over."""
        deadline = time.monotonic() + min(READY_S, self._node_context.deadline.left_s())
        for name, (child, output) in self._running.items():
            path = watch_path(self._node_context.scratch, name)
            while not _has_record(path) and child.poll() is None and time.monotonic() < deadline:
                time.sleep(LOOK_S)
            if not _has_record(path):
                last = output.text(0.1).strip().splitlines()[-1:]
                self.failed[name] = last[0][:500] if last else "the check's watch process did not start"

    def stop(self, name: str) -> None:
        """Ends the check's watch, if it has one: first it is asked to end, and after a few seconds it is killed."""
        patience_s = min(STOP_S, max(self._node_context.deadline.left_s(closing=True), LEAST_S))
        child, output = self._running.pop(name, (None, None))
        if child is None or output is None:
            return
        with contextlib.suppress(OSError):
            child.stdin.close()  # type: ignore[union-attr]
        try:
            child.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.failed.setdefault(name, f"the check's watch process did not end within {patience_s:.1f} s")
            end_child(child, LEAST_S, kill_s=LEAST_S)
        else:
            if child.returncode and name not in self.failed:
                last = output.text(0.5).strip().splitlines()[-1:]
                self.failed[name] = (
                    last[0][:500] if last else f"the check's watch process ended with code {child.returncode}"
                )

    def stop_all(self) -> None:
        """Ends all that still run. All are asked before any is waited for."""
        for child, _ in self._running.values():
            with contextlib.suppress(OSError):
                child.stdin.close()  # type: ignore[union-attr]
        for name in list(self._running):
            self.stop(name)


def watch(records: Iterator[Mapping[str, object] | None], path: Path, held: IO[bytes]) -> None:
    """In the child: records what the watch yields until `held` is closed, then that it ended in order."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            if record is not None and count < MOST_RECORDS:
                count += 1
                file.write(json.dumps(dict(record), allow_nan=False) + "\n")
                file.flush()
            if select.select([held], [], [], 0)[0]:
                file.write(json.dumps({ENDED: time.time()}) + "\n")
                break
    close = getattr(records, "close", None)
    if close is not None:
        close()


def watched(path: Path) -> Sequence[Mapping[str, object]] | None:
    """What was recorded; None if the watch did not last until the end."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return None
    if not records or not all(isinstance(record, dict) for record in records) or ENDED not in records[-1]:
        return None
    return records[:-1]


def _has_record(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
