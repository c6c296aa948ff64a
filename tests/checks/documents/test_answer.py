"""A person's answer as a file: to one attempt of one gate, whole, or none."""

from __future__ import annotations

import pytest

from checks.documents.answer import ANSWER_BYTES, AnswerWord, dump_answer, load_answer
from checks.value_types import DecodeError

MADE = dump_answer("g", "a", AnswerWord.LAUNCH, "ada", "why", "now")


def test_it_is_read_as_it_was_made() -> None:
    """Who, what and why."""
    found = load_answer(MADE, "g", "a")

    assert ("ada", AnswerWord.LAUNCH, "why", "now") == (found.by, found.word, found.why, found.at)


@pytest.mark.parametrize(
    ("data", "gate", "attempt"),
    [
        (MADE, "g", "another"),
        (MADE, "another", "a"),
        (MADE[:20], "g", "a"),
        (b"", "g", "a"),
        (MADE.replace(b"launch", b"perhaps"), "g", "a"),
        (b" " * (ANSWER_BYTES + 1) + MADE, "g", "a"),
    ],
)
def test_what_is_not_wholly_an_answer_to_this_attempt_is_none(data: bytes, gate: str, attempt: str) -> None:
    """It starts nothing."""
    with pytest.raises(DecodeError):
        load_answer(data, gate, attempt)
