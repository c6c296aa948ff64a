"""Pages as text on stderr and in the store: always there, reaches whoever reads logs."""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

from tasks.notifiers.base import Keep, Page, Status
from tasks.notifiers.plain import page_key, page_text


class LogNotifier:
    """Writes the page to a stream (stderr) and to pages/<gate id>.txt of the store."""

    name = "log"

    def __init__(self, keep: Keep, stream: TextIO | None = None) -> None:
        self.keep, self.stream = keep, stream

    def send(self, page: Page) -> str:
        """Both; a stream that nobody reads is no failure, a page that is not kept is."""
        stream = self.stream or sys.stderr
        with contextlib.suppress(OSError, ValueError):  # closed by whoever started us
            print(f"PAGE {page.title}", file=stream, flush=True)
        return self.keep(page_key(page), page_text(page))

    def settle(self, page: Page) -> str:
        """Nothing to bring up to date."""
        return ""

    def show(self, status: Status) -> None:
        """Progress is shown by whoever started the gate."""
