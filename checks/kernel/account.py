"""Events of the kernel's log as evidence for a person, and as lines of a text (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from checks.kernel.events import Event

KEPT = 40


def account(events: Iterable[Event], names: dict[str, str] | None = None) -> str:
    """The newest events first, one a line: kind, code, device, age and what the kernel said."""
    said = [_one(event, names or {}) for event in events]
    more = [f"[{len(said) - KEPT} older ones are not shown]"] if len(said) > KEPT else []
    return "\n".join([*reversed(said[-KEPT:]), *more])


def before_this_boot(events: Sequence[Event]) -> str:
    """The same for what lies before this boot; "" for nothing."""
    return f"before this boot:\n{account(events)}" if events else ""


def still_open(count: int, window_s: float) -> str:
    """That so many events are counted although they are older than the window; "" for none."""
    if not count:
        return ""
    said = f"{count} of them are older than {window_s / 3600:.0f} h"
    return f"{said}, and counted: they call for an action, and nothing in the log since then answers it"


def lines_of(events: Iterable[Event]) -> str:
    """The lines of a text that events rest on ("17: ..."), each once, at most 40."""
    lines = dict.fromkeys(f"{event.line.number}: {event.line.message[:300]}" for event in events)
    return "\n".join(list(lines)[:KEPT])


def _one(event: Event, names: dict[str, str]) -> str:
    code = "" if event.code is None else f" {event.code}"
    age = "no time" if event.line.age_s is None else f"{event.line.age_s:.0f} s ago"
    author = f", written by a program (facility {event.line.facility})" if event.line.facility else ""
    device = names.get(event.pci, event.pci or "-")
    return f"{event.kind}{code} {device} ({age}{author}): {event.line.message[:300]}"
