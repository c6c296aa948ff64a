"""A person's answer as a file: to one attempt of one gate, whole, or none."""

from __future__ import annotations

import pytest

from checks.documents import answer
from checks.documents.answer import Word
from checks.documents.decode import DecodeError

MADE = answer.make("g", "a", Word.LAUNCH, "ada", "why", "now")


def test_it_is_read_as_it_was_made() -> None:
    """Who, what and why."""
    found = answer.load(MADE, "g", "a")

    assert ("ada", Word.LAUNCH, "why", "now") == (found.by, found.word, found.why, found.at)


@pytest.mark.parametrize(
    ("data", "gate", "attempt"),
    [
        (MADE, "g", "another"),
        (MADE, "another", "a"),
        (MADE[:20], "g", "a"),
        (b"", "g", "a"),
        (MADE.replace(b"launch", b"perhaps"), "g", "a"),
        (b" " * (answer.ANSWER_BYTES + 1) + MADE, "g", "a"),
    ],
)
def test_what_is_not_wholly_an_answer_to_this_attempt_is_none(data: bytes, gate: str, attempt: str) -> None:
    """It starts nothing."""
    with pytest.raises(DecodeError):
        answer.load(data, gate, attempt)
