"""What a rule may know beyond the observations (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from checks.facts.table import Facts, Instance
from checks.model import Declared


@dataclass(frozen=True)
class Known:
    """The declared type's row, the metrics that its GPU lacks, what is declared, and all facts.

    None where nothing is declared (the output of a tool), or the table has no row.
    """

    instance: Instance | None = None
    absent: frozenset[str] = frozenset()
    declared: Declared | None = None
    facts: Facts | None = None


NOTHING_KNOWN = Known()
