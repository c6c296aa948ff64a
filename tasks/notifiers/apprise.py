"""Any service that Apprise can reach (mail, Teams, SNS, webhooks). Its URLs hold secrets, which appear in no log and no error.

Every URL must accept the notification: if one does not, the failure is logged and the next notifier is tried as well, so that
nobody is left out.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tasks.gate_file.people import AppriseTable
from tasks.notifiers.base import Audience, Notification, Notifier, NotifierAccess, NotifyError, Severity
from tasks.notifiers.log import body_text
from tasks.text.tables import excerpt

if TYPE_CHECKING:
    from apprise import AppriseAsset, NotifyType

TOTAL_S = 20.0
# What these write may repeat a URL's path, which is where webhooks have their secrets.
TALKATIVE = ("apprise", "urllib3.connectionpool", "requests")


class AppriseNotifier(Notifier):
    """Sends the notification's text."""

    name = "apprise"

    def __init__(self, table: AppriseTable, means: NotifierAccess, total_s: float = TOTAL_S) -> None:
        self.table, self.means, self.total_s = table, means, total_s

    def send(self, page: Notification) -> str:
        """Send to each URL in turn; the error names those that failed and those that did not."""
        until = time.monotonic() + self.total_s
        references = self.table.owner_urls if page.audience is Audience.OWNER else self.table.urls
        if not references:
            raise NotifyError("the gate's owner has no URLs. Set [notify.apprise] owner_urls.")
        addresses = [address for reference in references for address in self._addresses(reference)]
        sent, failed = [], []
        for url, name in addresses:
            reason = _send(url, page) if time.monotonic() < until else "there was no time left to send it"
            if reason:
                failed.append(f"{name}: {reason}")
            else:
                sent.append(name)
        if failed:
            rest = f" It was delivered to {', '.join(sent)}." if sent else ""
            raise NotifyError(f"{'; '.join(failed)}.{rest} Try each URL with apprise's own command.")
        return ", ".join(sent)

    def _addresses(self, reference: str) -> list[tuple[str, str]]:
        """The URLs of a reference, and what people call each: "URL 2 of env:NAME (mailtos)".

        They are separated by white space, because a URL may contain a comma.
        """
        urls = self.means.secret(reference).split()
        if not urls:
            raise NotifyError(f"{reference} holds no URL.")
        many = len(urls) > 1
        return [
            (url, f"{f'URL {number} of ' if many else ''}{reference} ({_scheme(url)})")
            for number, url in enumerate(urls, 1)
        ]


def _send(url: str, page: Notification) -> str:
    """Send it; returns why it failed, "" for success. Nothing is repeated of what the service or its library says."""
    try:
        with _silence():
            return "" if _notify(url, page) else "the service did not accept it"
    except NotifyError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a hundred services raise what they like
        return type(error).__name__


def _notify(url: str, page: Notification) -> bool:
    from apprise import Apprise, NotifyFormat

    asset = _asset()
    service = Apprise.instantiate(url, asset=asset)
    if service is None:
        raise NotifyError("Apprise does not know this kind of URL")
    if service.notify_format is NotifyFormat.HTML and "format=" not in url:
        # Apprise makes each space one that does not break: a mail of lines that no telephone wraps.
        service.notify_format = NotifyFormat.TEXT
    sender = Apprise(asset=asset)
    sender.add(service)
    title = excerpt(page.title, service.title_maxlen) if service.title_maxlen > 0 else page.title
    # Without a place for a title Apprise puts it in front of the text, and both have to fit.
    room = service.body_maxlen - (0 if service.title_maxlen > 0 else len(page.title) + 2)
    body = excerpt(body_text(page), max(1, room)) if service.body_maxlen > 0 else body_text(page)
    return bool(
        sender.notify(body=body, title=title, notify_type=_type(page.severity), body_format=NotifyFormat.TEXT)
    )


def _asset() -> AppriseAsset:
    """Settings under which Apprise keeps nothing on disk, loads no plug-ins of a home folder and no images of other servers."""
    from apprise import AppriseAsset, PersistentStoreMode

    return AppriseAsset(
        plugin_paths=[], storage_mode=PersistentStoreMode.MEMORY, app_id="Prelaunch", app_desc="Prelaunch", app_url="",
        image_url_mask="", image_url_logo="", secure_logging=True, pgp_autogen=False, pem_autogen=False,
    )  # fmt: skip


def _type(severity: Severity) -> NotifyType:
    from apprise import NotifyType

    types = {Severity.INFO: NotifyType.INFO, Severity.WARNING: NotifyType.WARNING}
    return types.get(severity, NotifyType.FAILURE)


@contextmanager
def _silence() -> Iterator[None]:
    """Keeps what the libraries log in this thread out of all logs."""
    thread = threading.get_ident()
    loggers = [logging.getLogger(name) for name in TALKATIVE]

    def is_another(record: logging.LogRecord) -> bool:
        return record.thread != thread

    for logger in loggers:
        logger.addFilter(is_another)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_another)


def _scheme(url: str) -> str:
    match = re.match(r"[a-z0-9]{1,20}(?=://)", url)
    return match[0] if match else "no URL"
