"""Pages: kept, shown, and free of secrets."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tasks.gate_file.people import Notify, PagerDutyTable
from tasks.notifiers.base import Audience, Notification, Notifier, NotifierAccess, NotifyError
from tasks.notifiers.log import LogNotifier
from tasks.notifiers.registry import guarded, notifier_for, notifiers_for, send_first
from tasks.text.redact import redact, remember_secret
from tests.tasks.notifiers.means import means_in

PAGE = Notification("g-1", "c", "NO-GO c: node-1", "text", "/report.html")
SECRET = "sw0rdf1sh-of-the-test"


def test_the_log_shows_and_keeps_the_page() -> None:
    """One line on the stream, all of it in the store."""
    kept: dict[str, str] = {}
    stream = io.StringIO()

    where = LogNotifier(lambda key, text: kept.setdefault(key, text) and key, stream).send(PAGE)

    assert (where, stream.getvalue()) == (
        "pages/g-1.txt",
        "NOTIFICATION NO-GO c: node-1 (the text is in pages/g-1.txt)\n",
    )
    assert kept[where] == "NO-GO c: node-1\n\ntext\n"


def test_a_page_that_cannot_be_kept_is_shown_whole() -> None:
    """Else nobody could read it anywhere."""
    stream = io.StringIO()

    def full(key: str, text: str) -> str:
        raise NotifyError("the disk is full")

    with pytest.raises(NotifyError):
        LogNotifier(full, stream).send(PAGE)
    assert stream.getvalue().startswith("NOTIFICATION NO-GO c: node-1\n\ntext\n")


def test_a_closed_stream_does_not_lose_the_page() -> None:
    """Whoever started us may have gone away."""
    stream = io.StringIO()
    stream.close()

    assert LogNotifier(lambda key, text: key, stream).send(PAGE) == "pages/g-1.txt"


def test_a_way_that_cannot_be_made_is_a_failure_like_another() -> None:
    """Its package may be missing."""

    def make(way: str) -> Notifier:
        raise ModuleNotFoundError("No module named 'slack_sdk'")

    assert {"slack": "ModuleNotFoundError: No module named 'slack_sdk'"} == send_first(
        ["slack"], make, PAGE, 5
    )[2]


def test_no_error_repeats_a_secret() -> None:
    """Whatever raised it."""

    def raises() -> None:
        raise ValueError(f"bad header Bearer {SECRET}")

    remember_secret(SECRET)
    with pytest.raises(NotifyError, match=r"^ValueError: bad header Bearer \[removed\]$"):
        guarded(raises, 5)


@pytest.mark.parametrize("way", ["log", "pagerduty"])
def test_the_registry_knows_the_ways_of_the_gate_file(tmp_path: Path, way: str) -> None:
    """Each under its own name."""
    notify = Notify(order=("pagerduty",), owner=("log",), pagerduty=PagerDutyTable())

    assert way == notifier_for(way, notify, means_in(tmp_path)).name


def test_a_way_without_its_table_is_an_error() -> None:
    """It says what to add."""
    unused = NotifierAccess(lambda key, text: key, lambda key: None, lambda key, data: None, str)
    with pytest.raises(NotifyError, match=r"Add \[notify\.pagerduty\]"):
        notifier_for("pagerduty", Notify(), unused)


def test_the_log_is_the_last_way_of_both_sides() -> None:
    """Whatever the file says."""
    notify = Notify(order=("pagerduty",), owner=("log",), pagerduty=PagerDutyTable())

    assert [("pagerduty", "log"), ("log",)] == [notifiers_for(notify, audience) for audience in Audience]


def test_secrets_are_taken_out() -> None:
    """By the names of variables, and by the forms that credentials have."""
    environment = {"MY_API_TOKEN": "hunter2hunter2", "HOME": "/root", "SHORT_KEY": "abc"}
    text = "hunter2hunter2 /root abc AKIAABCDEFGHIJKLMNOP https://me:pw@host/x"

    assert redact(text, environment) == "[removed] /root abc [removed] https://[removed]@host/x"


@pytest.mark.parametrize("before", ["me:pw", ":pw", "a-token", "me:p@ss", "me%40x:pw"])
def test_what_stands_before_the_host_of_a_url_is_taken_out(before: str) -> None:
    """A name and a password, a password alone, or a token alone; the rest of the URL stays."""
    text = f"no answer from 'https://{before}@host:1/x?to=a@b' or http://host/y@z"

    assert "no answer from 'https://[removed]@host:1/x?to=a@b' or http://host/y@z" == redact(text, {})


def test_a_secret_that_was_resolved_is_taken_out() -> None:
    """Wherever it came from, whatever its variable is called; what is shorter than a word stays."""
    remember_secret(f" {SECRET}\n")
    remember_secret("go")

    assert "[removed] says go" == redact(f"{SECRET} says go", {})
