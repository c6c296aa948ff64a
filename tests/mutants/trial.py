"""Runs tests against a mutant, in a copy of the tree: what a test starts imports the mutant as well, and the tree stays as it is."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

# Marked tests need time, a machine of their own, or commands. tests/conftest.py, which prepares servers, is above the folder that cuts
# it off; those of the folders have fixtures that fast tests want.
# Of hypothesis the same examples each time, and no deadline: a busy machine kills no mutant.
ARGUMENTS = (
    "-x", "-q", "--confcutdir=tests/tasks", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist",
    "--hypothesis-profile=ci",
)  # fmt: skip
UNMARKED = "not long and not alone and not root and not needs and not browser"
TESTS_FAILED, NOTHING_COLLECTED = 1, 5


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Trial:
    """What a run of tests said, and how long it took."""

    fate: Fate
    seconds: float
    said: str


class Copy:
    """A copy of a tree's files in a folder of its own."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        listed = ("git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = subprocess.run(listed, check=True, capture_output=True).stdout.decode().split("\0")
        for name in filter(None, names):
            source, copy = root / name, folder / name
            if source.is_file():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)
        (folder / "tests" / "tasks").mkdir(parents=True, exist_ok=True)
        self._changes = 0

    def try_on(self, module: str, source: bytes, tests: Sequence[str], limit_s: float) -> Trial:
        """Run the tests with this source in the module's place. A mutant that takes longer than the limit is found out."""
        path = self.folder / f"{module.replace('.', '/')}.py"
        before, times = path.read_bytes(), path.stat()
        path.write_bytes(source)
        # Bytecode is valid for the same size and second.
        self._changes += 1
        os.utime(path, (times.st_atime, times.st_mtime + self._changes * 2))
        try:
            return self.run(tests, limit_s)
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def run(self, tests: Sequence[str], limit_s: float) -> Trial:
        """Run these test files until one test fails."""
        argv = (sys.executable, "-m", "pytest", *ARGUMENTS, "-m", UNMARKED, *tests)
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PRELAUNCH_GATES": ""}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        begun = time.monotonic()
        child = subprocess.Popen(
            argv,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            said, code = child.communicate(timeout=limit_s)[0].decode(errors="replace"), child.returncode
        except subprocess.TimeoutExpired:
            return Trial(Fate.TIMED_OUT, time.monotonic() - begun, "")
        finally:
            _end(child)
        fate = Fate.SURVIVED if code in (0, NOTHING_COLLECTED) else Fate.KILLED
        return Trial(fate, time.monotonic() - begun, said)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the tests and whatever they started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()
