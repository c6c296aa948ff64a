"""Node reports that came as log lines: PRELAUNCH_REPORT {"gate_id", "attempt", "node", "part", "parts", "data"}. Pure.

`data` is a part of base64 of gzip. It is the last way out, for containers that reach no S3: a report of which a part is
missing is no report.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable

from checks.model import NODE_NAME
from checks.report import NODE_REPORT_BYTES
from tasks.launchers.sagemaker.attempts import ATTEMPT
from tasks.launchers.sagemaker.records import finished

MARK = "PRELAUNCH_REPORT "
PARTS = 512


def reports_of(lines: Iterable[str]) -> dict[str, bytes]:
    """<attempt>/nodes/<node>.json -> the report's bytes, of those whose parts are all there and fit together."""
    found: dict[tuple[str, str, int], list[dict[int, str]]] = {}
    for line in lines:
        part = _part(line)
        if part is not None:
            whose, number, data = part
            told = found.setdefault(whose, [{}])
            if number in told[-1]:  # the same report, told again as it has grown
                told.append({})
            told[-1][number] = data
    return {
        f"{attempt}/nodes/{node}.json": report
        for (attempt, node, parts), told in found.items()
        if (report := _newest(told, parts)) is not None
    }


def _part(line: str) -> tuple[tuple[str, str, int], int, str] | None:
    """(attempt, node, parts), which part, its text; None for any other line."""
    _, mark, text = line.partition(MARK)
    if not mark:
        return None
    try:
        value = json.loads(text)
        attempt, node, data = value["attempt"], value["node"], value["data"]
        number, parts = value["part"], value["parts"]
    except (ValueError, TypeError, KeyError):
        return None
    counted = type(number) is int and type(parts) is int and 1 <= number <= parts <= PARTS
    if not counted or not all(isinstance(text, str) for text in (attempt, node, data)):
        return None
    named = re.fullmatch(ATTEMPT, attempt) and len(node) <= 253 and re.fullmatch(NODE_NAME, node)
    return ((attempt, node, parts), number, data) if named else None


def _newest(told: list[dict[int, str]], parts: int) -> bytes | None:
    """The first that is complete, which grows no more: what comes behind it is the training's own output. Else the last."""
    whole = [data for pieces in told if (data := _joined(pieces, parts)) is not None]
    return next((data for data in whole if finished("nodes/x", data)), whole[-1] if whole else None)


def _joined(pieces: dict[int, str], parts: int) -> bytes | None:
    numbers = range(1, parts + 1)
    if set(numbers) != set(pieces):
        return None
    try:
        packed = base64.b64decode("".join(pieces[number] for number in numbers), validate=True)
        unpacking = zlib.decompressobj(wbits=31)
        data = unpacking.decompress(packed, NODE_REPORT_BYTES + 1)
    except (binascii.Error, ValueError, zlib.error):
        return None
    return data if unpacking.eof and len(data) <= NODE_REPORT_BYTES else None
