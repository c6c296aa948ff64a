"""What the tests of several families of checks share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.checks.worlds import world_of_session


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[Mapping[str, Any]]]:
    """What two real ranks measured, by check and sabotage."""
    return world_of_session(tmp_path_factory.getbasetemp())
