"""Reads reports and other files that came as lines of a container's log, which container/agent/files/log_lines.py writes. Pure.

A file comes as lines PRELAUNCH_REPORT {"gate_id", "attempt", "node", "path", "part", "parts", "data"}, where `data` is a part of
base64 of gzip; without `path` it is the node's report. A file of which a part is missing is not used.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable

from checks.documents.report import NODE_REPORT_BYTES
from checks.model import NODE_NAME
from tasks.launchers.attempts import ATTEMPT, finished, plain

MARK = "PRELAUNCH_REPORT "
MAX_PIECES = 512
FILE_BYTES = 4 << 20  # of any other file than a report
Key = tuple[str, int]  # the file's path, and how many parts it has


class ReportLines:
    """What one log has told so far. Lines may be added as they come."""

    def __init__(self) -> None:
        self._versions: dict[Key, list[dict[int, str]]] = {}
        self._run: dict[Key, dict[int, str]] = {}  # the parts in order since the last first one
        self._newest: dict[str, Key] = {}

    def add(self, line: str) -> None:
        """Take in a line; any other than a part of a file is ignored."""
        piece = _parsed(line)
        if piece is None:
            return
        key, number, data = piece
        versions = self._versions.setdefault(key, [{}])
        if number in versions[-1]:  # the same file, told again as it has grown
            versions.append({})
        versions[-1][number] = data
        run = self._run[key] = {} if number == 1 else self._run.get(key, {})
        if number == len(run) + 1:
            run[number] = data
        if len(run) == key[1]:  # also where the beginning of the log, with parts of an earlier state, is gone
            versions.insert(-1, dict(run))
        self._newest[key[0]] = key

    def files(self) -> dict[str, bytes]:
        """Each file by its path, as it was told last, of those whose parts are all there and fit together."""
        newest: dict[str, bytes] = {}
        for key in sorted(self._versions, key=lambda key: key == self._newest[key[0]]):
            data = _newest_whole(self._versions[key], *key)
            if data is not None and not (key[0] in newest and _stays(key[0], newest[key[0]])):
                newest[key[0]] = data
        return newest


def reports_of(lines: Iterable[str]) -> dict[str, bytes]:
    """<attempt>/nodes/<node>.json -> the report's bytes, of those whose parts are all there and fit together."""
    collected = ReportLines()
    for line in lines:
        collected.add(line)
    return {path: data for path, data in collected.files().items() if path.split("/")[1:2] == ["nodes"]}


def _parsed(line: str) -> tuple[Key, int, str] | None:
    """(path, parts), which part, its text; None for any other line."""
    _, mark, text = line.partition(MARK)
    if not mark:
        return None
    try:
        value = json.loads(text)
        attempt, node, data = value["attempt"], value["node"], value["data"]
        number, pieces = value["part"], value["parts"]
        path = value.get("path", f"{attempt}/nodes/{node}.json")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    counted = type(number) is int and type(pieces) is int and 1 <= number <= pieces <= MAX_PIECES
    if not counted or not all(isinstance(text, str) for text in (attempt, node, data, path)):
        return None
    is_valid = re.fullmatch(ATTEMPT, attempt) and len(node) <= 253 and re.fullmatch(NODE_NAME, node)
    return ((path, pieces), number, data) if is_valid and plain(path) else None


def _stays(path: str, data: bytes) -> bool:
    """Whether it is a node's complete report, which changes no more."""
    return "/nodes/" in path and finished(path, data)


def _newest_whole(versions: list[dict[int, str]], path: str, count: int) -> bytes | None:
    """The first complete report of a node is returned: what comes behind it is the training's own output. Any other file is returned
    as its last whole text, and is None without one.
    """
    most = NODE_REPORT_BYTES if "/nodes/" in path else FILE_BYTES
    whole = [data for pieces in versions if (data := _joined(pieces, count, most)) is not None]
    return next((data for data in whole if _stays(path, data)), whole[-1] if whole else None)


def _joined(pieces: dict[int, str], count: int, most: int) -> bytes | None:
    numbers = range(1, count + 1)
    if set(numbers) != set(pieces):
        return None
    try:
        packed = base64.b64decode("".join(pieces[number] for number in numbers), validate=True)
        unpacking = zlib.decompressobj(wbits=31)
        data = unpacking.decompress(packed, most + 1)
    except (binascii.Error, ValueError, zlib.error):
        return None
    return data if unpacking.eof and len(data) <= most else None
