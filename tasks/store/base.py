"""Where reports, verdicts and locks are kept: the contract of every store.

StoreError              the store failed; carries the remedy
|- BadKey               the key is not of the form "a/b/c" (a defect of the caller)
|- BadAddress           what was named is neither a folder nor s3://bucket/prefix
|- StoreMissing         there is no such bucket, or a file where its folder should be
|- StoreUnwritable      read-only, no permission or no credentials: nothing can be written
|- StoreUnreachable     it did not answer, or only with "later", until the deadline
`- StoreFull            no space is left
"""

from __future__ import annotations

import re
from typing import Protocol, TypeVar

from checks.documents.decode import decode, parse_json
from checks.value_types import DecodeError

T = TypeVar("T")

KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
KEY_CHARACTERS = 512


class StoreError(Exception):
    """The store failed. The message says what, where, and the remedy; `instead` where what it should have kept was written."""

    def __init__(self, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.instead = instead


class BadKey(StoreError):
    """The key is one that no store accepts."""


class BadAddress(StoreError):
    """The address is neither a folder nor s3://bucket/prefix."""


class StoreMissing(StoreError):
    """There is no such bucket, or a file where its folder should be."""


class StoreUnwritable(StoreError):
    """The store is read-only, or there is no permission, or there are no credentials."""


class StoreUnreachable(StoreError):
    """The store did not answer, or only with "later", until the deadline."""


class StoreFull(StoreError):
    """No space is left."""


class Store(Protocol):
    """Bytes under keys like "gates/local-1/verdict.json". A value is read whole or not at all.

    What was put is durable on return. Every method ends in bounded time, and raises StoreError and nothing else.
    """

    def location(self, key: str) -> str:
        """Where a person finds the key: a path or a URL."""

    def put(self, key: str, data: bytes) -> None:
        """Set the value."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Set the value unless there is one; atomic. Returns whether it was set."""

    def replace_if(self, key: str, old: bytes, new: bytes) -> bool:
        """Set the value if it is `old` now; atomic. Returns whether it was set."""

    def delete_if(self, key: str, old: bytes) -> bool:
        """Remove the key if its value is `old` now; atomic. Returns whether it was removed."""

    def get(self, key: str) -> bytes | None:
        """The value; None if there is none."""

    def list(self, prefix: str) -> tuple[str, ...]:
        """The keys below the folder `prefix` ("" for all), sorted; files that no store could have made are left out."""

    def delete(self, key: str) -> None:
        """Remove the key. A key that is not there is fine."""

    def probe(self) -> None:
        """Raise StoreError unless values can be written now."""


def checked(key: str) -> str:
    """The key. Raises BadKey for one that could leave the store, or that another store would not take."""
    if len(key) > KEY_CHARACTERS or not KEY.fullmatch(key):
        raise BadKey(f"store key {key!r:.120} is not of the form a/b/c")
    return key


def document_at(store: Store, key: str, document_type: type[T], most: int) -> T | None:
    """The document of this type and at most so many bytes under the key; None if there is none. Raises StoreError, DecodeError."""
    data = store.get(key)
    return None if data is None else decode(document_type, parse_json(data, most))


def table_at(store: Store, key: str, most: int) -> dict[str, object] | None:
    """The table in the JSON document under the key; None if it is not there, or cannot be read. Raises StoreError."""
    data = store.get(key)
    try:
        table = parse_json(data, most) if data is not None else None
    except DecodeError:
        return None
    return table if isinstance(table, dict) else None
