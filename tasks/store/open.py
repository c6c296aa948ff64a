"""Opens a store by its address, a folder or s3://bucket/prefix."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from tasks.store.base import KEY, BadAddress, Store
from tasks.store.folder import FolderStore

S3, S3_STORE = "s3://", "tasks.store.s3:S3Store"  # imported where a gate uses it
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
PLAIN = re.compile(r"[A-Za-z0-9._/-]{1,200}")


def open_store(address: str) -> Store:
    """The store at the address; nothing is accessed yet. Raises BadAddress."""
    if is_remote(address):
        return cast(Store, resolve_name(S3_STORE)(*parted(address)))
    return FolderStore(Path(address).expanduser().absolute())


def is_remote(address: str) -> bool:
    """Whether it is an S3 store. Raises BadAddress for all else that begins like a URL: each machine would have its own folder."""
    if address.startswith(S3):
        return True
    if match := SCHEME.match(address):
        raise BadAddress(_instead(match[1].lower(), address[match.end() :].lstrip("/")))
    return False


def _instead(scheme: str, rest: str) -> str:
    """What to write for an address that begins like a URL. It may hold a password: only a plain rest is repeated."""
    rest = rest if PLAIN.fullmatch(rest) else ""
    if scheme == "s3":
        return f"a store in S3 begins with s3:// in small letters. Write {S3}{rest or 'bucket/prefix'}."
    if scheme == "file":
        return f"a folder is written without file:. Write /{rest or 'path/of/the/folder'}."
    problem = f"a store at {scheme[:32]}:// is not supported"
    return f"{problem}. Name a folder (./{scheme[:32]}:... for one with this name), or s3://bucket/prefix."


def absolute(address: str) -> str:
    """The address that means the same store from every folder. Raises BadAddress."""
    if is_remote(address):
        return f"{S3}{'/'.join(parted(address))}".rstrip("/")
    return str(Path(address).expanduser().absolute())


def parted(address: str) -> tuple[str, str]:
    """ "s3://bucket/a/b/" -> ("bucket", "a/b"). Raises BadAddress."""
    bucket, _, prefix = address.removeprefix(S3).partition("/")
    prefix = prefix.rstrip("/")
    if not BUCKET.fullmatch(bucket):
        raise BadAddress("the store's address names no bucket: it is of the form s3://bucket/prefix.")
    if prefix and (not KEY.fullmatch(prefix) or len(prefix) > 256):
        raise BadAddress(f"the prefix {prefix!r:.80} of bucket {bucket} is not of the form a/b/c.")
    return bucket, prefix
