"""Removes this process's secrets from text before the text leaves the process."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
# Whatever stands before the @ of a URL's host, and the forms in which AWS, GitHub and Slack write their own.
FORMS = re.compile(
    r"(?<=://)[^/?#\s]+(?=@)|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}|\bxox[a-z]-[A-Za-z0-9-]{10,}"
)
REMOVED = "[removed]"
LEAST_CHARACTERS = 6

_KNOWN: set[str] = set()
_LOCK = threading.Lock()


def redact(text: str, environment: Mapping[str, str]) -> str:
    """The text without values of variables named like secrets, what `remember_secret` was told, and what looks like a credential."""
    values = {v for k, v in environment.items() if SECRET_NAME.search(k) and len(v) >= LEAST_CHARACTERS}
    with _LOCK:
        values |= _KNOWN
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, REMOVED)
    return FORMS.sub(REMOVED, text)


def remember_secret(value: str) -> None:
    """Remove this value from every text from now on. A value too short to be distinguished from a word is not removed."""
    lines = [line.strip() for line in value.splitlines()]
    with _LOCK:
        _KNOWN.update(text for text in (value.strip(), *lines) if len(text) >= LEAST_CHARACTERS)
