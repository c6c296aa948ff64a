"""A table of plain text: a view makes it once, and each renderer only lays it out (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows below their head, the most important first; `hidden` more have no room. The first cell of a row is what it is about."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    hidden: int = 0


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], most: int | None = None) -> Table:
    """The table of all rows, or of the first `most`."""
    whole = tuple(rows)
    return Table(head, whole[:most], len(whole) - len(whole[:most]))
