"""The matrix that a text describes: ends, cells and their lines, and the decoder's matrices made of them. Pure.

A cell is one of three things: a number, a test that was tried and gave no value, or a test that was not tried. A header names the
unit of the numbers below it, and whether higher or lower values are good.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.culprit.matrix import Better, Matrix, Part, Span
from checks.explain.reading import Broken, Table
from checks.model import LINK

LEAST = 1e-9  # in any unit that a matrix has: a tool cannot measure a smaller rate or time
MOST_NAMES, NAME, SAID = 4096, 253, 4
NOTHING = ("", "nan", "-", "--", "failed", "fail", "error", "err", "timeout", "none", "null")
UNTRIED = ("n/a", "na", "#n/a")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# "node-1/rank-9", "host:3", "host/gpu2": the node, and the index of the end on it.
_PLACED = re.compile(r"(?P<node>.+?)[/:][A-Za-z_-]*(?P<number>\d+)")


@dataclass(frozen=True)
class Cell:
    """One test from one end to another. `value` is None if it was tried and gave no value."""

    source: str
    target: str
    value: float | None
    line: int


@dataclass(frozen=True)
class Ends:
    """The places of the ends, by name: the node, the rail, the switches (nearest first). All may be empty."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    rails: Mapping[str, int] = field(default_factory=dict)
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class WrittenMatrix:
    """One metric of all ends. `names` are all ends that the text names, in its order."""

    name: str
    unit: str
    what: str
    better: Better
    names: tuple[str, ...]
    cells: Sequence[Cell]
    ends: Ends = Ends()


def cell_value(text: str, where: str, better: Better) -> float | None:
    """The number of a cell, None for a test that gave no value. Raises Broken if it is neither."""
    if text.strip().lower() in NOTHING:
        return None
    if not _NUMBER.fullmatch(text.strip()):
        raise Broken(f'{where} is "{text.strip()[:40]}", which is no number')
    value = float(text)
    if not math.isfinite(value) or value < 0 or (value < LEAST and (value > 0 or better is Better.LOWER)):
        raise Broken(f"{where} is {text.strip()[:40]}, which is an impossible value")
    return value or None  # zero bytes per second: nothing arrived


def is_untried(text: str) -> bool:
    """Whether the cell says that the test was not tried."""
    return text.strip().lower() in UNTRIED


def require_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The names. Raises Broken if one is empty, too long or occurs twice."""
    found: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if not name or len(name) > NAME or LINK in name:
            raise Broken(
                f"{where}: name {place} is {f'{name[:40]!r}, which is no name' if name else 'empty'}"
            )
        if name in found:
            raise Broken(f'{where}: "{name}" is there twice (names {found[name]} and {place})')
        found[name] = place
    if len(names) > MOST_NAMES:
        raise Broken(f"{where} has {len(names)} names, more than the {MOST_NAMES} that are read")
    return tuple(names)


def tables_of(written: WrittenMatrix) -> tuple[Table, ...]:
    """The decoder's matrices. Pairs between nodes are never compared with pairs inside of nodes."""
    ends = placed(written.names, written.ends)
    parts = tuple(
        Part(name, ends.nodes.get(name, name), ends.rails.get(name, 0), ends.switches.get(name, ()))
        for name in written.names
    )
    place = {name: index for index, name in enumerate(written.names)}
    found: dict[Span, list[Cell]] = {}
    for cell in written.cells:
        same = parts[place[cell.source]].node == parts[place[cell.target]].node
        if cell.source != cell.target:
            found.setdefault(Span.INSIDE if same else Span.BETWEEN, []).append(cell)
    made = []
    for span, cells in found.items():
        name = f"{written.name}, {span.value}" if len(found) > 1 else written.name
        matrix = Matrix(
            written.what, written.unit, written.better, span, parts, [place[c.source] for c in cells],
            [place[c.target] for c in cells], [c.value for c in cells],
        )  # fmt: skip
        made.append(Table(name, matrix, [c.line for c in cells]))
    return tuple(made)


def placed(names: Sequence[str], ends: Ends) -> Ends:
    """The ends, with nodes and rails taken from names of one pattern ("host:3", "node-1/rank-9") if they are not given."""
    matches = [_PLACED.fullmatch(name) for name in names]
    nodes = dict(ends.nodes)
    if not nodes and all(matches):
        nodes = {name: found["node"] for name, found in zip(names, matches, strict=True) if found}
    if not nodes or ends.rails:
        return Ends(nodes, ends.rails, ends.switches)
    beside: dict[str, list[tuple[int, str]]] = {}
    for place, (name, found) in enumerate(zip(names, matches, strict=True)):
        beside.setdefault(nodes.get(name, name), []).append(
            (int(found["number"][-9:]) if found else place, name)
        )
    rails = {name: rail for one in beside.values() for rail, (_, name) in enumerate(sorted(one))}
    return Ends(nodes, rails, ends.switches)


