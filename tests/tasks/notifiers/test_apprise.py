"""Apprise: a mail and a webhook over real sockets, and URLs that hold secrets and never leave."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.gate_file.people import AppriseTable
from tasks.notifiers.apprise import AppriseNotifier, hidden
from tasks.notifiers.base import Audience, Kind, NotifyError, Severity
from tests.fakes.mail import MailServer, Webhook, mail_server, webhook
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
    with webhook() as server:
        yield server


@pytest.fixture
def post() -> Iterator[MailServer]:
    """A mail server."""
    with mail_server() as server:
        yield server


def hook_url(hook: Webhook) -> str:
    """With a secret in its path, as webhooks have it."""
    return f"json://127.0.0.1:{hook.port}/hooks/{TOKEN}"


def mail_url(post: MailServer) -> str:
    """To one reader."""
    return f"mailto://127.0.0.1:{post.port}?from=gate@corp.test&to=oncall@corp.test"


def test_a_mail_holds_the_page(notifier: NotifierFor, post: MailServer) -> None:
    """The title as its subject, the text, what failed before it, and no file."""
    where = notifier(mail_url(post)).send(page(said=("slack: no answer",)))
    (mail,) = post.mails
    body = mail.get_body()

    assert "env:APPRISE_URLS (mailto)" == where
    assert "NO-GO p5-prod: node-1, GPU 5 has 3 uncorrected errors in its memory" == mail["Subject"]
    assert body is not None and "text/plain" == body.get_content_type()
    assert ["All of it.", "", "Delivery failed: slack: no answer"] == body.get_content().splitlines()
    assert [] == list(mail.iter_attachments())


@pytest.mark.parametrize(
    ("severity", "kind"),
    [
        (Severity.CRITICAL, "failure"),
        (Severity.ERROR, "failure"),
        (Severity.WARNING, "warning"),
        (Severity.INFO, "info"),
    ],
)
def test_a_webhook_gets_title_text_and_severity(
    notifier: NotifierFor, hook: Webhook, severity: Severity, kind: str
) -> None:
    """In Apprise's own words for it."""
    notifier(hook_url(hook)).send(page(severity=severity))
    ((path, said),) = hook.posted

    assert (f"/hooks/{TOKEN}", "All of it.", kind) == (path, said["message"], said["type"])
    assert said["title"].startswith("NO-GO p5-prod")


def test_the_owner_has_urls_of_its_own(notifier: NotifierFor, hook: Webhook, post: MailServer) -> None:
    """What nobody's hardware is to blame for does not reach the on-call's."""
    notifier(mail_url(post), owner=hook_url(hook)).send(page(Kind.CANNOT_TELL, audience=Audience.OWNER))

    assert (1, 0) == (len(hook.posted), len(post.mails))


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_service_that_refuses_is_named_without_its_url(
    notifier: NotifierFor, hook: Webhook, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """Neither the error nor a log at any level repeats the path, which is the secret."""
    hook.status = status
    caplog.set_level(logging.DEBUG)
    for name in ("apprise", "urllib3", "requests"):
        caplog.set_level(logging.DEBUG, name)
    with pytest.raises(NotifyError) as caught:
        notifier(hook_url(hook)).send(page())

    assert str(caught.value).startswith("env:APPRISE_URLS (json): ") and str(status) in str(caught.value)
    assert (False, False) == (TOKEN in str(caught.value), TOKEN in caplog.text)


@pytest.mark.parametrize(
    ("address", "secrets"),
    [
        ("mailtos://ops:hunter.two@mail.corp.test", ("hunter.two",)),
        ("json://ops:12345678@127.0.0.1:8080/x", ("12345678",)),
        ("tgram://987654321:AAbbCC-tail/1122334455", ("987654321", "AAbbCC-tail", "1122334455")),
        ("json://ops:pass.word@corp.test/hooks/a.b.c1", ("pass.word", "a.b.c1")),
    ],
)
def test_what_looks_like_a_host_or_a_port_is_no_excuse_for_a_secret(
    address: str, secrets: tuple[str, ...]
) -> None:
    """A service may repeat any part of its URL; the host and the port alone are shown."""
    host = address.rpartition("@")[2].partition("/")[0] if "@" in address else "127.0.0.1:25"
    said = hidden(f"{host} did not take {' '.join(secrets)}", address)

    assert f"{host} did not take {' '.join(['[removed]'] * len(secrets))}" == said


def test_a_mail_server_that_refuses_is_a_failure(notifier: NotifierFor, post: MailServer) -> None:
    """So the next way is tried."""
    post.refuses = True
    with pytest.raises(NotifyError, match=r"env:APPRISE_URLS \(mailto\)"):
        notifier(mail_url(post)).send(page())

    assert [] == post.mails


def test_a_server_that_is_not_there_is_a_failure(notifier: NotifierFor, hook: Webhook) -> None:
    """Nobody listens."""
    url = hook_url(hook)
    hook.server_close()
    with pytest.raises(NotifyError, match="Connection error"):
        notifier(url).send(page())


def test_one_of_two_is_not_enough(notifier: NotifierFor, hook: Webhook, post: MailServer) -> None:
    """Both are tried; who heard and who did not is said."""
    post.refuses = True
    with pytest.raises(NotifyError) as caught:
        notifier(mail_url(post), hook_url(hook)).send(page())

    assert str(caught.value).startswith("URL 1 of env:APPRISE_URLS (mailto): ")
    assert "It was delivered to URL 2 of env:APPRISE_URLS (json)." in str(caught.value)
    assert 1 == len(hook.posted)


@pytest.mark.parametrize("url", ["nosuch://user:secretword9@host/path", "just words", "json://"])
def test_what_is_no_url_is_said_without_it(notifier: NotifierFor, url: str) -> None:
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


def test_nothing_is_written_to_a_home_folder(
    notifier: NotifierFor, hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apprise would keep what it sent, and load plug-ins from there."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home))
    notifier(hook_url(hook)).send(page())

    assert ([], 1) == (list(home.rglob("*")), len(hook.posted))


def test_a_go_calls_nobody(notifier: NotifierFor, hook: Webhook) -> None:
    """What was sent cannot be brought up to date."""
    assert ("", []) == (notifier(hook_url(hook)).settle(page(Kind.GO)), hook.posted)
