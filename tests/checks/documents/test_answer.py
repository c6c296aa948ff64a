"""A person's answer as a file: to one attempt of one gate, whole, or none."""

from __future__ import annotations

import pytest

from checks.documents.answer import ANSWER_BYTES, AnswerWord, dump_answer, load_answer
from checks.value_types import DecodeError

MADE = dump_answer("g", "a", AnswerWord.LAUNCH, "ada", "why", "now")


def test_answer_file_is_read_as_written() -> None:
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
def test_answer_for_another_attempt_or_malformed_is_rejected(data: bytes, gate: str, attempt: str) -> None:
    """It starts nothing."""
    with pytest.raises(DecodeError):
        load_answer(data, gate, attempt)
