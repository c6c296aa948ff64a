"""Pages: kept, shown, tried one after the other, and free of secrets."""

from __future__ import annotations

import io

from tasks.notifiers.base import NotifyError, Page
from tasks.notifiers.log import LogNotifier
from tasks.notifiers.registry import notifiers_for, send_first
from tasks.redact import redact

PAGE = Page("g-1", "c", "NO-GO c: node-1", "text", "/report.html")


class Broken:
    """A notifier that behaves like one whose service is down."""

    name = "broken"

    def send(self, page: Page) -> str:
        """Never sends."""
        raise NotifyError("no answer")


def test_the_log_shows_and_keeps_the_page() -> None:
    """One line on the stream, all of it in the store."""
    kept: dict[str, str] = {}
    stream = io.StringIO()

    where = LogNotifier(lambda key, text: kept.setdefault(key, text) and key, stream).send(PAGE)

    assert (where, stream.getvalue()) == ("pages/g-1.txt", "PAGE NO-GO c: node-1\n")
    assert kept[where] == "NO-GO c: node-1\n\ntext\n"


def test_a_closed_stream_does_not_lose_the_page() -> None:
    """Whoever started us may have gone away."""
    stream = io.StringIO()
    stream.close()

    assert LogNotifier(lambda key, text: key, stream).send(PAGE) == "pages/g-1.txt"


def test_the_next_notifier_is_tried() -> None:
    """A page goes out by the first that works; what failed is said."""
    works = LogNotifier(lambda key, text: key, io.StringIO())

    assert send_first([Broken(), works], PAGE) == ("pages/g-1.txt", ("broken: no answer",))
    assert send_first([Broken()], PAGE) == ("", ("broken: no answer",))


def test_the_registry_knows_every_name_of_the_gate_file() -> None:
    """A gate file's order becomes notifiers."""
    assert [notifier.name for notifier in notifiers_for(["log"], lambda key, text: key)] == ["log"]


def test_secrets_are_taken_out() -> None:
    """By the names of variables, and by the forms that credentials have."""
    environment = {"MY_API_TOKEN": "hunter2hunter2", "HOME": "/root", "SHORT_KEY": "abc"}
    text = "hunter2hunter2 /root abc AKIAABCDEFGHIJKLMNOP https://me:pw@host/x"

    assert redact(text, environment) == "[removed] /root abc [removed] https://[removed]@host/x"
