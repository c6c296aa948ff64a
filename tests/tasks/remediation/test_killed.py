"""A process of remediation is killed, or its store goes away, at any moment; another goes on: each act is made once, or never."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.remediation.records import Records
from tasks.store.base import StoreError
from tasks.store.folder import FolderStore
from tests.tasks.remediation import mortal
from tests.tasks.remediation.simulated_engine import BEGIN

ROOT = Path(__file__).resolve().parents[3]
# The next process begins this much later: what was under way is done, and the verdict is not too old.
LATER_S = 300.0
# The requests of a remediation that nothing disturbs.
WHOLE = ["fence", "reboot", "open", "close", "free"]


def killed(folder: Path, moment: int) -> None:
    """A process that dies at this moment."""
    words = (sys.executable, "-m", mortal.__name__, str(folder), str(moment), str(BEGIN))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, (moment, done.stderr)


def bereft(folder: Path, moment: int) -> None:
    """One whose store goes away at this moment, and is back afterwards."""
    with pytest.raises(StoreError):
        mortal.main(folder, moment, BEGIN, lambda: mortal.take_away(folder))
    (folder / "store").unlink()
    (folder / "away").rename(folder / "store")


def undisturbed(folder: Path, clock: float) -> int:
    """One that ends by itself."""
    return mortal.main(folder, 0, clock, lambda: None)


def requests(folder: Path) -> Counter[str]:
    """What the engine was asked for."""
    path = folder / "requests"
    return Counter(path.read_text().split() if path.exists() else [])


def whole(folder: Path) -> tuple[int, int]:
    """A run that nobody disturbs: how many moments there are, and the one right before the reboot takes effect."""
    folder.mkdir()
    last = undisturbed(folder, BEGIN)
    assert WHOLE == (folder / "requests").read_text().split()
    lines = (folder / "moments").read_text().splitlines()
    return last, int(next(line.split()[1] for line in lines if line.startswith("reboot")))


def reboots(folder: Path, moment: int, happens: Callable[[Path, int], None]) -> list[int]:
    """Let it happen at this moment and others go on; how many reboots were requested until then, and in all.

    Nothing was requested twice, the records say of each act whether it was made, and a node that is not proven does not serve.
    """
    folder.mkdir()
    happens(folder, moment)
    until_then = requests(folder)
    for after in (1, 2, 7):  # a reboot of which nothing is known counts as failed after half an hour
        undisturbed(folder, BEGIN + after * LATER_S)
    asked = requests(folder)
    acts = Records(FolderStore(folder / "store"), "sim").acts()
    made = Counter(act.rung.value for act in acts if act.state.value == "done")
    assert {act.state.value for act in acts} <= {"done", "failed", "refused"}, (moment, acts)
    assert max(asked[name] for name in ("reboot", "free")) <= 1, (moment, asked)
    assert made["return"] or made["page"], (moment, acts)
    assert asked["free"] == made["return"] or not asked["fence"], (moment, asked, acts)
    if happens is bereft:
        assert (asked["fence"], asked["reboot"]) == (made["fence"], made["reboot"]), (moment, asked, acts)
    return [until_then["reboot"], asked["reboot"]]


def test_around_a_request_it_is_made_once_or_never(tmp_path: Path) -> None:
    """Before its record is there the engine is not called, then or later; afterwards it is found to be done."""
    _, before = whole(tmp_path / "whole")
    moments = ((bereft, -2), (bereft, -1), (bereft, 1), (killed, 0), (killed, 1))
    made = [reboots(tmp_path / str(at), before + by, happens) for at, (happens, by) in enumerate(moments)]

    assert [[0, 0], [1, 1], [1, 1], [0, 0], [1, 1]] == made


@pytest.mark.long  # the moments around the reboot are above, random ones in test_histories.py
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("happens", [killed, bereft])
def test_at_any_moment_it_is_made_once_or_never(tmp_path: Path, happens: Callable[[Path, int], None]) -> None:
    """All of them but the first, at which nothing was written yet."""
    last, _ = whole(tmp_path / "whole")
    for moment in range(2, last):
        reboots(tmp_path / str(moment), moment, happens)
