"""The log of `prelaunch slack`: one line an event on stderr, without secrets and without tracebacks."""

from __future__ import annotations

import logging
import os
import re
import sys

from tasks.redact import REMOVED, redact
from tasks.render.clean import one_line

# App tokens, and the tickets of the socket's own address.
OURS = re.compile(r"\bxapp-[A-Za-z0-9-]{10,}|(?<=ticket=)[^\s&\"']+|(?<=link_disabled=)[^\s&\"']+")
LINE = 1000


class Plain(logging.Formatter):
    """Time, level and message; what an exception says is in the message already."""

    def format(self, record: logging.LogRecord) -> str:
        """One line. PRELAUNCH_DEBUG=1 adds the traceback."""
        text = redact(OURS.sub(REMOVED, record.getMessage()), os.environ)
        head = f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')} {record.levelname} {one_line(text, LINE)}"
        if record.exc_info and os.environ.get("PRELAUNCH_DEBUG") == "1":
            return f"{head}\n{redact(OURS.sub(REMOVED, self.formatException(record.exc_info)), os.environ)}"
        return head


def log_to_stderr() -> None:
    """Send this process's own log, and nobody else's, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Plain())
    logger = logging.getLogger("prelaunch")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
