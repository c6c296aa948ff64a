"""The store cannot be reached for a while, at any moment of a remediation: one act or none, and a record that says which."""

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
LATER_S = 300.0
# The requests of a remediation that nothing disturbs.
WHOLE = ["fence", "reboot", "open", "close", "free"]


def process(folder: Path, moment: int, clock: float) -> subprocess.CompletedProcess[str]:
    """Run one to its end; its store goes away at this moment."""
    words = (sys.executable, "-m", mortal.__name__, str(folder), str(moment), str(clock), "away")
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def requests(folder: Path) -> Counter[str]:
    """What the engine was asked for."""
    path = folder / "requests"
    return Counter(path.read_text().split() if path.exists() else [])


def check(folder: Path, moment: int) -> Counter[str]:
    """Let the store go away at this moment and come back; what was requested until then, once all is over."""
    folder.mkdir()
    done = process(folder, moment, BEGIN)
    assert 3 == done.returncode, (moment, done.stderr)
    until_then = requests(folder)
    (folder / "store").unlink()
    (folder / "away").rename(folder / "store")
    for after in (1, 2, 7):  # a reboot of which nothing is known counts as failed after half an hour
        done = process(folder, 0, BEGIN + after * LATER_S)
        assert 0 == done.returncode, (moment, done.stderr)
    agree(Records(FolderStore(folder / "store"), "sim"), requests(folder), moment)
    return until_then


def agree(records: Records, requested: Counter[str], moment: object) -> None:
    """No act was requested twice, and the records say of each whether it was made."""
    acts = records.acts()
    assert {act.state.value for act in acts} <= {"done", "failed", "refused"}, (moment, acts)
    assert acts == tuple(sorted(records.journal().acts, key=lambda act: (act.intended_at, act.id))), moment
    for rung, request in (("fence", "fence"), ("reboot", "reboot"), ("return", "free")):
        made = [act for act in acts if act.rung.value == rung and act.state.value == "done"]
        assert requested[request] == len(made) <= 1, (moment, rung, requested, acts)
    assert ("return", "done") in {(act.rung.value, act.state.value) for act in acts} or any(
        act.rung.value == "page" for act in acts
    ), (moment, acts)


def moment_of(folder: Path, request: str) -> int:
    """The moment right before a request takes effect; the next one is right after it."""
    folder.mkdir()
    assert 0 == process(folder, 0, BEGIN).returncode
    assert WHOLE == (folder / "requests").read_text().split()
    lines = (folder / "moments").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.split()[0] == request))


def test_a_store_that_goes_away_around_the_call_leaves_one_reboot_or_none(tmp_path: Path) -> None:
    """Before the record is there the engine is not called, then or later. Between record and call, and between call and outcome, a
    reboot is requested, and later found to be done.
    """
    before = moment_of(tmp_path / "whole", "reboot")
    moments = (before - 2, before - 1, before + 1)
    asked = [check(tmp_path / str(moment), moment)["reboot"] for moment in moments]

    assert [0, 1, 1] == asked
    assert asked == [requests(tmp_path / str(moment))["reboot"] for moment in moments]


@pytest.mark.long  # the moments around the reboot are above
@pytest.mark.timeout(1200)
def test_a_store_that_goes_away_at_any_moment_leaves_one_act_or_none(tmp_path: Path) -> None:
    """All of them but the first, at which nothing was written yet."""
    (tmp_path / "whole").mkdir()
    last = int(process(tmp_path / "whole", 0, BEGIN).stdout)
    for moment in range(2, last):
        check(tmp_path / str(moment), moment)
