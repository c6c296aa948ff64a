"""The embedded server's SQLite file: made once, copied if possible, never half made.

A file counts as finished once its `user_version` is set, which happens after the last migration. Its name contains the
Prefect version: another version starts a file of its own and never migrates, or is refused by,
the history of the first. Deleting any of these files loses the display of past runs and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

_FINISHED = 1
_NOT_A_DATABASE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold `path` as a lock against other processes; the kernel frees it when its holder dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_finished(database: Path) -> bool:
    """Whether this is a database whose migrations all ran; False for an absent, broken or half made one."""
    if not database.is_file():
        return False
    try:
        with contextlib.closing(_connect(database)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            revisions = connection.execute("SELECT count(*) FROM alembic_version").fetchone()[0]
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return False
        raise
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in _NOT_A_DATABASE:
            return False
        raise
    return bool(version == _FINISHED and revisions == 1)


def is_intact(database: Path) -> bool:
    """Whether this is a finished database without a damaged page. Reads all of it: for the small template."""
    if not is_finished(database):
        return False
    try:
        with contextlib.closing(_connect(database)) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in _NOT_A_DATABASE:
            return False
        raise


def mark_finished(database: Path) -> None:
    """Say that the migrations of this file are complete."""
    with contextlib.closing(_connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {_FINISHED}")


def set_aside(database: Path) -> None:
    """Move an unfinished or broken file out of the way, replacing what was set aside before it."""
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{database}{suffix}", f"{database}.unusable{suffix}")


def copy_database(source: Path, target: Path) -> None:
    """Copy a database whole, appearing under its name only when complete. Raises OSError, sqlite3.Error."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        with contextlib.closing(_connect(source)) as old, contextlib.closing(_connect(Path(name))) as new:
            old.backup(new)
        os.replace(name, target)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(name + suffix).unlink(missing_ok=True)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=30)
