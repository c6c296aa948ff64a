"""What the kernel says of processes: their environment, their command, and a signal to them."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment(pid: int) -> list[bytes]:
    return _strings(pid, "environ")


def words(pid: int) -> list[bytes]:
    return _strings(pid, "cmdline")


def _strings(pid: int, file: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes().split(b"\0")
    except OSError:
        return []


def command(pid: int) -> str:
    return b" ".join(words(pid)).decode("utf-8", "replace")[:200]


def send(pid: int, number: signal.Signals) -> bool:
    """Whether there was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
