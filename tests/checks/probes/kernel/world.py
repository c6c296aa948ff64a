"""Kernel lines for tests: a clock, and lines that were stamped shortly before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from checks.probes.kernel import log, log_source, xid
from checks.probes.kernel.log_lines import Find, Line, Now, read_line

RECORDINGS = Path(__file__).parents[3] / "recordings/kernel"
XID = "NVRM: Xid (PCI:0000:b9:00): 79, pid=1, name=x, GPU has fallen off the bus."
SYSLOG = "Jan 13 12:34:56 ip-10-1-2-3 kernel: "
NOW = Now(uptime_s=10_000.0, epoch_s=1_740_328_000.0)  # 2025-02-23 16:26:40 UTC


def recorded_lines(name: str) -> list[str]:
    """The lines of a recording, without its comments."""
    lines = (RECORDINGS / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def said(text: str, now: Now = NOW) -> Iterator[Line]:
    """The kernel's lines of a text."""
    return (line for raw in text.splitlines() if (line := read_line(raw, now)) is not None)


def found(find: Find, text: str) -> list[tuple[str, int | None, str]]:
    """Kind, code and address of each event in a text."""
    return [(event.metric, event.code, event.pci) for event in find(said(text))]


def log_of(text: str, find: Find = xid.find, window_s: float = 86400.0) -> log.Log:
    """What a reader makes of a text that was read at NOW."""
    reader = log_source.Reader(find, NOW, window_s)
    reader.take(said(text))
    return reader.log("text")
