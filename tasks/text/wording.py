"""How a count is said, how a long text is cut, and how rows become a table of plain text (pure)."""

from __future__ import annotations

from collections.abc import Sequence


def plural(count: int, noun: str) -> str:
    """Such as "1 node", "2 nodes"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def excerpt(text: str, most: int, more: str = "the rest is in the report") -> str:
    """The text, cut to `most` characters with a note that it was; at a line's end where one is in the second half."""
    if len(text) <= most:
        return text
    mark = f" [cut: {more}]"
    if most <= len(mark):
        return text[:most]
    kept = text[: most - len(mark)].rstrip()
    whole = kept.rpartition("\n")[0]
    return (whole if len(whole) > most // 2 else kept) + mark


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row, each column as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
