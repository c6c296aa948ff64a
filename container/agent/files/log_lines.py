"""Writes the files of an attempt as lines of the log, for a container that reaches neither S3 nor a folder."""

from __future__ import annotations

import base64
import gzip
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import PurePath

from checks.documents.report import load_node
from checks.value_types import DecodeError
from container.agent.files.exit_record import say

LINE_PREFIX = "PRELAUNCH_REPORT"
# With its head a line stays below PIPE_BUF (limits.h, 4096 bytes): what others write at the same time cannot cut it.
PART_CHARACTERS = 3200
# What an upload is called that goes to the log.
LOG = "log:"
# A log is kept only up to a size (10 MiB by default: kubelet, containerLogMaxSize), and the training writes there, too. So a
# report that still grows is written rarely.
GROWING_S = 20.0
MOST_PARTS = 512


def lines_of(gate_id: str, attempt: str, node: str, report: bytes, path: str = "") -> Iterator[str]:
    """PRELAUNCH_REPORT {"gate_id", "attempt", "node", "part" (from 1), "parts", "data"}: gzip, base64, in order.

    With `path` the lines are another file than the node's report, and say which one.
    """
    text = base64.b64encode(gzip.compress(report, mtime=0)).decode()
    whose = {"gate_id": gate_id, "attempt": attempt, "node": node}
    if path:
        whose["path"] = path
    pieces = [text[begin : begin + PART_CHARACTERS] for begin in range(0, len(text), PART_CHARACTERS)]
    for number, data in enumerate(pieces, 1):
        piece = {"part": number, "parts": len(pieces), "data": data}
        yield f"{LINE_PREFIX} {json.dumps({**whose, **piece}, separators=(',', ':'))}"


class LogFiles:
    """Writes files to the log, with their paths below `top`; `whose` is gate id, attempt and node.

    The `merged` report is not among them: whoever reads the log merges anew.
    """

    def __init__(self, whose: tuple[str, str, str], top: PurePath, merged: str) -> None:
        self._whose, self._top, self._merged = whose, top, merged
        self._grew_at: dict[PurePath, float] = {}

    def put(self, path: PurePath, data: bytes, last: bool) -> bool:
        """Write the file's lines; returns False if it has to wait, because it still grows and this is not the `last` time."""
        if path.name == self._merged:
            return True
        if _grows(path, data) and not last:
            now = time.monotonic()
            if now - self._grew_at.get(path, -GROWING_S) < GROWING_S:
                return False
            self._grew_at[path] = now
        lines = list(lines_of(*self._whose, data, (self._top / path).as_posix()))
        if len(lines) > MOST_PARTS:
            say(f"{path} is too large for the log, and is left out of it")
            return True
        for line in lines:
            _write(line)
        return True


def _grows(path: PurePath, data: bytes) -> bool:
    """Whether it is a node's report that is not complete."""
    if path.parent.name != "nodes":
        return False
    try:
        return not load_node(data).node.complete
    except DecodeError:
        return True


def _write(line: str) -> None:
    """Write each line with one call, because Python may write buffered output in pieces."""
    data = f"{line}\n".encode()
    try:
        sys.stdout.flush()
        while data:
            data = data[os.write(1, data) :]
    except OSError as error:
        say(f"the log takes no line: {error.strerror}")
