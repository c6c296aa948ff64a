"""What every host measured towards every other, as a table (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from checks.columns import by_check
from checks.localise import PAIRS
from checks.model import CLUSTER, Outcome, Report, Verdict
from tasks.render.matrix import places

HOSTS = 24


@dataclass(frozen=True)
class PairCell:
    """Bandwidth in GB/s as text, "none" or, on the diagonal, ""; bad if a finding names it."""

    text: str
    bad: bool


@dataclass(frozen=True)
class PairTable:
    """Rows measured towards columns; `hidden` hosts did not fit (those that findings name come first)."""

    hosts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[PairCell, ...]], ...]
    hidden: int


def pair_table(report: Report, verdict: Verdict) -> PairTable | None:
    """The matrix of network.pairs; None where it was not measured."""
    speeds: dict[tuple[str, str], float | None] = {}
    for row in by_check(report.observations).get(PAIRS, ()):
        if row.outcome is Outcome.MEASURED:
            peers, values = row.metrics.get("peers"), row.metrics.get("bandwidth_gbps")
            if isinstance(peers, tuple) and isinstance(values, tuple):
                cells = zip(peers, values, strict=False)
                speeds.update({(row.subject, str(peer)): _number(value) for peer, value in cells})
    if not speeds:
        return None
    bad = _bad(verdict)
    named = {place for subject in bad for place in subject}
    ranks = {node.name: node.rank for node in report.nodes}
    # Only what is a node of this report gets a row: peers' names are text that a node wrote.
    hosts = sorted(ranks, key=lambda name: (name not in named, ranks[name], name))
    shown = sorted(hosts[:HOSTS], key=lambda name: (ranks[name], name))
    rows = tuple((a, tuple(_cell(a, b, speeds, bad) for b in shown)) for a in shown)
    return PairTable(tuple(shown), rows, len(hosts) - len(shown))


def _cell(a: str, b: str, speeds: dict[tuple[str, str], float | None], bad: set[tuple[str, ...]]) -> PairCell:
    if a == b:
        return PairCell("", False)
    value = speeds.get((a, b))
    known = bool({(a,), (b,), (a, b), (b, a)} & bad)
    return PairCell("none" if value is None else f"{value:.3g}", known or value is None)


def _bad(verdict: Verdict) -> set[tuple[str, ...]]:
    return {places(f.subject) for f in verdict.findings if f.check == PAIRS and f.subject != CLUSTER}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and -1e18 <= value <= 1e18 else None
