"""Keeps the text of every notification in the store, and says so in one line on stderr. This is always the last notifier.

The same plain text is sent by notifiers without a layout of their own.
"""

from __future__ import annotations

import contextlib
import sys

from tasks.notifiers.base import Notification
from tasks.store.base import Store, StoreError
from tasks.store.layout import page_key


def body_text(page: Notification) -> str:
    """The result is the text without the title, with one line for each notifier that failed before this one."""
    failed = ("", *(f"Delivery failed: {line}" for line in page.failed)) if page.failed else ()
    return "\n".join([page.text.rstrip("\n"), *failed])


def keep_text(page: Notification, store: Store, is_status: bool) -> str:
    """Store the text below what the gate sent before, and write one line about it to stderr if it is to be shown; returns where it is.

    Raises StoreError if it cannot be stored; then the whole text is written to stderr. It is no failure if nobody reads that.
    """
    text, key = f"{page.title}\n\n{body_text(page)}\n", page_key(page.gate_id)
    try:
        store.put(key, b"\n".join(filter(None, (store.get(key), text.encode("utf-8", "backslashreplace")))))
    except StoreError:
        _write(text)
        raise
    if is_status:
        _write(f"{page.title} (the text is in {store.location(key)})")
    return store.location(key)


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # closed by whoever started us
        print(f"NOTIFICATION {text}", file=sys.stderr, flush=True)
