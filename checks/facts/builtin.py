"""The facts that are shipped with the checks."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from checks.documents.report import digest
from checks.facts import driver_fields, expected_tables
from checks.facts.instances import Facts, load
from checks.facts.provenance import table_bytes

HERE = Path(__file__).parent
INSTANCES = HERE / "instances.json"
NOT_APPLICABLE = HERE / "not_applicable.json"


@lru_cache(maxsize=1)
def builtin() -> Facts:
    """The facts of this version. Their digest covers every table, also those that checks alone look things up in."""
    facts = load(table_bytes(INSTANCES), table_bytes(NOT_APPLICABLE))
    tables = (path.name.encode() + b"\n" + table_bytes(path) for path in sorted(HERE.glob("*.json")))
    expected = expected_tables.builtin()
    return replace(facts, digest=digest(b"".join(tables)), expected=expected, drivers=driver_fields.builtin())
