"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    done: Callable[[], T], what: str | Callable[[], object] = "", seconds: float = 60.0, every_s: float = 0.05
) -> T:
    """Wait until this is true, and return it. `what` is the message if it is not true in time."""
    end = time.monotonic() + seconds
    while not (value := done()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what() if callable(what) else what}"
        time.sleep(every_s)
    return value
