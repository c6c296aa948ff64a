"""The private folders of an agent on its machine, and the removal of those that a killed one left, with the key of its gate.

A process that is killed removes nothing. So each folder is locked (flock(2)) for as long as its process, or a fork of it, lives,
and the next agent removes those that nobody holds. tasks/launchers/start.sh and zipapp_main.py lock the folder of the code in the
same way.
Folders that cannot be locked, and those of older versions, have other names and are left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

LOCKED = ("prelaunch-agent.", "prelaunch-code.")
UNLOCKABLE = "prelaunch-agent-"
# Between the making of a folder and its lock.
JUST_MADE_S = 60.0
_HELD: dict[Path, int] = {}


def make() -> Path:
    """A new folder that is this process's own. Raises OSError."""
    folder = Path(tempfile.mkdtemp(prefix=LOCKED[0]))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:  # nobody could see that it is in use; the empty one is removed by the next agent
        os.close(descriptor)
        return Path(tempfile.mkdtemp(prefix=UNLOCKABLE))
    _HELD[folder] = descriptor
    return folder


def remove(folder: Path) -> None:
    """Remove a folder that `make` made."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder in _HELD:
        os.close(_HELD.pop(folder))


def remove_abandoned() -> None:
    """Remove what killed processes of this user left. Nothing that cannot be removed is an error."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(LOCKED):
                with contextlib.suppress(OSError):
                    _remove_unless_held(Path(entry.path), entry.stat(follow_symlinks=False))


def _remove_unless_held(folder: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid() or time.time() - status.st_mtime < JUST_MADE_S:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