def untested(written: WrittenMatrix) -> Iterator[str]:
    """The tests that are missing. If they were ignored, a part that was not tested would count as good."""
    tried = {(cell.source, cell.target) for cell in written.cells if cell.source != cell.target}
    wanted = _wanted(written, tried)
    missing = [pair for pair in wanted if pair not in tried]
    if not missing:
        return
    if len(missing) * 2 == len(wanted) and all((b, a) in tried for a, b in missing):
        yield f"{written.name}: it holds one direction of each pair only. Give both, from a to b and from b to a"
        return
    for name in [name for name in written.names if all(a != name for a, _ in tried)][:SAID]:
        missing = [pair for pair in missing if pair[0] != name]
        yield f"{written.name}: it holds nothing that {name} sent"
    if missing:
        named = ", ".join(f"{a} -> {b}" for a, b in missing[:SAID])
        more = f" and {len(missing) - SAID} more" if len(missing) > SAID else ""
        yield f"{written.name}: {len(missing)} of {len(wanted)} directions were not measured: {named}{more}"


def _wanted(written: WrittenMatrix, tried: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Every pair of ends. If no rail was measured with another one between nodes, no such pair is missing."""
    ends = placed(written.names, written.ends)

    def across(a: str, b: str) -> bool:
        return ends.nodes.get(a, a) != ends.nodes.get(b, b) and ends.rails.get(a, 0) != ends.rails.get(b, 0)

    crossed = any(across(a, b) for a, b in tried)
    inside = any(ends.nodes.get(a, a) == ends.nodes.get(b, b) for a, b in tried)
    between = any(ends.nodes.get(a, a) != ends.nodes.get(b, b) for a, b in tried)

    def asked(a: str, b: str) -> bool:
        same = ends.nodes.get(a, a) == ends.nodes.get(b, b)
        return a != b and (inside if same else between and (crossed or not across(a, b)))

    return [(a, b) for a in written.names for b in written.names if asked(a, b)]


_RATE = re.compile(
    r"(?<![a-z])(?:[kmgt]i?b(?:its?|ytes?)?/s(?:ec)?|[kmgt]i?bps|[kmgt]bit/s)(?![a-z])", re.IGNORECASE
)
_TIME = re.compile(r"(?<![a-zµμ])(?:us|usec|µs|μs|ms|msec|ns|nsec)(?![a-z])", re.IGNORECASE)
_MORE = re.compile(r"(?<![a-z])(?:bandwidth|bw|busbw|algbw|throughput)(?![a-z])", re.IGNORECASE)
_LESS = re.compile(r"(?<![a-z])(?:latency|latencies|lat|rtt)(?![a-z])", re.IGNORECASE)
SAY = "Name the better values: --better higher (bandwidth) or --better lower (latency)."


class UnclearDirection(Exception):
    """It is unclear or contradictory which values are good. The message says what to give."""


def unit_of(words: str) -> str:
    """ "GB/s" for "Bandwidth (GB/s)", "gbps" for "bandwidth_gbps"; "" if no unit is named."""
    found = _RATE.search(words) or _TIME.search(words)
    return found.group() if found else ""


def what_of(words: str) -> str:
    """ "bandwidth", "latency", or "value" if the words say neither."""
    says = says_better(words)
    return {Better.HIGHER: "bandwidth", Better.LOWER: "latency", None: "value"}[says]


def says_better(words: str) -> Better | None:
    """Which values are good, by the words of the header; None if they say nothing, or both."""
    more = bool(_MORE.search(words) or _RATE.search(words))
    less = bool(_LESS.search(words) or _TIME.search(words))
    return None if more is less else Better.HIGHER if more else Better.LOWER


def better_of(words: str, asked: Better | None) -> Better:
    """The same, or the direction that was asked for. Raises UnclearDirection, also if the header contradicts what was asked for."""
    says = says_better(words)
    if asked is None and says is None:
        both = _MORE.search(words) or _RATE.search(words)
        raise UnclearDirection(
            f"its header names {'bandwidth and latency' if both else 'neither bandwidth nor latency'}. {SAY}"
        )
    if asked is not None and says is not None and asked is not says:
        raise UnclearDirection(
            f"its header says {what_of(words)}, of which the {says.value} values are good: not --better {asked.value}"
        )
    return asked or says or Better.HIGHER
