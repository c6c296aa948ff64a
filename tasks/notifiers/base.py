"""How people hear: the contract that every notifier keeps.

NotifyError         the page could not be sent; the next notifier is tried, and the verdict stays as it is
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class NotifyError(Exception):
    """The page could not be sent. The message says why, and the remedy."""


@dataclass(frozen=True)
class Page:
    """What somebody has to know. `title` is one line, `text` plain and without secrets, `url` the report."""

    gate_id: str
    cluster: str
    title: str
    text: str
    url: str


Keep = Callable[[str, str], str]
"""Keeps text under a key of the store; returns where it is. Raises NotifyError."""


class Notifier(Protocol):
    """One way to reach people."""

    name: str

    def send(self, page: Page) -> str:
        """Send it; returns where it went, for people. Blocks for seconds at most. Raises NotifyError."""
        ...
