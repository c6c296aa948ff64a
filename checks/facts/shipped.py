"""The facts that are shipped with the checks."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from checks.facts import drivers, expected_tables
from checks.facts.table import Facts, load
from checks.report import digest

HERE = Path(__file__).parent
INSTANCES = HERE / "instances.json"
NOT_APPLICABLE = HERE / "not_applicable.json"


@lru_cache(maxsize=1)
def builtin() -> Facts:
    """The facts of this version. Their digest covers every table, also those that checks alone look things up in."""
    facts = load(INSTANCES.read_bytes(), NOT_APPLICABLE.read_bytes())
    tables = (path.name.encode() + b"\n" + path.read_bytes() for path in sorted(HERE.glob("*.json")))
    expected = expected_tables.builtin()
    return replace(facts, digest=digest(b"".join(tables)), expected=expected, drivers=drivers.builtin())
