"""What a rule may know beyond the observations (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checks.facts.table import Facts, Instance
from checks.model import Declared


@dataclass(frozen=True)
class Known:
    """The declared type's row, the metrics that its GPU lacks, what is declared, all facts, and each node's machine.

    `unreported` holds, for a subject, the metrics that its driver is too old to report. The others are None where
    nothing is declared (the output of a tool), or the table has no row.
    """

    instance: Instance | None = None
    absent: frozenset[str] = frozenset()
    declared: Declared | None = None
    facts: Facts | None = None
    unreported: Mapping[str, frozenset[str]] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)  # node -> boot id, "" where it is not known


NOTHING_KNOWN = Known()
