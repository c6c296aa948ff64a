"""A process of remediation is killed, or its store goes away, at any moment; another goes on: each act is made once, or never."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tasks.remediation.records import Records
from tasks.store.folder import FolderStore
from tests.tasks.remediation import mortal
from tests.tasks.remediation.simulated_engine import BEGIN

ROOT = Path(__file__).resolve().parents[3]
# The next process begins this much later: what was under way is done, and the verdict is not too old.
LATER_S = 300.0
ENDS = {"kill": -9, "away": 3}
# The requests of a remediation that nothing disturbs.
WHOLE = ["fence", "reboot", "open", "close", "free"]


def process(folder: Path, moment: int, clock: float, how: str = "kill") -> subprocess.CompletedProcess[str]:
    """Run one to its end."""
    words = (sys.executable, "-m", mortal.__name__, str(folder), str(moment), str(clock), how)
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def requests(folder: Path) -> Counter[str]:
    """What the engine was asked for."""
    path = folder / "requests"
    return Counter(path.read_text().split() if path.exists() else [])


def whole(folder: Path) -> tuple[int, int]:
    """A run that nobody disturbs: how many moments there are, and the one right before the reboot takes effect."""
    folder.mkdir()
    done = process(folder, 0, BEGIN)
    assert WHOLE == (folder / "requests").read_text().split()
    lines = (folder / "moments").read_text().splitlines()
    return int(done.stdout), int(next(line.split()[1] for line in lines if line.startswith("reboot")))


def reboots(folder: Path, moment: int, how: str) -> list[int]:
    """Let it happen at this moment and others go on; how many reboots were requested until then, and in all.

    Nothing was requested twice, the records say of each act whether it was made, and a node that is not proven does not serve.
    """
    folder.mkdir()
    done = process(folder, moment, BEGIN, how)
    assert ENDS[how] == done.returncode, (moment, done.stderr)
    until_then = requests(folder)
    if how == "away":
        (folder / "store").unlink()
        (folder / "away").rename(folder / "store")
    for after in (1, 2, 7):  # a reboot of which nothing is known counts as failed after half an hour
        done = process(folder, 0, BEGIN + after * LATER_S)
        assert 0 == done.returncode, (moment, done.stderr)
    asked = requests(folder)
    acts = Records(FolderStore(folder / "store"), "sim").acts()
    made = Counter(act.rung.value for act in acts if act.state.value == "done")
    assert {act.state.value for act in acts} <= {"done", "failed", "refused"}, (moment, acts)
    assert max(asked[name] for name in ("reboot", "free")) <= 1, (moment, asked)
    assert made["return"] or made["page"], (moment, acts)
    assert asked["free"] == made["return"] or not asked["fence"], (moment, asked, acts)
    if how == "away":
        assert (asked["fence"], asked["reboot"]) == (made["fence"], made["reboot"]), (moment, asked, acts)
    return [until_then["reboot"], asked["reboot"]]


def test_around_a_request_it_is_made_once_or_never(tmp_path: Path) -> None:
    """Before its record is there the engine is not called, then or later; afterwards it is found to be done."""
    _, before = whole(tmp_path / "whole")
    away = [
        reboots(tmp_path / f"away{moment}", moment, "away") for moment in (before - 2, before - 1, before + 1)
    ]
    killed = [reboots(tmp_path / f"kill{moment}", moment, "kill") for moment in (before, before + 1)]

    assert [[0, 0], [1, 1], [1, 1]] == away
    assert [[0, 0], [1, 1]] == killed


@pytest.mark.long  # the moments around the reboot are above, random ones in test_histories.py
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("how", ENDS)
def test_at_any_moment_it_is_made_once_or_never(tmp_path: Path, how: str) -> None:
    """All of them but the first, at which nothing was written yet."""
    last, _ = whole(tmp_path / "whole")
    for moment in range(2, last):
        reboots(tmp_path / str(moment), moment, how)
