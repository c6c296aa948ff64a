"""A run of the tests that somebody breaks off never ends as if all of them had passed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A small selection of the real suite; the last test makes it longer than the latest moment.
CHOSEN = (
    "tests/checks/judge/test_clocks.py",
    "tests/checks/judge/test_verdict.py",
    "tests/checks/process/test_tree.py",
)
MOMENTS, LATEST_S, SEED = 10, 4.0, 20261123
NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_run_that_is_interrupted_is_never_green(tmp_path: Path) -> None:
    """Ten times, at a random moment, by Ctrl-C in a terminal or by a signal to the job."""
    drawn = random.Random(SEED)
    ends = [_interrupted(tmp_path, drawn.uniform(0.1, LATEST_S), NUMBERS[n % 2]) for n in range(MOMENTS)]

    assert all(status != 0 for _, _, status in ends), ends


def _interrupted(folder: Path, after_s: float, number: signal.Signals) -> tuple[float, str, int]:
    """When the group of processes got which signal, and the exit status of the run."""
    slow = folder / "test_last.py"
    slow.write_text("import time\n\ndef test_last():\n    time.sleep(20)\n")
    argv = (str(ROOT / ".ci/tests"), sys.executable, "-q", "-n", "2", "--tb=no", *CHOSEN, str(slow))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    no = subprocess.DEVNULL
    child = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=no, stderr=no, start_new_session=True)
    time.sleep(after_s)
    try:
        os.killpg(child.pid, number)
        status = child.wait(300)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return round(after_s, 2), number.name, status
