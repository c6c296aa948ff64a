"""Pages as text on stderr and in the store: always there, reaches whoever reads logs."""

from __future__ import annotations

import sys
from typing import TextIO

from tasks.notifiers.base import NotifyError, Page
from tasks.store.base import Store, StoreError


class LogNotifier:
    """Writes the page to a stream (stderr) and to pages/<gate id>.txt of the store."""

    name = "log"

    def __init__(self, store: Store, stream: TextIO | None = None) -> None:
        self.store, self.stream = store, stream

    def send(self, page: Page) -> str:
        """Both; a stream that nobody reads is no failure, a page that is not kept is."""
        key = f"pages/{page.gate_id}.txt"
        stream = self.stream or sys.stderr
        try:
            print(f"PAGE {page.title}", file=stream, flush=True)
        except (OSError, ValueError):
            pass  # closed by whoever started us; the store still gets it
        try:
            self.store.put(key, f"{page.title}\n\n{page.text}\n".encode("utf-8", "backslashreplace"))
        except StoreError as error:
            raise NotifyError(f"the page is not kept: {error}") from error
        return self.store.place(key)
