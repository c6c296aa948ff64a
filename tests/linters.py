"""Linters of this environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def finds_nothing(linter: str, *files: Path) -> None:
    """Fail with what the linter finds in the files; skip the test where it is not installed."""
    program = Path(sys.executable).with_name(linter)
    if not program.exists():
        pytest.skip(f"not installed: {linter}. Remedy: make setup")
    done = subprocess.run((program, *files), capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stdout), done.stderr
