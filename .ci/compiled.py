#!/usr/bin/env python3
"""Whether every test file is compiled as pytest compiles it (its assertions are rewritten): exit status 0 or 1. Runs in .venv.

Workers of pytest-xdist that find a file not compiled each compile it; so `make lint` lets one process collect the tests first, which
takes ten seconds of CPU, and which nobody needs if all is compiled.
"""

from __future__ import annotations

import sys
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1] / "tests"
TAIL = f".{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"


def compiled(path: Path) -> bool:
    """As _pytest.assertion.rewrite decides it: the first 16 bytes say that the source's hash is compared, and have it."""
    found = path.parent / "__pycache__" / (path.stem + TAIL)
    try:
        with found.open("rb") as file:
            head = file.read(16)
    except OSError:
        return False
    return head == MAGIC_NUMBER + b"\x03\0\0\0" + source_hash(path.read_bytes())


if __name__ == "__main__":
    sys.exit(0 if all(compiled(path) for path in TESTS.rglob("test_*.py")) else 1)
