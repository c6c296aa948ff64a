"""`python -m checks list`: a line a check for programs, folded to the terminal for people."""

from __future__ import annotations

import json
import os
import pty
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

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


def test_what_only_the_watch_runs_is_marked() -> None:
    """Nobody takes it for a check of a gate."""
    lines = subprocess.run(LIST, capture_output=True, text=True, check=True).stdout.splitlines()
    marked = [line.split()[0] for line in lines if line.endswith("(only the watch)")]

    assert [check.name for check in WATCH_ONLY] == marked


@pytest.mark.parametrize("width", [80, 140])
def test_a_terminal_gets_lines_of_its_width(width: int) -> None:
    """Every check begins a line, and no line is broken by the terminal."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    with subprocess.Popen(LIST, stdout=theirs) as process:
        os.close(theirs)
        said = b"".join(iter(lambda: _chunk(ours), b"")).decode()
    os.close(ours)
    lines = said.splitlines()

    assert 0 == process.returncode
    assert max(map(len, lines)) <= width
    assert NAMES == [line.split()[0] for line in lines if line[0] != " "]


def _chunk(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux: the other end was closed
        return b""
