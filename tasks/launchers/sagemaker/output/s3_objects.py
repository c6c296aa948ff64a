"""Objects below an S3 prefix: they are listed page by page, read completely or not at all, and many at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from tasks.launchers.base import EngineUnavailable, LaunchError
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.request.locations import bucket_of, key_of

SIDE_BY_SIDE = 8
OBJECTS = 200_000
TIMES = 3  # how often an object that came cut off, or changed meanwhile, is read again


@dataclass(frozen=True)
class ListedObject:
    """One object: its key below the prefix, and S3's own word on version, size and time."""

    path: str
    etag: str
    size: int
    at: datetime


def listed(clients: Clients, prefix: str) -> tuple[ListedObject, ...]:
    """What lies below the prefix, by ListObjectsV2. Raises LaunchError."""
    top = f"{key_of(prefix).strip('/')}/"
    return tuple(_item(item, top) for item in islice(clients.listed(bucket_of(prefix), top), OBJECTS))


def read(clients: Clients, prefix: str, wanted: ListedObject, most: int) -> tuple[ListedObject, bytes]:
    """The object's bytes, if they are what the listing says: as many, of that version. Raises LaunchError.

    An object may have been replaced since it was listed, as an agent replaces its record. It is then listed again, and its new version
    is read, unless that has more than `most` bytes.
    """
    bucket, top = bucket_of(prefix), f"{key_of(prefix).strip('/')}/"

    def whole() -> tuple[bytes, str]:
        return clients.read(bucket, top + wanted.path, wanted.size + 1)

    data = b""
    for _ in range(TIMES):
        data, etag = clients.answer("s3:GetObject", whole) or (b"", "")
        if len(data) == wanted.size and etag == wanted.etag:
            return wanted, data
        if etag == wanted.etag:
            continue
        items = (_item(each, top) for each in clients.listed(bucket, top + wanted.path))
        now = next((item for item in items if item.path == wanted.path), None)
        if now is None or now.size > most:
            break
        wanted = now
    raise LaunchError(
        f"{prefix}/{wanted.path}: {len(data)} bytes came of the {wanted.size} that were listed, or it is being replaced. "
        "Try again."
    )


def read_all(
    clients: Clients, prefix: str, wanted: Iterable[ListedObject], most: int
) -> Iterator[tuple[ListedObject, bytes | str]]:
    """Each object as it was read, with its bytes, a few at a time, or with the reason why it could not be read."""

    silent: list[str] = []

    def read_one(item: ListedObject) -> tuple[ListedObject, bytes | str]:
        if silent:
            return item, silent[0]
        try:
            return read(clients, prefix, item, most)
        except EngineUnavailable as error:
            silent.append(str(error))  # the others would wait as long for nothing
            return item, str(error)
        except LaunchError as error:
            return item, str(error)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield from pool.map(read_one, wanted)


def _item(item: Mapping[str, Any], top: str) -> ListedObject:
    return ListedObject(
        item["Key"][len(top) :], str(item["ETag"]), int(item["Size"]), _utc(item.get("LastModified"))
    )


def _utc(when: object) -> datetime:
    return when.astimezone(UTC) if isinstance(when, datetime) else datetime.fromtimestamp(0, UTC)
