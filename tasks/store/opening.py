"""The one way to a store: by its address, a folder or s3://bucket/prefix."""

from __future__ import annotations

from pathlib import Path

from tasks.store.base import BadAddress, Store
from tasks.store.folder import FolderStore
from tasks.store.s3 import S3Store, parted

S3 = "s3://"


def open_store(address: str) -> Store:
    """The store; nothing is touched yet. Raises BadAddress."""
    if is_remote(address):
        bucket, prefix = parted(address)
        return S3Store(bucket, prefix)
    return FolderStore(Path(address).expanduser().absolute())


def is_remote(address: str) -> bool:
    """Whether it is an S3 store. Raises BadAddress for a URL of another kind."""
    if address.startswith(S3):
        return True
    scheme, url, _ = address.partition("://")
    if url:
        said = f"a store at {scheme[:32]!r}:// is not supported. Name a folder, or s3://bucket/prefix."
        raise BadAddress(said)
    return False


def absolute(address: str) -> str:
    """The address that means the same store from every folder. Raises BadAddress."""
    if is_remote(address):
        bucket, prefix = parted(address)
        return f"{S3}{bucket}/{prefix}".rstrip("/")
    return str(Path(address).expanduser().absolute())
