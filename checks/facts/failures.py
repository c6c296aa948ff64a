"""How often machines fail, why, and for how long: published statistics, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from checks.documents.decode import decode, parse_json
from checks.facts.provenance import Provenance, resolved, table_bytes
from checks.value_types import Range

FAILURES = Path(__file__).parent / "failures.json"


class Fault(str, Enum):
    """What a defect does to a training job."""

    CRASH = "crash"
    HANG = "hang"
    SLOW = "slow"
    CORRUPTION = "corruption"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Share:
    """The share of nodes that checks of this kind find defective."""

    share_of_nodes: Annotated[float, Range(0, 1)]
    provenance: Provenance


@dataclass(frozen=True)
class ValueSpan:
    """From the smallest to the greatest value that the statistics allow."""

    low: float
    high: float

    def times(self, other: ValueSpan) -> ValueSpan:
        """The product of two spans of numbers that are not negative."""
        return ValueSpan(self.low * other.low, self.high * other.high)

    def scaled(self, factor: float) -> ValueSpan:
        """The product with a number that is not negative."""
        return ValueSpan(self.low * factor, self.high * factor)

    def plus(self, other: ValueSpan) -> ValueSpan:
        """The sum."""
        return ValueSpan(self.low + other.low, self.high + other.high)


@dataclass(frozen=True)
class Spread(ValueSpan):
    """A span with its source: hours, or a fraction, as its name says."""

    low: Annotated[float, Range(0, 1e6)]
    high: Annotated[float, Range(0, 1e6)]
    provenance: Provenance


@dataclass(frozen=True)
class Failures:
    """The tables. `defective` maps the beginning of a check's name to a share; "" is for all other checks."""

    defective: Mapping[str, Share]
    ranges: Mapping[str, Spread]

    def span(self, name: str) -> ValueSpan:
        """The span of this name in failures.json."""
        return self.ranges[name]

    def share(self, check: str) -> Share:
        """The share of nodes that checks like this one find defective; the longest matching beginning of its name decides."""
        fitting = [start for start in self.defective if check.startswith(start)]
        return self.defective[max(fitting, key=len)]


@lru_cache(maxsize=1)
def builtin_failures() -> Failures:
    """The statistics of this version."""
    return decode(Failures, resolved(parse_json(table_bytes(FAILURES), 1 << 20), "defective", "ranges"))
