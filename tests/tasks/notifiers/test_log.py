"""Pages: kept, shown, and free of secrets; and a notifier that cannot be made or raises what it may not."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from tasks.gate_file.people import Notify
from tasks.notifiers.base import Notification, NotifyError
from tasks.notifiers.log import keep_text
from tasks.notifiers.registry import guarded, notifier_for
from tasks.store.base import StoreFull
from tasks.store.folder import FolderStore
from tasks.text.redact import redact, remember_secret
from tests.tasks.notifiers.means import means_in

PAGE = Notification("g-1", "c", "NO-GO c: node-1", "text", "/report.html")
SECRET = "sw0rdf1sh-of-the-test"


def test_the_log_shows_and_keeps_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line on stderr, all of it in the store, below what was sent before; all of it on stderr where it cannot be kept; and nobody
    has to read that.
    """
    store, stream = FolderStore(tmp_path), io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    where = keep_text(PAGE, store, is_status=True)

    assert Path(where).read_text() == "NO-GO c: node-1\n\ntext\n"
    assert stream.getvalue() == f"NOTIFICATION NO-GO c: node-1 (the text is in {where})\n"
    keep_text(replace(PAGE, title="NO CAPACITY c"), store, is_status=False)
    assert Path(where).read_text() == "NO-GO c: node-1\n\ntext\n\nNO CAPACITY c\n\ntext\n"
    monkeypatch.setattr(store, "put", Mock(side_effect=StoreFull("no space is left")))
    with pytest.raises(StoreFull):
        keep_text(PAGE, store, is_status=False)
    assert stream.getvalue().endswith("NOTIFICATION NO-GO c: node-1\n\ntext\n\n")
    monkeypatch.undo()
    stream.close()
    monkeypatch.setattr("sys.stderr", stream)
    assert keep_text(PAGE, store, is_status=True) == where


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError(f"bad header Bearer {SECRET}"), "ValueError: bad header Bearer [removed]"),
        (ModuleNotFoundError("No module named 'slack_sdk'"), "ModuleNotFoundError: No module named 'slack_sdk'"),
        (StoreFull("no space is left"), "no space is left"),
    ],
)  # fmt: skip
def test_notifier_error_becomes_a_failure_without_secrets(error: Exception, text: str) -> None:
    """The next notifier is tried then."""
    remember_secret(SECRET)
    with pytest.raises(NotifyError) as caught:
        guarded(Mock(side_effect=error), 5)
    assert str(caught.value) == text


def test_a_way_without_its_table_is_an_error(tmp_path: Path) -> None:
    """It says what to add."""
    with pytest.raises(NotifyError, match=r"Add \[notify\.pagerduty\]"):
        notifier_for("pagerduty", Notify(), means_in(tmp_path))


def test_secrets_are_taken_out() -> None:
    """By the names of variables, by the forms that credentials have, and what was resolved; what is shorter than a word stays."""
    environment = {"MY_API_TOKEN": "hunter2hunter2", "HOME": "/root", "SHORT_KEY": "abc"}
    text = "hunter2hunter2 /root abc AKIAABCDEFGHIJKLMNOP https://me:pw@host/x"
    remember_secret(f" {SECRET}\n")
    remember_secret("go")

    assert redact(text, environment) == "[removed] /root abc [removed] https://[removed]@host/x"
    assert redact(f"{SECRET} says go", {}) == "[removed] says go"


@pytest.mark.parametrize("before", ["me:pw", ":pw", "a-token", "me:p@ss", "me%40x:pw"])
def test_redaction_removes_credentials_before_the_host_of_a_url(before: str) -> None:
    """A name and a password, a password alone, or a token alone; the rest of the URL stays."""
    text = f"no answer from 'https://{before}@host:1/x?to=a@b' or http://host/y@z"

    assert redact(text, {}) == "no answer from 'https://[removed]@host:1/x?to=a@b' or http://host/y@z"
