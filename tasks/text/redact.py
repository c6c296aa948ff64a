"""Removes this process's secrets from text before the text leaves the process."""

from __future__ import annotations

import gzip
import io
import os
import re
import threading
import zlib
from collections.abc import Callable, Mapping

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
# Whatever stands before the @ of a URL's host, and the forms in which AWS, GitHub and Slack write their own.
FORMS = re.compile(
    r"(?<=://)[^/?#\s]+(?=@)|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}|\bxox[a-z]-[A-Za-z0-9-]{10,}"
)
REMOVED = "[removed]"
LEAST_CHARACTERS = 6
UNPACKED_BYTES = 1 << 26  # more than any tool prints, and no more than this process can hold

_SECRETS: set[str] = set()
_LOCK = threading.Lock()


def redact(text: str, environment: Mapping[str, str]) -> str:
    """The text without values of variables named like secrets, what `remember_secret` was told, and what looks like a credential."""
    return redactor(environment)(text)


def redacted(text: str) -> str:
    """`redact` with the environment of this process. Whatever an engine, a node or a training says passes through it where it is read,
    so that no place that shows, sends or keeps it has to.
    """
    return redactor(os.environ)(text)


def remove_secrets(record: object, *names: str) -> None:
    """`redacted`, of these texts of a frozen dataclass that is being made."""
    for name in names:
        object.__setattr__(record, name, redacted(getattr(record, name)))


def redacted_tail(text: str) -> str:
    """`redacted`, of the end of a longer text, which may begin inside a secret: then its second half, or more of it, goes as well."""
    ends = (value[-n:] for value in _values(os.environ) for n in range(len(value) - 1, len(value) // 2, -1))
    begun = next((end for end in ends if len(end) >= LEAST_CHARACTERS and text.startswith(end)), "")
    return redacted(REMOVED + text[len(begun) :] if begun else text)


def redacted_gzip(data: bytes) -> bytes:
    """`redacted`, of a text that is packed; what is no gzip file is taken for a text."""
    try:
        with gzip.open(io.BytesIO(data)) as file:
            packed, content = True, file.read(UNPACKED_BYTES)
    except (OSError, EOFError, zlib.error):
        packed, content = False, data
    text = content.decode("utf-8", "surrogateescape")
    clean = redacted(text)
    if clean == text and len(content) < UNPACKED_BYTES:
        return data
    encoded = clean.encode("utf-8", "surrogateescape")
    return gzip.compress(encoded, mtime=0) if packed else encoded


def redactor(environment: Mapping[str, str], no_words: bool = False) -> Callable[[str], str]:
    """`redact` for many texts. With `no_words` it leaves values that may be an ordinary word, as AUTH_METHOD has one: labels and
    versions are compared, and must stay what they are.
    """
    values = [value for value in _values(environment) if not no_words or _is_random(value)]

    def remove(text: str) -> str:
        for value in values:
            text = text.replace(value, REMOVED)
        return FORMS.sub(REMOVED, text)

    return remove


def _is_random(value: str) -> bool:
    return len(value) >= 12 and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _values(environment: Mapping[str, str]) -> list[str]:
    """The secrets, the longest first: one may be a part of another."""
    secret = (v for k, v in environment.items() if SECRET_NAME.search(k))
    with _LOCK:
        return sorted(_SECRETS.union(*map(_lines, secret)), key=len, reverse=True)


def remember_secret(value: str) -> None:
    """Remove this value from every text from now on. A value too short to be distinguished from a word is not removed."""
    with _LOCK:
        _SECRETS.update(_lines(value))


def _lines(value: str) -> set[str]:
    """A secret and each of its lines: a log has something before each of them."""
    return {
        line for line in (value.strip(), *map(str.strip, value.splitlines())) if len(line) >= LEAST_CHARACTERS
    }
