"""The log of a node."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a line of the kernel."""
    path = tmp_path / "messages"
    path.write_text("Nov 25 12:00:00 n2 kernel: Linux version 6.1\n")
    return path
