"""A launcher for processes of this machine, for each test of this folder that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.launchers.local import start_stop
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.plan import LocalOptions
from tests.tasks.launchers.local.warm_shepherd import WarmShepherds


@pytest.fixture(scope="session")
def shepherds() -> Iterator[WarmShepherds]:
    """The process that shepherds are forks of."""
    made = WarmShepherds()
    yield made
    made.end()


@pytest.fixture
def warm(shepherds: WarmShepherds, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shepherds of this test are forks."""
    monkeypatch.setattr(start_stop, "_spawn", shepherds.spawn)


@pytest.fixture
def launcher(warm: None, tmp_path: Path) -> Iterator[LocalLauncher]:
    """A launcher with a short grace; its jobs are ended afterwards."""
    made = LocalLauncher(tmp_path / "work", LocalOptions(grace_s=0.3))
    yield made
    for path in (made.root / "jobs").glob("*"):
        made.cancel(path.name)
