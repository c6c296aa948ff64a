"""Secrets of this process taken out of text that leaves it."""

from __future__ import annotations

import re
from collections.abc import Mapping

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
# user:password@ of a URL, and the forms in which AWS, GitHub and Slack write their own.
FORMS = re.compile(
    r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}|\bxox[a-z]-[A-Za-z0-9-]{10,}"
)
REMOVED = "[removed]"
LEAST_CHARACTERS = 6


def redact(text: str, environment: Mapping[str, str]) -> str:
    """The text without values of variables named like secrets, and without what looks like a credential."""
    values = {v for k, v in environment.items() if SECRET_NAME.search(k) and len(v) >= LEAST_CHARACTERS}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, REMOVED)
    return FORMS.sub(REMOVED, text)
