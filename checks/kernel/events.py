"""Lines of the kernel -> what they say went wrong (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from checks.kernel.lines import Line, pci_id


@dataclass(frozen=True)
class Event:
    """One line that tells of a fault. `kind` is the metric that counts it; `code` is None where none can be read;
    `pci` may be ""; `count` is how many the line itself counts.
    """

    kind: str
    line: Line
    code: int | None = None
    pci: str = ""
    text: str = ""
    count: int = 1


Find = Callable[[Iterable[Line]], Iterator[Event]]


@dataclass(frozen=True)
class Pattern:
    """A form of line. The first words decide, so that quoted text is not matched."""

    kind: str
    form: re.Pattern[str]


def matching(patterns: Iterable[Pattern]) -> Find:
    """Finds the events of a list of patterns: of each kind at most one a line."""
    known = tuple(patterns)

    def find(lines: Iterable[Line]) -> Iterator[Event]:
        for line in lines:
            for message in messages(line):
                seen: set[str] = set()
                for pattern in known:
                    found = pattern.form.match(message)
                    if found and pattern.kind not in seen:
                        seen.add(pattern.kind)
                        count = found.groupdict().get("count") or "1"
                        pci = pci_id(found.groupdict().get("pci") or "")
                        yield Event(pattern.kind, line, None, pci, message, int(count))

    return find


def messages(line: Line) -> Iterator[str]:
    """A record may hold several lines."""
    for message in line.message.splitlines():
        if message.strip():
            yield message.strip()
