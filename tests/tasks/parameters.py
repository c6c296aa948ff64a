"""Tables of parameters in which several values have the rest of their row in common."""

from __future__ import annotations

from typing import Any


def spread(*groups: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The rows for `parametrize`: one for each of the values at the end of a group, behind the rest of it."""
    return [(*group[:-1], value) for group in groups for value in group[-1]]
