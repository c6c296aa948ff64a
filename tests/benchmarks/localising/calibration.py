"""How often suspects of a stated probability are at fault: in bins of a twentieth, over all worlds."""

from __future__ import annotations

from dataclasses import dataclass, field

from checks.culprit.matrix import Decoded, Entity, MatrixAnswer, Suspect
from checks.model import LINK
from tests.benchmarks.localising.cluster import Cluster, name_of

BINS = 20


@dataclass
class Calibration:
    """For each bin the number of suspects, how many of them were at fault, and the sum of their probabilities."""

    bins: dict[int, tuple[int, int, float]] = field(default_factory=dict)

    def add(self, cluster: Cluster, decoded: Decoded) -> None:
        """The suspects of one run, those that are too uncertain to be named as well."""
        for one in (*(decoded.suspects if decoded.answer is MatrixAnswer.BLAMED else ()), *decoded.slow):
            at = min(int(one.probability * BINS), BINS - 1)
            every, right, total = self.bins.get(at, (0, 0, 0.0))
            self.bins[at] = every + 1, right + is_at_fault(cluster, one), total + one.probability

    @property
    def error(self) -> float:
        """The mean difference between the stated probability of a bin and the share of it that was at fault."""
        every = sum(its[0] for its in self.bins.values())
        return sum(abs(its[2] - its[1]) for its in self.bins.values()) / every if every else 0.0

    def lines(self) -> list[str]:
        """The bins as a table."""
        head = ["| probability | suspects | mean probability | at fault |", "| --- | ---: | ---: | ---: |"]
        rows = [
            f"| {at / BINS:.2f} to {(at + 1) / BINS:.2f} | {every} | {total / every:.3f} | {right / every:.3f} |"
            for at, (every, right, total) in sorted(self.bins.items())
        ]
        return [*head, *rows, "", f"Calibration error: {self.error:.4f}"]


def is_at_fault(cluster: Cluster, one: Suspect) -> bool:
    """Whether the suspect was planted, or is a pair that is slow for good, or the switch above nodes that were planted."""
    if one.kind in (Entity.NODE, Entity.RANK):
        return set(one.nodes) <= {name_of(node) for node in cluster.bad_nodes}
    if one.kind is Entity.LINK:
        slow = cluster.bad_links | {frozenset(pair) for pair in cluster.paths}
        return {name.partition("/")[0] for name in one.subject.split(LINK)} in [
            set(map(name_of, its)) for its in slow
        ]
    wide = [fault for fault in cluster.faults if fault.kind is one.kind]
    below = [{name_of(node) for node in fault.nodes} for fault in wide if fault.kind is Entity.SWITCH]
    return set(one.nodes) in below or one.subject in [
        fault.subject(cluster) for fault in wide if fault.kind is Entity.RAIL
    ]
