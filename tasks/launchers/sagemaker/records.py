"""What an agent says of its own end, and whether what a host left is all that it had to say. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from checks.decode import DecodeError
from checks.report import load_node

RECORD_BYTES = 1 << 16


def exit_code_of(record: bytes) -> int | None:
    """The exit code in <attempt>/agent/<node>.json; None while it lives, or where the record cannot be read."""
    try:
        value = json.loads(record[:RECORD_BYTES])
        code = value["exit_code"]
    except (ValueError, TypeError, KeyError):
        return None
    return code if type(code) is int else None


def finished(path: str, data: bytes) -> bool:
    """Whether a file of an attempt is as it will stay: a report that is complete, a record that has its end."""
    folder = path.split("/")[-2] if path.count("/") else ""
    if folder == "nodes":
        try:
            return load_node(data).node.complete
        except DecodeError:
            return False
    return exit_code_of(data) is not None if folder == "agent" else True


def told_all(files: Mapping[str, bytes], attempt: str, host: str) -> bool:
    """Whether the host's agent has ended, and its report is complete or its command had been started."""
    record, report = files.get(f"{attempt}/agent/{host}.json"), files.get(f"{attempt}/nodes/{host}.json")
    if record is None or exit_code_of(record) is None:
        return False
    started = f"{attempt}/started/{host}" in files
    return finished("nodes/x", report) if report is not None else started
