"""The files of a job that this machine sees: copied while others write them, read from their end, and handed to the nodes.

Only complete regular files are copied, whatever disappears or is planted meanwhile.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import stat
import uuid
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from checks.documents.answer import ANSWER
from checks.documents.decode import decode, parse_json
from checks.process.whole_file import write_whole
from checks.value_types import DecodeError
from tasks.launchers.attempts import ATTEMPT
from tasks.launchers.base import JobStatus, Launcher, LaunchError, LaunchRejected, Plan

logger = logging.getLogger(__name__)
STATE_BYTES = 1 << 24


class FolderLauncher(Launcher):
    """A launcher whose jobs leave their files in folders that this machine sees."""

    @abstractmethod
    def _out(self, name: str) -> Path | None:
        """The folder that `fetch` reads; None where there is no such job."""

    def fetch(self, name: str, into: Path) -> None:
        """Copy what is there. Raises LaunchError."""
        with file_errors(f"{name}: its output cannot be fetched", into):
            into.mkdir(parents=True, exist_ok=True)
            out = self._out(name)
            if out is not None:
                copy_whole_files(out, into)

    def answer(self, name: str, attempt: str, data: bytes) -> None:
        """Write the answer where the nodes look for it. Raises LaunchError."""
        out = self._require_attempt(name, attempt)
        with file_errors(f"{name}: the answer cannot be written", out):
            write_whole(out / attempt / ANSWER, data)

    def _require_attempt(self, name: str, attempt: str) -> Path:
        """The folder of the job's files. Raises LaunchRejected for what cannot be an attempt of a job."""
        out = self._out(name)
        if out is None or not re.fullmatch(ATTEMPT, attempt):
            raise LaunchRejected(f"there is no attempt {attempt!r:.80} of job {name!r:.80} to answer.")
        return out

    def _require_own(self, plan: Plan) -> None:
        """Raise LaunchRejected for a plan that another launcher made."""
        if plan != self.plan(plan.job):
            raise LaunchRejected(
                f"{plan.job.name} was planned by a launcher with another root or options. Plan it again."
            )


@contextmanager
def file_errors(failure: str, path: Path) -> Iterator[None]:
    """An OSError within is raised as LaunchError: what cannot be done, and the remedy."""
    try:
        yield
    except OSError as error:
        raise LaunchError(f"{failure}: {file_remedy(error, path)}") from error


def file_remedy(error: OSError, path: Path) -> str:
    """What to do about a folder that cannot be used."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space is left for {path}. Free some, or name another folder."
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST):
        return f"{path} cannot be written ({error.strerror}). Name a folder that can be written, which all nodes of the job see."
    return f"{error.filename or path}: {error.strerror or error}. Look at that file system, or name another folder."


def read_end(path: Path, last_bytes: int) -> str:
    """The end of a file, "" if there is none. Raises OSError."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - last_bytes))
            return file.read(last_bytes).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


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


def _copy(folder: int, name: str, target: Path, path: Path) -> None:
    try:
        # Non-blocking, or a planted FIFO would stop the flow here.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s is not fetched: %s", path, error.strerror)
        return
    with open(descriptor, "rb") as reader:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            logger.warning("%s is not fetched: it is no regular file", path)
        elif not _same(target / name, status):
            _write(reader, target / name, status)


def _same(copy: Path, status: os.stat_result) -> bool:
    """Whether it was fetched before: a copy bears the time of its source."""
    try:
        existing = copy.lstat()
    except FileNotFoundError:
        return False
    return (existing.st_size, existing.st_mtime_ns) == (status.st_size, status.st_mtime_ns)


def _write(reader: IO[bytes], copy: Path, status: os.stat_result) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    temporary = copy.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "wb") as writer:
            shutil.copyfileobj(reader, writer)
        os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(temporary, copy)
    finally:
        temporary.unlink(missing_ok=True)


def parse_state(text: str | bytes) -> JobStatus | None:
    """The state that was kept; None where that is not one."""
    try:
        return decode(JobStatus, parse_json(text, STATE_BYTES))
    except DecodeError:
        return None
