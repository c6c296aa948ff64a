"""Pages as text on stderr and in the store: always there, reaches whoever reads logs."""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

from tasks.notifiers.base import Keep, Page


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
        return self.keep(f"pages/{page.gate_id}.txt", f"{page.title}\n\n{page.text}\n")
