"""Reads a matrix of measurements between pairs of parts: CSV with a header, or the tables of CUDA's sample p2pBandwidthLatencyTest.

A cell is a number, a test that was tried and gave no value, or a test that was not tried. A matrix that is truncated, has one
direction only, or contradicts itself is reported as such, and never passes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Better, Endpoint, Matrix, Span
from checks.explain.reading import Garbled, NotRecognised, OutputKind, Reading, ReadOptions, TextMatrix
from checks.model import LINK

LEAST = 1e-9  # in any unit that a matrix has: a tool cannot measure a smaller rate or time
MOST_NAMES, NAME_CHARACTERS = 4096, 253
NO_VALUE = ("nan", "-", "--", "failed", "fail", "error", "err", "timeout", "none", "null")
UNTRIED = ("", "n/a", "na", "#n/a")
METRICS = {Better.HIGHER: "bandwidth", Better.LOWER: "latency"}
SOURCES, TARGETS = ("source", "src", "from"), ("target", "dst", "to")
SAY = "Name the better values: --better higher (bandwidth) or --better lower (latency)."
P2P = re.compile(
    r"^[ \t]*(?P<name>(?:Unidirectional |Bidirectional )?P2P=(?:Enabled|Disabled) (?:Bandwidth|Latency)[^\n(]*"
    r"(?:\([^\n)]*\) )?)Matrix \((?P<unit>GB/s|us)\)[ \t]*$",
    re.MULTILINE,
)
P2P_MATRICES = 6  # both kinds of access, one and both directions, and the latency of both
_P2P_BEGINS = re.compile(r"\s*(?:\[P2P |Device: \d|Device=\d|P2P Connectivity Matrix|\*\*\*NOTE)")
_P2P_LINE = re.compile(rf"{_P2P_BEGINS.pattern}|NOTE: |[ \t]*(?:D\\D|GPU|CPU)?[ \t\d./NA]*$|{P2P.pattern}")
_HOLDS_FIELDS = re.compile(r"\s*[^\s#]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_RATE = r"[kmgt]i?b(?:its?|ytes?)?/s(?:ec)?|[kmgt]i?bps|[kmgt]bit/s"
_TIME = r"us|usec|µs|μs|ms|msec|ns|nsec"
_UNIT = re.compile(rf"(?<![a-zµμ])(?:{_RATE}|{_TIME})(?![a-z])", re.IGNORECASE)
_HIGHER = re.compile(rf"(?<![a-z])(?:bandwidth|bw|busbw|algbw|throughput|{_RATE})(?![a-z])", re.IGNORECASE)
_LOWER = re.compile(rf"(?<![a-zµμ])(?:latency|latencies|lat|rtt|{_TIME})(?![a-z])", re.IGNORECASE)
# "node-1/rank-9", "host:3", "host/gpu2": the node, and the index of the end on it.
_PLACED = re.compile(r"(?P<node>.+?)[/:][A-Za-z_-]*(?P<number>\d+)")


@dataclass(frozen=True)
class MatrixCell:
    """The text about one test, from one end to another."""

    source: str
    target: str
    text: str
    line: int


@dataclass(frozen=True)
class WrittenMatrix:
    """One metric of all ends, with the nodes and the rails of those whose names say them."""

    name: str
    unit: str
    better: Better
    ends: Mapping[str, Endpoint]
    cells: Sequence[MatrixCell]

    @property
    def tests(self) -> list[MatrixCell]:
        """The cells of the tests that were tried."""
        return [
            cell for cell in self.cells if cell.source != cell.target and cell.text.lower() not in UNTRIED
        ]


def detect(text: str) -> bool:
    """Whether the text has a table of p2pBandwidthLatencyTest, or its first lines look like such a CSV."""
    if P2P.search(text):
        return True
    try:
        (_, header), (_, first) = _csv_rows("\n".join(text[:65536].splitlines()[:40]))[:2]
    except NotRecognised:
        return False
    return _is_long(header) or (len(header) > 2 and first[0] in header[1:])


def read(text: str, options: ReadOptions) -> Reading:
    """The reading. Raises NotRecognised, Garbled."""
    lines = text.splitlines()
    understood = frozenset(range(1, len(lines) + 1))
    if P2P.search(text):
        written, unread, left_out = _read_p2p(lines)
        title = f"p2pBandwidthLatencyTest of {len(written[0].ends)} GPUs"
        understood = frozenset(number for number, line in enumerate(lines, 1) if _P2P_LINE.match(line))
    else:
        written, unread, left_out, title = [_read_csv(text, options.better)], [], [], "a matrix"
    tables = tuple(table for matrix in written for table in _tables(matrix))
    unread += [sentence for matrix in written for sentence in _untested(matrix)]
    unread += [] if tables else ["it holds no test between two parts"]
    tests = sum(len(table.matrix.values) for table in tables)
    title = f"{title}, {tests} tests between {len(written[0].ends)} parts"
    return Reading(
        OutputKind.MATRIX, title, (), tuple(unread), tables, tuple(left_out), understood=understood
    )


def _csv_rows(text: str) -> list[tuple[int, list[str]]]:
    """The lines with their numbers, the header first, without comments and blank lines. Raises NotRecognised."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if _HOLDS_FIELDS.match(line)]
    delimiter = next((separator for separator in "\t;," if lines and separator in lines[0][1]), "")
    if not delimiter or len(lines) < 2:
        raise NotRecognised("it is neither CSV with a header nor a table of p2pBandwidthLatencyTest")
    return [(number, [field.strip(' "') for field in line.split(delimiter)]) for number, line in lines]


