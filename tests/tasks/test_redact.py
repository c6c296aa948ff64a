"""Secrets that are cut, packed, of several lines, or in the log of a node."""

from __future__ import annotations

import gzip
import os

import pytest

from tasks.launchers.base import JobState, JobStatus, LaunchError, NoCapacity, RetainedMachines
from tasks.text.redact import REMOVED, redacted, redacted_gzip, redacted_tail, redactor
from tests.tasks.sessions import READY

KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two variables of this process."""
    monkeypatch.setenv("API_TOKEN", "tk-0123456789abcdef")
    monkeypatch.setenv("PRIVATE_KEY", f"-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\n")


def test_each_line_of_a_secret_is_removed() -> None:
    """A log has a time before each line."""
    assert redacted(f"12:00:01 {KEY}") == f"12:00:01 {REMOVED}"


@pytest.mark.parametrize("begin", [1, 5, 9])
def test_the_end_of_a_log_may_begin_inside_a_secret(begin: int) -> None:
    """What is left of it goes as well, if it is half of it or more."""
    assert redacted_tail(f"{'tk-0123456789abcdef'[begin:]} is wrong\n") == f"{REMOVED} is wrong\n"


@pytest.mark.parametrize(
    ("value", "kept"),
    [("default", True), ("system", True), ("instance-profile", True), ("tk-5f0c9e1d7b3a", False)],
)
def test_a_label_that_is_an_ordinary_word_stays(
    monkeypatch: pytest.MonkeyPatch, value: str, kept: bool
) -> None:
    """Labels and versions are compared: without one of them a healthy machine would be refused."""
    monkeypatch.setenv("AUTH_METHOD", value)

    assert redactor(os.environ, no_words=True)(value) == (value if kept else REMOVED)
    assert redactor(os.environ)(value) == REMOVED


def test_a_word_at_the_beginning_of_a_log_stays() -> None:
    """Also one that is the end of a secret by chance."""
    assert redacted_tail("def main():\n") == "def main():\n"


@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["packed", "a text"])
def test_raw_output_loses_it(pack: object) -> None:
    """Whether it is packed or not; what has no secret keeps its bytes."""
    assert callable(pack)
    made = redacted_gzip(pack(b"x tk-0123456789abcdef y\xff"))
    plain = pack(b"\xffnothing")

    assert (gzip.decompress(made) if pack is gzip.compress else made) == f"x {REMOVED} y".encode() + b"\xff"
    assert redacted_gzip(plain) == plain


def test_engine_texts_contain_no_secret() -> None:
    """Its errors, its words about a job, and those about machines that are kept."""
    said = "refused: tk-0123456789abcdef"
    status = JobStatus(JobState.FAILED, said, "", {}, history=(said,))

    errors = [str(LaunchError(said)), str(NoCapacity(said))]
    found = [*errors, status.text, *status.history, RetainedMachines(READY.state, said).detail]
    assert [text for text in found if "tk-" in text] == []
