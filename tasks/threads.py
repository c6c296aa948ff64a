"""Blocking effects from an event loop, so that a cancelled flow leaves none half done behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def to_end(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run it in a thread. A caller that is cancelled meanwhile waits for its end first."""
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            running.exception()  # taken, so that asyncio does not complain of it
        raise
