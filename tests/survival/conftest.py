"""What several tests of survival use."""

from __future__ import annotations

import pytest

from tests.survival import few_checks


@pytest.fixture
def least_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the few checks those without which no gate passes, and two that tests need: others cost each node of a test time."""
    few_checks.take_least(monkeypatch, "system.resources", "network.pairs")