def _is_long(header: Sequence[str]) -> bool:
    """Whether each line below the header is one test, and not the row of a square."""
    return len(header) > 1 and header[0].lower() in SOURCES and header[1].lower() in TARGETS


def _read_csv(text: str, chosen: Better | None) -> WrittenMatrix:
    (number, header), *records = _csv_rows(text)
    for line, fields in records:
        if len(fields) != len(header):
            raise Garbled(
                f"line {line} ({fields[0][:80]}) has {len(fields)} fields, it must have {len(header)}"
            )
    if _is_long(header) and len(header) != 3:
        raise Garbled("its header must be source, target and one metric. Explain the metrics one by one", "")
    names, metric, cells = header[1:], header[0], list[MatrixCell]()
    if _is_long(header):
        names, metric = list(dict.fromkeys(name for _, fields in records for name in fields[:2])), header[2]
    ends = _ends(names, f"line {number}")
    for at, (line, (source, *texts)) in enumerate(records):
        if _is_long(header):
            cells.append(MatrixCell(source, texts[0], texts[1], line))
            continue
        if source not in names or any(source == fields[0] for _, fields in records[:at]):
            raise Garbled(f'line {line}: "{source[:80]}" names no column, or an earlier row has the name')
        cells += [MatrixCell(source, to, text, line) for to, text in zip(names, texts, strict=True)]
    better, unit = _better(metric, chosen), _UNIT.search(metric)
    return WrittenMatrix(METRICS[better], unit.group() if unit else "", better, ends, cells)


def _better(metric: str, chosen: Better | None) -> Better:
    """Which values are good, by the words of the header or by --better. Raises Garbled if both are silent or contradict each other."""
    higher, lower = bool(_HIGHER.search(metric)), bool(_LOWER.search(metric))
    implied = None if higher is lower else Better.HIGHER if higher else Better.LOWER
    better = chosen or implied
    if better is None:
        raise Garbled(f"its header {metric[:80]!r} does not say which values are better. {SAY}")
    if implied not in (None, better):
        raise Garbled(
            f"its header {metric[:80]!r} contradicts --better: it means not --better {better.value}"
        )
    return better


def _value(cell: MatrixCell, better: Better) -> float | None:
    """The number of a cell, None for a test that gave no value. Raises Garbled if it is neither."""
    where = f"line {cell.line} ({cell.source}), column {cell.target}"
    if cell.text.lower() in NO_VALUE:
        return None
    if not _NUMBER.fullmatch(cell.text):
        raise Garbled(f'{where} is "{cell.text[:40]}", which is no number')
    value = float(cell.text)
    if not math.isfinite(value) or value < 0 or (value < LEAST and (value > 0 or better is Better.LOWER)):
        raise Garbled(f"{where} is {cell.text[:40]}, which is an impossible value")
    return value or None  # zero bytes per second: nothing arrived


def _ends(names: Sequence[str], where: str, host: str = "") -> dict[str, Endpoint]:
    """The ends: all on `host`, or each on the node and the rail that its name says ("host:3"), or each a node of its own. Raises
    Garbled if a name is empty, too long or occurs twice.
    """
    if len(names) > MOST_NAMES:
        raise Garbled(f"{where} has {len(names)} names, more than the {MOST_NAMES} that are read")
    for position, name in enumerate(names, 1):
        if not name or len(name) > NAME_CHARACTERS or LINK in name:
            raise Garbled(f"{where}: name {position} ({name[:40]!r}) is no name")
        if names.index(name) < position - 1:
            raise Garbled(f'{where}: "{name}" is there twice (names {names.index(name) + 1} and {position})')
    if host:
        return {name: Endpoint(name, host, rail) for rail, name in enumerate(names)}
    matches = [match for name in names if (match := _PLACED.fullmatch(name))]
    if len(matches) < len(names):
        return {name: Endpoint(name, name, 0) for name in names}
    ends = sorted((match["node"], int(match["number"][-9:]), match.string) for match in matches)
    nodes = [node for node, _, _ in ends]
    placed = {name: Endpoint(name, node, at - nodes.index(node)) for at, (node, _, name) in enumerate(ends)}
    return {name: placed[name] for name in names}


