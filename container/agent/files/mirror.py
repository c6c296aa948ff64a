"""Copies a folder that grows to another folder, to S3 or to the log, file by file and only complete files, until it is closed.

A copy that failed is tried again. What is still missing at the end is reported, because a report that never arrived
is no report.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

from checks.process.whole_file import write_whole
from container.agent.files import s3
from container.agent.files.log_lines import LogFiles

PERIOD_S, MOST_S = 1.0, 10.0
FIRST_RETRY_S = 0.05


Mark = tuple[int, int]


class Mirror:
    """A thread of its own, so that a slow S3 delays neither checks nor signals. `to` "" copies nowhere.

    With `from_now` what lies there already is left where it is: another life wrote it. With `log` the files go there, and `to` is
    only its name.
    """

    def __init__(self, source: Path, to: str, from_now: bool = False, log: LogFiles | None = None) -> None:
        self._source, self._to, self._log = source, to.rstrip("/"), log
        self._done = _marks(source) if from_now else {}
        self._problems: dict[Path, str] = {}
        self._hopeless = False
        self._until = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if to:
            self._thread.start()

    def close(self, within_s: float) -> str:
        """Copy for the last time; returns what could not be copied, or "". Waits no longer than `within_s`."""
        if not self._to:
            return ""
        self._until = time.monotonic() + within_s
        self._closing.set()
        self._thread.join(within_s)
        if self._thread.is_alive():
            return f"the copy to {self._to} did not end within {within_s:g} s"
        return "; ".join(list(self._problems.values())[:3])

    def _run(self) -> None:
        wait = PERIOD_S
        while not self._closing.wait(wait):
            self._copy_new()
            wait = min(wait * 2, MOST_S) if self._problems else PERIOD_S
        wait = FIRST_RETRY_S
        while True:
            self._copy_new()
            if not self._problems or self._hopeless or time.monotonic() + wait > self._until:
                return
            time.sleep(wait)
            wait = min(wait * 2, MOST_S)

    def _copy_new(self) -> None:
        problems: dict[Path, str] = {}
        self._hopeless = False
        for path in _files(self._source):
            try:
                self._copy(path)
            except FileNotFoundError:
                continue  # replaced meanwhile: the next look sees the new one
            except (OSError, s3.S3Error) as error:
                problems[path] = f"{path.name}: {error}"
                self._hopeless |= not (isinstance(error, s3.S3Error) and error.passing)
        self._problems = problems

    def _copy(self, path: Path) -> None:
        # Non-blocking, or a planted FIFO would stop the copy here.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            paths = os.fstat(file.fileno())
            mark = _mark(paths)
            if not stat.S_ISREG(paths.st_mode) or self._done.get(path) == mark:
                return
            data = file.read()
        relative = path.relative_to(self._source)
        if self._log is not None:
            if not self._log.put(relative, data, self._closing.is_set()):
                return
        elif s3.is_url(self._to):
            s3.put(f"{self._to}/{relative.as_posix()}", data)
        else:
            write_whole(Path(self._to) / relative, data)
        self._done[path] = mark


def _mark(paths: os.stat_result) -> Mark:
    return paths.st_mtime_ns, paths.st_size


def _marks(folder: Path) -> dict[Path, Mark]:
    """The present state of every file of the folder."""
    paths: dict[Path, Mark] = {}
    for path in _files(folder):
        try:
            paths[path] = _mark(path.lstat())
        except OSError:
            continue
    return paths


def _files(folder: Path) -> list[Path]:
    """The files below, links apart; names that begin with "." are still being written."""
    paths = []
    for path, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [Path(path) / name for name in sorted(names) if not name.startswith(".")]
    return [path for path in paths if not path.is_symlink()]
