"""A person's answer as a file: to one attempt of one gate, whole, or none."""

from __future__ import annotations

import pytest

from checks import asked
from checks.asked import Word
from checks.decode import DecodeError

MADE = asked.make("g", "a", Word.LAUNCH, "ada", "why", "now")


def test_it_is_read_as_it_was_made() -> None:
    """Who, what and why."""
    found = asked.load(MADE, "g", "a")

    assert ("ada", Word.LAUNCH, "why", "now") == (found.by, found.word, found.why, found.at)


@pytest.mark.parametrize(
    ("data", "gate", "attempt"),
    [
        (MADE, "g", "another"),
        (MADE, "another", "a"),
        (MADE[:20], "g", "a"),
        (b"", "g", "a"),
        (MADE.replace(b"launch", b"perhaps"), "g", "a"),
        (b" " * (asked.ANSWER_BYTES + 1) + MADE, "g", "a"),
    ],
)
def test_what_is_not_wholly_an_answer_to_this_attempt_is_none(data: bytes, gate: str, attempt: str) -> None:
    """It starts nothing."""
    with pytest.raises(DecodeError):
        asked.load(data, gate, attempt)
