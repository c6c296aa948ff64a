"""A store in a folder. Values appear by rename; conditional changes happen under the store's one file lock."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from checks.process.machine_state import lock_within
from tasks.store.base import (
    KEY,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreUnreachable,
    StoreUnwritable,
    checked,
)
from tasks.store.layout import is_log

LOCK = ".lock"
TEMPORARY = ".tmp-"
# It is held for the time of one small write.
LOCK_S = 30.0
LOCK_AGAIN_S = 0.01
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# ENOENT and EINVAL: a file system such as /proc, in which nobody can make a file.
UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.EINVAL)


class FolderStore:
    """Keeps values as files below `root`, which is made when the first value is written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def location(self, key: str) -> str:
        """The file's absolute path."""
        return str((self.root / checked(key)).absolute())

    def put(self, key: str, data: bytes) -> None:
        """Write beside, sync, rename."""
        path = self.root / checked(key)
        with self._errors(path), self._written(path, data) as temporary:
            os.replace(temporary, path)
            _sync_folder(path.parent)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """A hard link fails where the name exists, even if locks do nothing on this file system."""
        path = self.root / checked(key)
        with self._errors(path), self._locked(), self._written(path, data) as temporary:
            if path.exists():
                return False
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                    raise
                os.replace(temporary, path)  # no hard links here; the lock is held
            _sync_folder(path.parent)
            return True

    def replace_if(self, key: str, old: bytes, new: bytes) -> bool:
        """Compare and rename under the lock."""
        path = self.root / checked(key)
        with self._errors(path), self._locked():
            if self.get(key) != old:
                return False
            with self._written(path, new) as temporary:
                os.replace(temporary, path)
            _sync_folder(path.parent)
            return True

    def delete_if(self, key: str, old: bytes) -> bool:
        """Compare and unlink under the lock."""
        path = self.root / checked(key)
        with self._errors(path), self._locked():
            if self.get(key) != old:
                return False
            path.unlink()
            return True

    def get(self, key: str) -> bytes | None:
        """The file's bytes."""
        path = self.root / checked(key)
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}. Correct its permissions.") from error

    def list(self, prefix: str) -> tuple[str, ...]:
        """Every file below, except those that are being written."""
        top = self.root / checked(prefix) if prefix else self.root
        keys: list[str] = []
        for folder, folders, files in os.walk(top, onerror=_unless_gone):
            folders[:] = [name for name in folders if not name.startswith(".")]
            inside = Path(folder).relative_to(self.root).parts
            keys += ["/".join((*inside, name)) for name in files]
        return tuple(sorted(key for key in keys if KEY.fullmatch(key)))

    def delete(self, key: str) -> None:
        """Unlink."""
        path = self.root / checked(key)
        with self._errors(path):
            path.unlink(missing_ok=True)

    def probe(self) -> None:
        """Write, sync and remove a small file, and take the lock."""
        path = self.root / "probe"
        with self._errors(self.root), self._locked(), self._written(path, b"probe\n" * 1024):
            pass

    @contextlib.contextmanager
    def _written(self, path: Path, data: bytes) -> Iterator[Path]:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}")
        try:
            mode = 0o600 if is_log(path.relative_to(self.root).as_posix()) else 0o666
            with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with open(self.root / LOCK, "ab") as file:
            # The kernel lets go of it when its holder dies; one that is stopped must not stop everybody.
            if not lock_within(file, LOCK_S, LOCK_AGAIN_S):
                message = f"another process has held {file.name} for {LOCK_S:g} s. See which (fuser -v {file.name}), and end it."
                raise StoreUnreachable(message)
            yield

    @contextlib.contextmanager
    def _errors(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"{error.filename or path}: {error.strerror or error}"
            if error.errno in FULL:
                # Which file was too large for it helps nobody.
                text = f"the store {self.root} is full ({error.strerror or error}). Free space there."
                raise StoreFull(text) from error
            if error.errno in UNWRITABLE:
                raise StoreUnwritable(
                    f"the store {self.root} cannot be written ({message}). "
                    "Run where you may write, or set [store] path in the gate file."
                ) from error
            raise StoreError(f"the store {self.root} failed ({message}). Check its file system.") from error


def _read(path: Path) -> bytes:
    """Read a regular file only, because reading a named pipe would never end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        return file.read()


def _unless_gone(error: OSError) -> None:
    """Raise unless the folder is gone: a folder that cannot be read is not an empty one."""
    if isinstance(error, NotADirectoryError):
        message = f"{error.filename}: a part of it is a file. Name the folder of a store."
        raise StoreMissing(message) from error
    if not isinstance(error, FileNotFoundError):
        message = f"{error.filename} cannot be listed: {error.strerror}. Correct its permissions."
        raise StoreError(message) from error


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
