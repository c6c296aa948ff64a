"""Counts, short lists, excerpts and tables of cells as text (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FEW = 20


def counted(count: int, noun: str) -> str:
    """ "1 node", "2 nodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def few(texts: Sequence[str], most: int = FEW, where: str = "") -> list[str]:
    """The first of them, with a last text that says how many there are more."""
    more = [f"and {len(texts) - most} more{where}"] if len(texts) > most else []
    return [*texts[:most], *more]


def aligned(body: Sequence[Sequence[str]]) -> list[str]:
    """One line per row, its cells below each other."""
    widths = [max(map(len, column)) for column in zip(*body, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(cells, widths, strict=True)] for cells in body)
    return ["  ".join(cells).rstrip() for cells in padded]


def excerpt(text: str, most: int, more: str = "the rest is in the report") -> str:
    """The text, cut to `most` characters with a note that it was; at a line's end where one is in the second half."""
    if len(text) <= most:
        return text
    mark = f" [cut: {more}]"
    if most <= len(mark):
        return text[:most]
    head = text[: most - len(mark)].rstrip()
    whole = head.rpartition("\n")[0]
    return (whole if len(whole) > most // 2 else head) + mark


@dataclass(frozen=True)
class Table:
    """Rows below their head, the most important first; `hidden` more have no room. The first cell of a row is what it is about."""

    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    hidden: int = 0


def table(head: tuple[str, ...], body: Iterable[tuple[str, ...]], most: int | None = None) -> Table:
    """The table of all rows, or of the first `most`."""
    whole = tuple(body)
    return Table(head, whole[:most], len(whole) - len(whole[:most]))
