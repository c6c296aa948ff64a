"""Send a page through the gate's notifiers in their order. What cannot be sent is said in the log, no more."""

from __future__ import annotations

import logging
import os

from tasks.notifiers.base import NotifyError, Page
from tasks.notifiers.registry import notifiers_for, send_first
from tasks.redact import redact
from tasks.setting import Setting
from tasks.store.base import StoreError

LOG = logging.getLogger("prelaunch")


def deliver(setting: Setting, page: Page) -> str:
    """Where the page went, "" for nowhere."""

    def keep(key: str, text: str) -> str:
        try:
            setting.store.put(key, text.encode("utf-8", "backslashreplace"))
        except StoreError as error:
            raise NotifyError(f"the page is not kept: {error}") from error
        return setting.store.place(key)

    where, failures = send_first(notifiers_for(setting.gate.notify.order, keep), page)
    for failure in failures:
        LOG.error("a page was not sent: %s", failure)
    return where


def still_paid(setting: Setting, gate_id: str, said: tuple[str, ...]) -> str:
    """Page that machines may run on, or be kept, and be paid for. It stands beside the gate's own page."""
    title = redact(f"gate {setting.gate.name}: machines may still run and be paid for: {said[0]}", os.environ)
    lines = [*(f"- {line}" for line in said), "", f"Gate: {gate_id} ({setting.file})"]
    text = redact("\n".join(lines), os.environ)
    return deliver(setting, Page(f"{gate_id}-machines", setting.gate.cluster.name, title, text, ""))
