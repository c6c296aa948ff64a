"""A host's log from CloudWatch: its end, or its beginning. Reports may come as lines of it (tasks/launchers/report_lines.py).

A log is in group /aws/sagemaker/TrainingJobs, stream <job>/<host>-<epoch>. Source: "Amazon CloudWatch Logs for Amazon SageMaker
AI". A container that starts again gets another stream; the newest counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tasks.launchers.report_lines import MARK
from tasks.launchers.sagemaker.api import Clients

GROUP = "/aws/sagemaker/TrainingJobs"
STREAMS = 50  # the most that DescribeLogStreams gives at once (CloudWatch Logs API Reference)
PAGES = 200


@dataclass(frozen=True)
class Stream:
    """The log of one start of one host's container: the stream's name, and when it began."""

    name: str
    began: datetime


def tail(clients: Clients, job: str, host: str, last_bytes: int) -> str:
    """The last bytes of what the host printed for people; "" if there is nothing. Raises LaunchError."""
    stream = newest(clients, job, host)
    return text_of(clients, stream, last_bytes, without=MARK) if stream else ""


def newest(clients: Clients, job: str, host: str) -> Stream | None:
    """The stream of the host's last start; None if it never printed anything. Raises LaunchError."""
    streams, prefix = dict[int, str](), f"{job}/{host}-"
    token: dict[str, Any] = {}
    for _ in range(PAGES):
        page = _page(clients, "describe_log_streams", logStreamNamePrefix=prefix, limit=STREAMS, **token)
        if page is None:
            return None
        for stream in page.get("logStreams", ()):
            name = str(stream["logStreamName"])
            epoch = re.fullmatch(r"\d+", name[len(prefix) :])
            if epoch:
                streams[int(epoch[0])] = name
        if not page.get("nextToken"):
            break
        token = {"nextToken": page["nextToken"]}
    return Stream(streams[max(streams)], _time(max(streams))) if streams else None


def text_of(clients: Clients, stream: Stream, most: int, without: str = "", head: bool = False) -> str:
    """The stream's end or, with `head`, its beginning, leaving out lines that begin with `without`. Raises LaunchError.

    It is read page by page from there: GetLogEvents gives the same token again where nothing is left.
    """
    data, token = b"", dict[str, Any]()
    for _ in range(PAGES):
        page = _page(clients, "get_log_events", logStreamName=stream.name, startFromHead=head, **token)
        if page is None:
            return ""
        lines = [str(event.get("message", "")) for event in page.get("events", ())]
        text = "".join(f"{line}\n" for line in lines if not (without and line.startswith(without))).encode()
        data = data + text if head else text + data
        following = page.get("nextForwardToken" if head else "nextBackwardToken")
        if len(data) >= most or not following or token == {"nextToken": following}:
            break
        token = {"nextToken": following}
    return (data[:most] if head else data[max(len(data) - most, 0) :]).decode("utf-8", "replace")


def _page(clients: Clients, operation: str, **request: Any) -> Any:
    """A page of an answer of CloudWatch Logs; None if there is no such log."""
    return clients.call("logs", operation, lambda refusal: refusal.is_missing, logGroupName=GROUP, **request)


def _time(epoch: int) -> datetime:
    """The time at the end of a stream's name, which is in seconds or, for some, in milliseconds."""
    return datetime.fromtimestamp(epoch / 1000 if epoch > 1 << 34 else epoch, UTC)
