"""What was planted against what was named, added up over runs."""

from __future__ import annotations

from dataclasses import dataclass

from checks.culprit.matrix import Decoded, Entity, MatrixAnswer
from checks.judge.culprits.readings import SURE
from tests.benchmarks.localising.cluster import Cluster
from tests.benchmarks.localising.rules import Blame

JOB_ROUND_S = 0.073  # 16 gloo ranks on two cores: all 120 pairs, 15 rounds, in about 1.1 s
RESTART_S = 7.3  # the same machine: a job restarted for one pair


@dataclass
class Tally:
    """Sums over runs."""

    runs: int = 0
    rounds: int = 0
    tests: int = 0
    nodes_planted: int = 0
    nodes_found: int = 0
    nodes_blamed: int = 0
    links_planted: int = 0
    links_found: int = 0
    links_blamed: int = 0

    def add(self, cluster: Cluster, blame: Blame, rounds: int, tests: int) -> None:
        """One run."""
        self.runs += 1
        self.rounds += rounds
        self.tests += tests
        self.nodes_planted += len(cluster.bad_nodes)
        self.nodes_found += len(cluster.bad_nodes & blame.nodes)
        self.nodes_blamed += len(blame.nodes - cluster.bad_nodes)
        self.links_planted += len(cluster.bad_links)
        self.links_found += len(cluster.bad_links & blame.links)
        self.links_blamed += len(blame.links - cluster.bad_links)

    @property
    def node_recall(self) -> float | None:
        """Of the bad nodes, how many were named; None: none was bad."""
        return _part(self.nodes_found, self.nodes_planted)

    @property
    def node_precision(self) -> float | None:
        """Of the nodes named, how many are bad; None: none was named."""
        return _part(self.nodes_found, self.nodes_found + self.nodes_blamed)

    @property
    def link_recall(self) -> float | None:
        """Of the bad links, how many were named."""
        return _part(self.links_found, self.links_planted)

    @property
    def link_precision(self) -> float | None:
        """Of the links named, how many are bad."""
        return _part(self.links_found, self.links_found + self.links_blamed)

    def row(self, way: str, round_s: float) -> str:
        """A line of the table."""
        runs = max(self.runs, 1)
        rounds = self.rounds / runs
        cells = (
            way,
            f"{rounds:,.0f}",
            f"{self.tests / runs:,.0f}",
            _seconds(rounds * round_s),
            *map(_share, (self.node_recall, self.node_precision, self.link_recall, self.link_precision)),
            _number_a_run(self.nodes_blamed / runs),
            _number_a_run(self.links_blamed / runs),
        )
        return "| " + " | ".join(cells) + " |"


HEAD = (
    "| way | rounds | tests | seconds | node recall | node precision | link recall | link precision "
    "| good nodes blamed a run | good links blamed a run |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def blame_of(decoded: Decoded) -> Blame:
    """The nodes and links that a decoded matrix names; a rank counts as its node. Rails and switches are neither."""
    suspects = decoded.suspects if decoded.answer is MatrixAnswer.NAMED else ()
    suspects = tuple(one for one in suspects if one.probability >= SURE)  # the others are candidates
    kinds = (Entity.NODE, Entity.RANK)
    nodes = [node for one in (*suspects, *decoded.slow) if one.kind in kinds for node in one.nodes]
    links = [one.nodes for one in suspects if one.kind is Entity.LINK]
    return Blame(frozenset(map(_number, nodes)), frozenset(frozenset(map(_number, link)) for link in links))


def _number(name: str) -> int:
    return int(name[1:])


def _part(some: int, whole: int) -> float | None:
    return some / whole if whole else None


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def _number_a_run(number: float) -> str:
    return f"{number:.3f}" if number < 1 else f"{number:,.1f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < 100 else f"{seconds:,.0f}"
