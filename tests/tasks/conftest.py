"""What several tests of the tasks use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.store.folder import FolderStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """A store in a folder of the test."""
    return FolderStore(tmp_path / "store")
