"""Imports of large packages without Python's cyclic garbage collector, which costs about a tenth of such an import.

An import makes many objects that live as long as the process. The collector would look at them again and again, and never free
one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """No garbage is collected inside the block, and what exists at its end is never looked at again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