def _tables(written: WrittenMatrix) -> Iterator[TextMatrix]:
    """The decoder's matrices. Pairs between nodes are never compared with pairs inside of nodes."""
    ends, index = tuple(written.ends.values()), {name: at for at, name in enumerate(written.ends)}
    spans: dict[Span, list[MatrixCell]] = {}
    for cell in written.tests:
        inside = written.ends[cell.source].node == written.ends[cell.target].node
        spans.setdefault(Span.INSIDE if inside else Span.BETWEEN, []).append(cell)
    for span, cells in spans.items():
        name = f"{written.name}, {span.value}" if len(spans) > 1 else written.name
        sources, targets = ([index[cell.source] for cell in cells], [index[cell.target] for cell in cells])
        values, metric = [_value(cell, written.better) for cell in cells], METRICS[written.better]
        matrix = Matrix(metric, written.unit, written.better, span, ends, sources, targets, values)
        yield TextMatrix(name, matrix, [cell.line for cell in cells])


def _untested(written: WrittenMatrix) -> Iterator[str]:
    """The tests that are missing. If they were ignored, a part that was not tested would count as good."""
    tried = {(cell.source, cell.target) for cell in written.tests}
    wanted = _wanted(written.ends, tried)
    missing = [pair for pair in wanted if pair not in tried]
    if missing:
        first = " -> ".join(missing[0])
        yield f"{written.name}: {len(missing)} of {len(wanted)} directions were not measured, the first is {first}"


def _wanted(ends: Mapping[str, Endpoint], tried: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Every pair of ends of a kind that was tried: inside a node, between nodes on one rail, between nodes across rails."""

    def relation(a: str, b: str) -> tuple[bool, bool]:
        same = ends[a].node == ends[b].node
        return same, not same and ends[a].rail != ends[b].rail

    kinds = {relation(a, b) for a, b in tried}
    kinds |= {(False, False)} if (False, True) in kinds else set()
    return [(a, b) for a in ends for b in ends if a != b and relation(a, b) in kinds]


def _read_p2p(lines: Sequence[str]) -> tuple[list[WrittenMatrix], list[str], list[str]]:
    """The matrices, what is missing because the text was truncated, and what is not judged. Raises Garbled.

    The tool prints six matrices, and beside each latency the time that the CPU took to request the copy (since CUDA 9.2).
    """
    titles = [(number, match) for number, line in enumerate(lines) if (match := P2P.match(line))]
    names = [" ".join(match["name"].split()) for _, match in titles]
    if len(set(names)) < len(names):
        raise Garbled("it holds several outputs of p2pBandwidthLatencyTest. Explain them one by one", "")
    written = []
    for name, (number, match) in zip(names, titles, strict=True):
        better = Better.LOWER if match["unit"] == "us" else Better.HIGHER
        columns, cells = _block(lines, number + 1, name)
        ends = _ends(columns, f"line {number + 2}", "this host")
        written.append(WrittenMatrix(name, match["unit"], better, ends, cells))
    left_out = ["latency CPU: it is the time that the host takes to ask for a copy"]
    if not any(map(_P2P_BEGINS.match, lines)):
        return written, [], [*left_out, "the other matrices: this excerpt does not contain them"]
    count = f"it contains {len(names)} of its {P2P_MATRICES} matrices: the output is truncated"
    unread = [count] if len(names) < P2P_MATRICES else []
    latencies = [name for name in names if "Latency" in name]
    blocks = [number for number, line in enumerate(lines) if line.split()[:1] == ["CPU"]]
    if len(blocks) < len(latencies) and (blocks or len(latencies) < 2):
        unread.append("it ends before its last matrix")
    for start in blocks:
        _block(lines, start, "CPU latency")
    return written, unread, left_out


def _block(lines: Sequence[str], start: int, name: str) -> tuple[list[str], list[MatrixCell]]:
    """The GPUs that the line names, and the cells of the rows below it: as many rows, with the same numbers. Raises Garbled."""
    columns = [field for field in (lines[start].split() if start < len(lines) else []) if field.isdigit()]
    if not columns:
        raise Garbled(f"line {start + 1}, {name}: the line that names the GPUs is missing")
    gpus, cells = [f"GPU {column}" for column in columns], list[MatrixCell]()
    for number, column in enumerate(columns, start + 1):
        source, *texts = (lines[number].split() if number < len(lines) else []) or [""]
        if source != column or len(texts) != len(columns):
            raise Garbled(f"line {number + 1}, {name}: it must be GPU {column}'s row of {len(columns)} cells")
        cells += [
            MatrixCell(f"GPU {column}", to, text, number + 1) for to, text in zip(gpus, texts, strict=True)
        ]
    return gpus, cells
