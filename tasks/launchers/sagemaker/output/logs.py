"""The end of a host's log from CloudWatch, and the node reports that came as log lines.

A log is in group /aws/sagemaker/TrainingJobs, stream <job>/<host>-<epoch>. Source: "Amazon CloudWatch Logs for Amazon SageMaker
AI". A container that starts again gets another stream; the newest counts.

A report comes as lines PRELAUNCH_REPORT {"gate_id", "attempt", "node", "part", "parts", "data"}, where `data` is a part of base64
of gzip. It is the last channel, for containers that cannot reach S3. A report of which a part is missing is not used.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from checks.documents.report import NODE_REPORT_BYTES
from checks.model import NODE_NAME
from tasks.launchers.attempts import ATTEMPT, finished
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.errors import Refused, explained

MARK = "PRELAUNCH_REPORT "
PARTS = 512
GROUP = "/aws/sagemaker/TrainingJobs"
STREAMS = 50  # the most that DescribeLogStreams gives at once (CloudWatch Logs API Reference)
PAGES = 200


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
        if (report := _newest_report(told, parts)) is not None
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


def _newest_report(told: list[dict[int, str]], parts: int) -> bytes | None:
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


@dataclass(frozen=True)
class Stream:
    """The log of one start of one host's container: the stream's name, and when it began."""

    name: str
    began: datetime


def tail(clients: Clients, job: str, host: str, last_bytes: int) -> str:
    """The last bytes of what the host printed for people; "" if there is nothing. Raises LaunchError."""
    found = newest(clients, job, host)
    return text_of(clients, found, last_bytes, without=MARK) if found else ""


def newest(clients: Clients, job: str, host: str) -> Stream | None:
    """The stream of the host's last start; None if it never printed anything. Raises LaunchError."""
    try:
        return _newest_stream(clients, job, host)
    except Refused as refusal:
        if refusal.missing:
            return None
        raise explained(refusal) from refusal


def text_of(clients: Clients, stream: Stream, last_bytes: int, without: str = "") -> str:
    """The stream's end, leaving out lines that begin with `without`. Raises LaunchError."""
    try:
        return _tail(clients, stream.name, last_bytes, without)
    except Refused as refusal:
        if refusal.missing:
            return ""
        raise explained(refusal) from refusal


def _newest_stream(clients: Clients, job: str, host: str) -> Stream | None:
    found: dict[int, str] = {}
    token: dict[str, str] = {}
    for _ in range(PAGES):
        page: dict[str, Any] = clients.tried(
            "logs:DescribeLogStreams",
            lambda token=token: clients.logs.describe_log_streams(  # type: ignore[misc]
                logGroupName=GROUP, logStreamNamePrefix=f"{job}/{host}-", limit=STREAMS, **token
            ),
        )
        for stream in page.get("logStreams", ()):
            name = str(stream["logStreamName"])
            epoch = re.fullmatch(r"\d+", name[len(f"{job}/{host}-") :])
            if epoch:
                found[int(epoch[0])] = name
        if not page.get("nextToken"):
            break
        token = {"nextToken": page["nextToken"]}
    return Stream(found[max(found)], _time(max(found))) if found else None


def _tail(clients: Clients, stream: str, last_bytes: int, without: str) -> str:
    """Page by page from the end: GetLogEvents gives the same token again where nothing is left."""
    text = ""
    token: dict[str, str] = {}
    for _ in range(PAGES):
        page: dict[str, Any] = clients.tried(
            "logs:GetLogEvents",
            lambda token=token: clients.logs.get_log_events(  # type: ignore[misc]
                logGroupName=GROUP, logStreamName=stream, startFromHead=False, **token
            ),
        )
        lines = [str(event.get("message", "")) for event in page.get("events", ())]
        text = "".join(f"{line}\n" for line in lines if not (without and line.startswith(without))) + text
        following = page.get("nextBackwardToken")
        if len(text.encode()) >= last_bytes or not following or token == {"nextToken": following}:
            break
        token = {"nextToken": following}
    return text.encode()[-last_bytes:].decode("utf-8", "replace") if last_bytes > 0 else ""


def _time(epoch: int) -> datetime:
    """The time at the end of a stream's name, which is in seconds or, for some, in milliseconds."""
    return datetime.fromtimestamp(epoch / 1000 if epoch > 1 << 34 else epoch, UTC)
