"""Copies a folder while others write to it: complete regular files only, whatever disappears or is planted meanwhile."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

logger = logging.getLogger(__name__)


def copy_whole_files(source: Path, into: Path) -> None:
    """Copy what is new. Names that begin with "." or end in ".tmp" are still being written.

    A link or another special file is never followed nor opened; it is left out, and the log says so. Each
    copy appears under its name when it is whole. Raises OSError where `into` cannot be written.
    """
    into.mkdir(parents=True, exist_ok=True)
    for folder, descriptor, names in _folders(source):
        target = into / folder
        for name in names:
            _copy(descriptor, name, target, source / folder / name)


def _folders(source: Path) -> Iterator[tuple[Path, int, list[str]]]:
    """Each folder below `source`: its relative path, an open descriptor, and the names of its files."""
    if not source.is_dir():
        return
    for path, folders, names, descriptor in os.fwalk(source, onerror=_say, follow_symlinks=False):
        folders[:] = [name for name in sorted(folders) if _finished(name)]
        yield Path(path).relative_to(source), descriptor, [name for name in sorted(names) if _finished(name)]


def _say(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        logger.warning("%s is not fetched: %s", error.filename, error.strerror)


def _finished(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(".tmp")


def _copy(folder: int, name: str, target: Path, said: Path) -> None:
    try:
        # Non-blocking, or a planted FIFO would stop the flow here.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s is not fetched: %s", said, error.strerror)
        return
    with open(descriptor, "rb") as reader:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            logger.warning("%s is not fetched: it is no regular file", said)
        elif not _same(target / name, found):
            _write(reader, target / name, found)


def _same(copy: Path, found: os.stat_result) -> bool:
    """Whether it was fetched before: a copy bears the time of its source."""
    try:
        made = copy.lstat()
    except FileNotFoundError:
        return False
    return (made.st_size, made.st_mtime_ns) == (found.st_size, found.st_mtime_ns)


def _write(reader: IO[bytes], copy: Path, found: os.stat_result) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    temporary = copy.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "wb") as writer:
            shutil.copyfileobj(reader, writer)
        os.utime(temporary, ns=(found.st_atime_ns, found.st_mtime_ns))
        os.replace(temporary, copy)
    finally:
        temporary.unlink(missing_ok=True)
