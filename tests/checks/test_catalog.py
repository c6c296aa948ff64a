"""`python -m checks list`: a line a check, for programs and people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from checks.catalog import CATALOG, WATCH_ONLY
from checks.cli import LISTING

NAMES = [check.name for check in (*CATALOG, *WATCH_ONLY)]
ROOT = Path(__file__).resolve().parents[2]
LIST = (sys.executable, "-m", "checks", "list")


def test_a_pipe_gets_a_line_a_check() -> None:
    """Whatever its length: it is searched, not read."""
    lines = subprocess.run(LIST, capture_output=True, text=True, check=True).stdout.splitlines()

    assert NAMES == [line.split()[0] for line in lines]


def test_a_program_gets_json_and_no_check_is_imported() -> None:
    """Importing all checks takes several times as long as the rest of the command."""
    code = "import sys; from checks.cli import main; main(['list', '--format', 'json']); print(*sys.modules)"
    argv = (sys.executable, "-c", code)
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    printed, modules = done.stdout.splitlines()

    assert json.loads(LISTING.read_bytes()) == json.loads(printed)
    assert [] == [name for name in modules.split() if name.startswith(("checks.probes", "checks.catalog"))]


def test_check_list_marks_checks_that_only_the_watch_runs() -> None:
    """Nobody takes it for a check of a gate."""
    lines = subprocess.run(LIST, capture_output=True, text=True, check=True).stdout.splitlines()
    marked = [line.split()[0] for line in lines if line.endswith("(only the watch)")]

    assert [check.name for check in WATCH_ONLY] == marked
