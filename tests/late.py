"""A module that a test file wants and that is imported by the first test that uses it, not by each worker that collects the file."""

from __future__ import annotations

from typing import Any

import pytest


class Late:
    """`torch = Late("torch")` stands for the module; a test that uses it is skipped where it is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)  # pytest looks for marks of its own in whatever a test file holds
        return getattr(pytest.importorskip(self._name), attribute)
