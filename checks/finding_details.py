"""What a finding is based on: a number that crossed a threshold, or a value that was not measured."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Relation(str, Enum):
    """On which side of its threshold a value is; UNEQUAL: the threshold is the value that it must have."""

    BELOW = "below"
    ABOVE = "above"
    UNEQUAL = "unequal"


class Reference(str, Enum):
    """What a value was compared with: a number of the policy, a median, what the facts expect, or the most that is possible."""

    THRESHOLD = "threshold"
    PEERS = "peers"
    NODE = "node"
    FLEET = "fleet"
    EXPECTED = "expected"
    LOW_END = "low_end"
    MINIMUM = "minimum"
    LIMIT = "limit"
    POSSIBLE = "possible"


@dataclass(frozen=True)
class Comparison:
    """A value that crossed a threshold, in its unit ("" for counts, shares and ratios).

    `of` is the reference value of which the threshold is a ratio; None if the threshold is in the value's own unit.
    """

    value: float
    unit: str
    relation: Relation
    threshold: float
    reference: Reference = Reference.THRESHOLD
    of: float | None = None


@dataclass(frozen=True)
class Unmeasured:
    """Why something was not measured. `value` is the label of the value ("GPU 1: dram"), "" if the check has no values at all;
    `reason` continues the sentence that the label begins ("is missing").
    """

    value: str
    reason: str
