"""A page as plain text: what is kept of it, and what ways without a layout of their own send (pure)."""

from __future__ import annotations

from tasks.notifiers.base import Page


def page_key(page: Page) -> str:
    """Where the store keeps the page's text."""
    return f"pages/{page.gate_id}.txt"


def page_text(page: Page) -> str:
    """Title, text, and what became of earlier attempts to tell somebody."""
    return f"{page.title}\n\n{body_text(page)}\n"


def body_text(page: Page) -> str:
    """The same without the title."""
    return "\n".join([page.text.rstrip("\n"), *said_lines(page)])


def said_lines(page: Page) -> tuple[str, ...]:
    """A line for each way that failed before this one; empty where none did."""
    return ("", *(f"Could not be told by {line}" for line in page.said)) if page.said else ()


def clipped(text: str, most: int, more: str = "the rest is in the report") -> str:
    """The text, cut to `most` characters with a word that says so."""
    if len(text) <= most:
        return text
    mark = f" [cut: {more}]"
    return text[: most - len(mark)].rstrip() + mark if most > len(mark) else text[:most]
