"""Writes notifications as text to stderr and to the store. This notifier is always there and reaches whoever reads logs.

The same plain text is kept of every notification, and sent by notifiers without a layout of their own.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

from tasks.notifiers.base import Keep, Notification, Status
from tasks.store.layout import page_key


def notification_text(page: Notification) -> str:
    """Title, text, and what became of earlier attempts to tell somebody."""
    return f"{page.title}\n\n{body_text(page)}\n"


def body_text(page: Notification) -> str:
    """The same without the title."""
    return "\n".join([page.text.rstrip("\n"), *said_lines(page)])


def said_lines(page: Notification) -> tuple[str, ...]:
    """A line for each way that failed before this one; empty where none did."""
    return ("", *(f"Delivery failed: {line}" for line in page.said)) if page.said else ()


def clipped(text: str, most: int, more: str = "the rest is in the report") -> str:
    """The text, cut to `most` characters with a word that says so."""
    if len(text) <= most:
        return text
    mark = f" [cut: {more}]"
    return text[: most - len(mark)].rstrip() + mark if most > len(mark) else text[:most]


class LogNotifier:
    """Writes the page to a stream (stderr) and to pages/<gate id>.txt of the store."""

    name = "log"

    def __init__(self, keep: Keep, stream: TextIO | None = None) -> None:
        self.keep, self.stream = keep, stream

    def send(self, page: Notification) -> str:
        """Both; a stream that nobody reads is no failure, a page that is not kept is."""
        stream = self.stream or sys.stderr
        with contextlib.suppress(OSError, ValueError):  # closed by whoever started us
            print(f"PAGE {page.title}", file=stream, flush=True)
        return self.keep(page_key(page.gate_id), notification_text(page))

    def settle(self, page: Notification) -> str:
        """Nothing to bring up to date."""
        return ""

    def show(self, status: Status) -> None:
        """Progress is shown by whoever started the gate."""
