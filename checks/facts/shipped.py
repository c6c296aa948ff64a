"""The facts that are shipped with the checks."""

from __future__ import annotations

from pathlib import Path

from checks.facts.table import Facts, load

INSTANCES = Path(__file__).parent / "instances.json"


def builtin() -> Facts:
    """The facts of this version."""
    return load(INSTANCES.read_bytes())
