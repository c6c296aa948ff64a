"""Gates on the engine that is in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checks import catalog
from tasks import launch, provision
from tasks.launchers import registry
from tests.flows import fake_engine
from tests.flows.fake_engine import Engine
from tests.flows.gates import write_gate

# All checks make each step of a gate take twice as long.
CHECKS = ("system.identity", "network.reachability", "compute.gemm", "collective.all_reduce")


def engine_of(folder: Path, patch: pytest.MonkeyPatch) -> Engine:
    """An engine that the gate files of a test use until `patch` is undone; nobody waits long."""
    few = tuple(check for check in catalog.CATALOG if check.name in CHECKS)
    patch.setattr(catalog, "CATALOG", few)
    patch.setitem(registry.LAUNCHERS, "fake", "tests.flows.fake_engine")
    patch.setattr(provision, "FIRST_S", 0.05)
    patch.setattr(launch, "PROOF_S", 0.1)
    patch.setattr(launch, "GRACE_S", 0.5)
    made = Engine(root=folder / "engine")
    patch.setattr(fake_engine, "CURRENT", [made])
    return made


def fake_gate(folder: Path, **more: Any) -> Path:
    """A gate file for it."""
    return write_gate(folder, launcher="fake", **more)
