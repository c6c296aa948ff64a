"""A cell of Prefect's tables: readable to whoever asks the API, and nothing in it is markup to a reader of Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tasks.render.markdown import inert

READER = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
PIECES = (
    "[", "]", "(", ")", "!", ":", "/", "a", "1", "12.", "3)", ". ", " ", "-", "+", "=", "#", "*", "_", "`", "~~", "<b>", "&amp;", "|",
    "\\", "https://x.y", "[a]: /b", "javascript:x",
)  # fmt: skip


@pytest.mark.parametrize(
    "text", ["3.527", "12.5 GB/s", "6.18.44-fc", "node-0, rank 1", "3 of 4 (75 %)", "2026.11"]
)
def test_numbers_and_versions_stay_as_they_are(text: str) -> None:
    """They come from the API as people wrote them."""
    assert text == inert(text)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_cell_is_a_paragraph_of_text(text: str) -> None:
    """To a reader of CommonMark with HTML."""
    tags = set(re.findall(r"<([a-z0-9]+)", READER.render(inert(text))))

    assert tags <= {"p"}, inert(text)
