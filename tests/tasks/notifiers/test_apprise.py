"""Apprise: a mail and a webhook over real sockets, and URLs that hold secrets and never leave."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.gate_file.people import AppriseTable
from tasks.notifiers.apprise import AppriseNotifier
from tasks.notifiers.base import Audience, NotifyError, PageKind, Severity
from tests.fakes.mail import MailServer, Webhook
from tests.fakes.serving import serving
from tests.tasks.notifiers.means import means_in, page

# Apprise imports every plug-in that it has; one of them brings a module that Python will drop.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
TOKEN = "q8Wd71kLmTokenOfTheHook"
NotifierFor = Callable[..., AppriseNotifier]


@pytest.fixture
def notifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NotifierFor:
    """A notifier for these URLs; the owner has one of its own."""

    def made(*urls: str, owner: str = "", total_s: float = 20.0) -> AppriseNotifier:
        monkeypatch.setenv("APPRISE_URLS", "\n".join(urls))
        monkeypatch.setenv("APPRISE_OWNER", owner)
        table = AppriseTable(urls=("env:APPRISE_URLS",), owner_urls=("env:APPRISE_OWNER",))
        return AppriseNotifier(table, means_in(tmp_path), total_s)

    return made


@pytest.fixture
def hook() -> Iterator[Webhook]:
    """A webhook."""
    with serving(Webhook()) as server:
        yield server


@pytest.fixture
def post() -> Iterator[MailServer]:
    """A mail server."""
    with serving(MailServer()) as server:
        yield server


def hook_url(hook: Webhook) -> str:
    """With a secret in its path, as webhooks have it."""
    return f"json://127.0.0.1:{hook.server_port}/hooks/{TOKEN}"


def mail_url(post: MailServer) -> str:
    """To one reader."""
    return f"mailto://127.0.0.1:{post.server_address[1]}?from=gate@corp.test&to=oncall@corp.test"


def test_a_mail_holds_the_page(notifier: NotifierFor, post: MailServer) -> None:
    """The title as its subject, the text, what failed before it, and no file."""
    where = notifier(mail_url(post)).send(page(failed=("slack: no answer",)))
    (mail,) = post.mails
    body = mail.get_body()

    assert "env:APPRISE_URLS (mailto)" == where
    assert "NO-GO p5-prod: node-1, GPU 5 has 3 uncorrected errors in its memory" == mail["Subject"]
    assert body is not None and "text/plain" == body.get_content_type()
    assert ["All of it.", "", "Delivery failed: slack: no answer"] == body.get_content().splitlines()
    assert [] == list(mail.iter_attachments())


def test_a_webhook_gets_title_text_and_severity(notifier: NotifierFor, hook: Webhook) -> None:
    """In Apprise's own words for it."""
    for severity in Severity:
        notifier(hook_url(hook)).send(page(severity=severity))

    path, first = hook.posted[0]
    assert (f"/hooks/{TOKEN}", "All of it.") == (path, first["message"])
    assert first["title"].startswith("NO-GO p5-prod")
    assert ["failure", "failure", "warning", "info"] == [body["type"] for _, body in hook.posted]


def test_the_owner_has_urls_of_its_own(notifier: NotifierFor, hook: Webhook, post: MailServer) -> None:
    """What nobody's hardware is to blame for does not reach the on-call's."""
    notifier(mail_url(post), owner=hook_url(hook)).send(page(PageKind.CANNOT_TELL, audience=Audience.OWNER))

    assert (1, 0) == (len(hook.posted), len(post.mails))


@pytest.mark.parametrize("fault", ["refused", "gone", "mail"])
def test_a_service_that_fails_is_named_without_its_url(
    notifier: NotifierFor, hook: Webhook, post: MailServer, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """So the next way is tried. Neither the error nor a log at any level repeats the path, which is the secret."""
    url, post.refuses, hook.status = mail_url(post) if fault == "mail" else hook_url(hook), True, 500
    if fault == "gone":
        hook.server_close()
    caplog.set_level(logging.DEBUG)
    for name in ("apprise", "urllib3", "requests"):
        caplog.set_level(logging.DEBUG, name)
    with pytest.raises(NotifyError) as caught:
        notifier(url).send(page())

    kind = url.partition(":")[0]
    assert str(caught.value).startswith(f"env:APPRISE_URLS ({kind}): the service did not accept it")
    assert (False, False) == (TOKEN in str(caught.value), TOKEN in caplog.text)
    assert [] == post.mails


def test_apprise_fails_when_one_of_two_urls_fails_and_names_both(
    notifier: NotifierFor, hook: Webhook, post: MailServer
) -> None:
    """Both are tried; who heard and who did not is said."""
    post.refuses = True
    with pytest.raises(NotifyError) as caught:
        notifier(mail_url(post), hook_url(hook)).send(page())

    assert str(caught.value).startswith("URL 1 of env:APPRISE_URLS (mailto): ")
    assert "It was delivered to URL 2 of env:APPRISE_URLS (json)." in str(caught.value)
    assert 1 == len(hook.posted)


@pytest.mark.parametrize("url", ["nosuch://user:secretword9@host/path", "just words", "json://"])
def test_apprise_rejects_an_unknown_url_without_repeating_it(notifier: NotifierFor, url: str) -> None:
    """A variable that holds something else is a mistake to be mended, and may be a secret all the same."""
    with pytest.raises(NotifyError) as caught:
        notifier(url).send(page())

    assert "Apprise does not know this kind of URL" in str(caught.value)
    assert "secretword9" not in str(caught.value)


def test_when_the_time_is_up_the_rest_is_left(notifier: NotifierFor, hook: Webhook) -> None:
    """The next way has to have its turn."""
    with pytest.raises(NotifyError, match="no time left"):
        notifier(hook_url(hook), total_s=0.0).send(page())

    assert [] == hook.posted


def test_a_text_is_cut_where_the_service_cuts(notifier: NotifierFor, hook: Webhook) -> None:
    """With a word that says so."""
    notifier(hook_url(hook)).send(page(text="x" * 100_000))
    message = hook.posted[0][1]["message"]

    assert (32768, True) == (len(message), message.endswith("[cut: the rest is in the report]"))


def test_apprise_writes_no_file_to_the_home_folder(
    notifier: NotifierFor, hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apprise would keep what it sent, and load plug-ins from there."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home))
    notifier(hook_url(hook)).send(page())

    assert ([], 1) == (list(home.rglob("*")), len(hook.posted))
