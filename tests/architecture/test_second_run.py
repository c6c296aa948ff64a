"""`make test` runs what failed once more; it never passes for tests that did not run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.leftovers import LEFT_BEHIND

TESTS = Path(__file__).resolve().parents[2] / ".ci" / "tests"
FLAKY = "import pathlib\np = pathlib.Path('seen')\ndef test_it():\n    seen = p.exists()\n    p.touch()\n    assert seen\n"
BROKEN = "def test_it():\n    assert False\n"
CUT = "def test_later():\n    raise KeyboardInterrupt\n"
LEFT = "import subprocess\ndef test_later():\n    subprocess.Popen(('sleep', '60'), start_new_session=True)\n"
SIX = "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_it(n):\n    assert False\n"


@pytest.mark.parametrize(
    ("first", "later", "by_hand", "status"),
    [
        (FLAKY, "", "", 0),
        (BROKEN, "", "", 1),
        (FLAKY, CUT, "", 2),
        (FLAKY, BROKEN, "-x", 1),
        ("", "", "", 5),
        (FLAKY, LEFT, "", LEFT_BEHIND),
        (SIX, "", "", 1),
    ],
    ids=[
        "passes alone",
        "fails twice",
        "broke off",
        "cut short by hand",
        "nothing ran",
        "left a process",
        "six failed",
    ],
)
def test_only_what_ran_can_pass(tmp_path: Path, first: str, later: str, by_hand: str, status: int) -> None:
    """The exit status of a group."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_1_first.py").write_text(first)
    (tmp_path / "test_2_later.py").write_text(later)
    environment = {**os.environ, "PYTEST": by_hand, "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"PYTHONPATH": str(TESTS.parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    argv = (str(TESTS), sys.executable, "-p", "tests.architecture.leftovers", *by_hand.split())
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert status == done.returncode, done.stdout
    assert ("needed a second try" in done.stderr) == (status == 0)


def test_second_run_ignores_failures_left_by_an_earlier_run(tmp_path: Path) -> None:
    """The cache remembers failures of tests that this run did not choose."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_1_first.py").write_text(FLAKY)
    (tmp_path / "test_2_later.py").write_text(SIX)
    environment = {**os.environ, "PYTEST": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    python = (sys.executable, "-m", "pytest", "test_2_later.py")
    before = subprocess.run(python, cwd=tmp_path, env=environment, capture_output=True, check=False)
    argv = (str(TESTS), sys.executable, "test_1_first.py")
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert (1, 0) == (before.returncode, done.returncode), done.stdout
    assert "1 needed a second try" in done.stderr
