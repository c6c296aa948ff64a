"""Writes a node report as lines of the log, for a container that reaches neither S3 nor a folder."""

from __future__ import annotations

import base64
import gzip
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from checks.documents.report import NODE_REPORT_BYTES
from container.agent.files.exit_record import say

WORD = "PRELAUNCH_REPORT"
# With its head a line stays below PIPE_BUF (limits.h, 4096 bytes): what others write at the same time cannot cut it.
PART_CHARACTERS = 3200


def lines_of(gate_id: str, attempt: str, node: str, report: bytes) -> Iterator[str]:
    """PRELAUNCH_REPORT {"gate_id", "attempt", "node", "part" (from 1), "parts", "data"}: gzip, base64, in order."""
    text = base64.b64encode(gzip.compress(report, mtime=0)).decode()
    parts = [text[begin : begin + PART_CHARACTERS] for begin in range(0, len(text), PART_CHARACTERS)]
    for number, data in enumerate(parts, 1):
        head = {"gate_id": gate_id, "attempt": attempt, "node": node, "part": number, "parts": len(parts)}
        yield f"{WORD} {json.dumps({**head, 'data': data}, separators=(',', ':'))}"


class ReportLogWriter:
    """Writes this host's report to the log, once for each state of it."""

    def __init__(self, path: Path, gate_id: str, attempt: str) -> None:
        self._path, self._gate_id, self._attempt = path, gate_id, attempt
        self._told = b""

    def tell(self) -> None:
        """Write what the report contains by now; nothing if there is none."""
        try:
            with open(self._path, "rb") as file:
                data = file.read(NODE_REPORT_BYTES + 1)
        except OSError:
            return
        if data == self._told:
            return
        self._told = data
        for line in lines_of(self._gate_id, self._attempt, self._path.stem, data):
            _write(line)


def _write(line: str) -> None:
    """Write each line with one call, because Python may write buffered output in pieces."""
    data = f"{line}\n".encode()
    try:
        sys.stdout.flush()
        while data:
            data = data[os.write(1, data) :]
    except OSError as error:
        say(f"the log takes no line: {error.strerror}")
