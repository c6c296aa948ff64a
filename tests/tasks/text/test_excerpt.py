"""How a long text is cut."""

from __future__ import annotations

import pytest

from tasks.text.tables import excerpt


@pytest.mark.parametrize(
    ("text", "most", "said"),
    [
        ("short", 16, "short"),
        ("x" * 99, 16, "xxxx [cut: more]"),
        ("x" * 99, 9, "x" * 9),
        ("a first line of text\nthe second line", 34, "a first line of text [cut: more]"),
        ("a\nthe second line is longer than the text may be", 40, "a\nthe second line is longer [cut: more]"),
    ],
    ids=["whole", "cut", "no room for a note", "at a line's end", "no line ends in the second half"],
)
def test_a_cut_is_stated_and_fits(text: str, most: int, said: str) -> None:
    """A line that ends in the second half is the last one, so that no markup is cut in two."""
    found = excerpt(text, most, "more")

    assert (said, True) == (found, len(found) <= most)
