"""`make test` runs what failed once more; it never passes for tests that did not run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2] / ".ci" / "tests"
FLAKY = "import pathlib\np = pathlib.Path('seen')\ndef test_it():\n    seen = p.exists()\n    p.touch()\n    assert seen\n"
BROKEN = "def test_it():\n    assert False\n"
CUT = "def test_later():\n    raise KeyboardInterrupt\n"


@pytest.mark.parametrize(
    ("first", "later", "by_hand", "status"),
    [
        (FLAKY, "", "", 0),
        (BROKEN, "", "", 1),
        (FLAKY, CUT, "", 2),
        (FLAKY, BROKEN, "-x", 1),
        ("", "", "", 5),
    ],
    ids=["passes alone", "fails twice", "broke off", "cut short by hand", "nothing ran"],
)
def test_only_what_ran_can_pass(tmp_path: Path, first: str, later: str, by_hand: str, status: int) -> None:
    """The exit status of a group."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_1_first.py").write_text(first)
    (tmp_path / "test_2_later.py").write_text(later)
    environment = {**os.environ, "PYTEST": by_hand, "PYTHONDONTWRITEBYTECODE": "1"}
    argv = (str(TESTS), sys.executable, "-p", "no:randomly", *by_hand.split())
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    assert status == done.returncode, done.stdout
