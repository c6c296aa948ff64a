"""Every test of the family computes in one thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes import compute as fakes


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with fakes.one_thread():
        yield
