"""Gates on the engine that is in this process: a fixture, and what a test asks of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks import launch, provision
from tasks.launchers import registry
from tests.flows import fake_engine
from tests.flows.fake_engine import Engine
from tests.flows.gates import write_gate


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine that the gate files of a test use; nobody waits long."""
    monkeypatch.setitem(registry.LAUNCHERS, "fake", "tests.flows.fake_engine")
    monkeypatch.setattr(provision, "FIRST_S", 0.05)
    monkeypatch.setattr(launch, "PROOF_S", 0.1)
    made = Engine(root=tmp_path / "engine")
    monkeypatch.setattr(fake_engine, "CURRENT", [made])
    return made


def fake_gate(folder: Path, **more: Any) -> Path:
    """A gate file for it."""
    return write_gate(folder, launcher="fake", **more)
