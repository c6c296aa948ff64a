"""The data types of a baseline, and baseline <-> JSON: a band for each number that a site's own machines reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, digest, dump_plain
from checks.judge.baseline.samples import ComparisonGroup, Side
from checks.value_types import DecodeError, Range

BASELINE_BYTES = 64 * 1024 * 1024

Number = Annotated[float, Range(-1e300, 1e300)]
Many = Annotated[int, Range(1, 1_000_000_000)]


@dataclass(frozen=True)
class Band:
    """Where a healthy value lies: [low, high] of the metric's own unit; `bad` is the side that counts.

    `label` is a message size in bytes, a precision, or "". `mad` is in units of a standard deviation. The counts are
    of what the band was made from, without the outliers.
    """

    check: str
    metric: str
    label: str
    bad: Side
    median: Number
    mad: Number
    low: Number
    high: Number
    values: Many
    nodes: Many
    reports: Many

    def holds(self, value: float) -> bool:
        """Whether the value is not on the bad side of the band."""
        below, above = value < self.low, value > self.high
        return not ((below and self.bad is not Side.HIGH) or (above and self.bad is not Side.LOW))


@dataclass(frozen=True)
class Outlier:
    """A value that was left out of its band, with its subject and the reason."""

    gate_id: str
    subject: str
    check: str
    metric: str
    label: str
    value: Number
    why: str


@dataclass(frozen=True)
class NotLearned:
    """A metric that has no band, with the reason."""

    check: str
    metric: str
    label: str
    why: str


@dataclass(frozen=True)
class ExcludedInput:
    """A part of a report from which nothing was learned, with the reason: a subject ("cluster": the whole) and a check ("": all)."""

    gate_id: str
    subject: str
    check: str
    why: str


@dataclass(frozen=True)
class Learned:
    """One group: its bands, and the versions with which they were measured ("driver" -> all that were seen)."""

    group: ComparisonGroup
    versions: Mapping[str, tuple[str, ...]]
    bands: tuple[Band, ...]
    outliers: tuple[Outlier, ...]
    not_learned: tuple[NotLearned, ...]


@dataclass(frozen=True)
class Baseline:
    """All groups. `reports` are the SHA-256 of the reports that it was learned from; `measured_at` is the time of the newest one."""

    schema_version: Version
    engine: str
    measured_at: str
    reports: tuple[str, ...]
    groups: tuple[Learned, ...]
    left_out: tuple[ExcludedInput, ...]


def dump(baseline: Baseline) -> bytes:
    """Canonical JSON."""
    return dump_plain(baseline)


def load(data: bytes) -> Baseline:
    """The baseline in `data`. Raises DecodeError if it is not completely a baseline, or contradicts itself."""
    baseline = decode(Baseline, parse_json(data, BASELINE_BYTES))
    groups = [learned.group for learned in baseline.groups]
    if len(set(groups)) < len(groups):
        raise DecodeError("two groups are the same", "groups")
    for index, learned in enumerate(baseline.groups):
        _require_sense(learned.bands, f"groups[{index}].bands")
    return baseline


def digest_of(baseline: Baseline) -> str:
    """SHA-256 of the canonical JSON."""
    return digest(dump(baseline))


def _require_sense(bands: Sequence[Band], path: str) -> None:
    keys: set[tuple[str, str, str]] = set()
    for index, band in enumerate(bands):
        where = f"{path}[{index}]"
        if not band.low <= band.median <= band.high or band.mad < 0:
            raise DecodeError("low, median and high are not in this order, or mad is below 0", where)
        if band.bad is not Side.HIGH and band.low <= 0:
            raise DecodeError("low is not above 0, so no speed can be below this band", where)
        if (band.check, band.metric, band.label) in keys:
            raise DecodeError("a second band for the same metric and label", where)
        keys.add((band.check, band.metric, band.label))
