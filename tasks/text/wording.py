"""How a count is said, and how a long text is cut (pure)."""

from __future__ import annotations


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
