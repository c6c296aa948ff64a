"""A process of remediation that is killed at any moment, and another that goes on: each repair is requested once, or not at all."""

from __future__ import annotations

import json
import signal
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


def process(folder: Path, moment: int, clock: float) -> subprocess.CompletedProcess[str]:
    """Run one to its end."""
    words = (sys.executable, "-m", mortal.__name__, str(folder), str(moment), str(clock))
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def played(folder: Path, moment: int) -> tuple[Counter[str], list[tuple[str, str]], bool]:
    """Kill one at this moment, and let others go on; the requests, the records, and whether the node serves."""
    folder.mkdir()
    done = process(folder, moment, BEGIN)
    assert -signal.SIGKILL == done.returncode, done.stderr
    for after in (1, 2, 7):  # a reboot of which nothing is known counts as failed after half an hour
        done = process(folder, 0, BEGIN + after * LATER_S)
        assert 0 == done.returncode, done.stderr
    requests = Counter((folder / "requests").read_text().split() if (folder / "requests").exists() else [])
    records = [
        (act.rung.value, act.state.value) for act in Records(FolderStore(folder / "store"), "sim").acts()
    ]
    serves = not requests or json.loads((folder / "engine.json").read_text())["mark"] is None
    return requests, records, serves


def moments(folder: Path) -> int:
    """How many there are in a run that nobody disturbs."""
    folder.mkdir()
    done = process(folder, 0, BEGIN)
    assert ["fence", "reboot", "open", "close", "free"] == (folder / "requests").read_text().split()
    return int(done.stdout)


def check(folder: Path, moment: int) -> None:
    """Nothing was requested twice, and every record says how it ended; a node that is not proven does not serve."""
    requests, records, serves = played(folder, moment)
    assert requests["reboot"] <= 1, (moment, requests)
    assert {state for _, state in records} <= {"done", "failed", "refused"}, (moment, records)
    assert serves == (not requests["fence"] or ("return", "done") in records), (moment, requests, records)
    assert ("return", "done") in records or ("page", "done") in records, (moment, records)
    assert requests["free"] <= 1


def test_killed_around_a_request_it_is_requested_once_or_never(tmp_path: Path) -> None:
    """At the moments before and after the reboot takes effect, and one in a hundred of the others."""
    count = moments(tmp_path / "whole")
    chosen = sorted({count // 5, count // 2, count - 2})
    for moment in chosen:
        check(tmp_path / str(moment), moment)


@pytest.mark.long  # some moments are in the test above, random ones in test_histories.py
def test_killed_at_any_moment_it_is_requested_once_or_never(tmp_path: Path) -> None:
    """All of them."""
    for moment in range(1, moments(tmp_path / "whole") + 1):
        if moment == 1:
            continue  # before anything was written
        check(tmp_path / str(moment), moment)
