"""Rules about what a node measured towards each of its peers (`each = "peers"`). Pure.

A bad value there is no proof against the node that measured it: a node sees a narrow path also where the peer's interface is the one
with the small MTU. So the subject is the link between the two, or the one node that all bad links have in common.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from checks.documents.report import clip
from checks.judge.blame import MOST_LINKS, Cell, blame, by_end_and_link
from checks.judge.rules.wording import unequal
from checks.model import CLUSTER, LINK, Finding, Level, Observation
from checks.policy import Rule
from checks.value_types import listed_names

PEERS = "peers"
MOST_SHOWN = 8


@dataclass(frozen=True)
class Towards:
    """What nodes measured towards their peers: the value, whether it is bad, and what the check wrote about it."""

    value: object
    bad: bool
    evidence: str = ""


def are_judged(rule: Rule, record: Observation) -> bool:
    """Whether the rule's elements are about links: each has the name of a peer."""
    value, names = record.metrics.get(rule.metric), record.metrics.get(rule.each)
    return (
        rule.each == PEERS
        and isinstance(value, tuple)
        and isinstance(names, tuple)
        and len(names) == len(value)
        and all(isinstance(name, str) for name in names)
    )


def cells_of(rule: Rule, record: Observation, odd: Collection[int]) -> Mapping[Cell, Towards]:
    """A row as cells; `odd` are the places of its bad values. Peers towards which nothing was measured are left out, and of several
    values for one peer a bad one counts.
    """
    names, values = record.metrics[rule.each], record.metrics[rule.metric]
    pairs = zip(names, values, strict=True) if isinstance(names, tuple) and isinstance(values, tuple) else ()
    cells: dict[Cell, Towards] = {}
    for index, (name, value) in enumerate(pairs):
        cell = record.subject, str(name)
        if value is not None and (cell not in cells or index in odd):
            cells[cell] = Towards(value, index in odd, record.evidence)
    return cells


def judge(check: str, rule: Rule, results: Mapping[Cell, Towards]) -> Iterator[Finding]:
    """One finding per node or link at fault.

    A node is at fault if its links to several peers are bad and other nodes have good ones. Of two nodes it is always the link.
    """
    bad = {cell for cell, towards in results.items() if towards.bad}
    if not bad:
        return
    ends = {_link(cell) for cell in results}
    hosts, links = blame(_both_ways(bad), _both_ways(results))
    of_host, of_link = by_end_and_link(bad)
    for host in hosts:
        text, is_predicate = _statement(check, rule, of_host[host], results)
        text += "; other nodes do not show this between each other"
        yield _finding(check, rule, host, text, of_host[host], results, is_predicate)
    if len(links) > max(MOST_LINKS, len({end for link in ends for end in link})):
        cells = {cell for link in links for cell in of_link[link]}
        text, is_predicate = _statement(check, rule, cells, results)
        text += f"; {len(links)} links are affected, and no single node explains it: suspect the network"
        yield _finding(check, rule, CLUSTER, text, cells, results, is_predicate)
        return
    for link in sorted(links):
        text, is_predicate = _statement(check, rule, of_link[link], results)
        yield _finding(check, rule, f"{link[0]}{LINK}{link[1]}", text, of_link[link], results, is_predicate)


def _finding(
    check: str,
    rule: Rule,
    subject: str,
    text: str,
    cells: set[Cell],
    results: Mapping[Cell, Towards],
    is_predicate: bool,
) -> Finding:
    texts = dict.fromkeys(results[cell].evidence for cell in sorted(cells))
    evidence = clip("\n".join(filter(None, texts)))[0]
    return Finding(
        Level(rule.level), rule.cause, check, subject, text, evidence, rule.remedy, is_predicate=is_predicate
    )


def _link(cell: Cell) -> Cell:
    return min(cell), max(cell)


def _both_ways(cells: Iterable[Cell]) -> set[Cell]:
    return {cell for a, b in cells for cell in ((a, b), (b, a))}


def _statement(check: str, rule: Rule, cells: set[Cell], results: Mapping[Cell, Towards]) -> tuple[str, bool]:
    """What is wrong, by the value that differs most, and in which directions."""
    ordered = sorted(cells)
    values = [results[cell].value for cell in ordered]
    numbers = [value for value in values if isinstance(value, (int, float))]
    text, is_predicate = unequal(
        check, rule.metric, [("", max(numbers) if numbers else values[0])], rule.equals
    )
    return f"{text} ({listed_names([f'from {a} to {b}' for a, b in ordered], MOST_SHOWN)})", is_predicate
