"""A launcher for processes of this machine, for each test of this folder that asks for one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.launchers.local.launcher import LocalLauncher, LocalOptions


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[LocalLauncher]:
    """A launcher with a short grace; its jobs are ended afterwards."""
    made = LocalLauncher(tmp_path / "work", LocalOptions(grace_s=0.3))
    yield made
    for name in os.listdir(made.root / "jobs"):
        made.cancel(name)
