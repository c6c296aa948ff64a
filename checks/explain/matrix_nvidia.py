"""Reads the matrices that two tools of NVIDIA print about the GPUs of one host: p2pBandwidthLatencyTest and nvbandwidth. Pure.

p2pBandwidthLatencyTest prints six matrices (both kinds of access, one and both directions, latency), and beside each latency the
time that the CPU took to request the copy, which is no property of the path. nvbandwidth prints one matrix per test, and the sum of
its cells; only matrices between two GPUs compare equal parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Better
from checks.explain.matrix_cells import (
    Cell,
    Ends,
    WrittenMatrix,
    cell_value,
    is_untried,
    require_names,
    says_better,
    unit_of,
    what_of,
)
from checks.explain.reading import Broken, Part

P2P = re.compile(
    r"^[ \t]*(?P<name>(?:Unidirectional |Bidirectional )?P2P=(?:Enabled|Disabled) (?:Bandwidth|Latency)[^\n(]*"
    r"(?:\([^\n)]*\) )?)Matrix \((?P<unit>GB/s|us)\)[ \t]*$",
    re.MULTILINE,
)
NVBANDWIDTH = re.compile(
    r"^[^\n]*\bGPU\(row\) (?P<arrow><->|->|<-) GPU\(column\)[^\n]*\((?P<unit>GB/s|ns)\)[ \t]*$", re.MULTILINE
)
# A copy between a CPU and a GPU while no other runs: the name of the test, and the metric of compute.transfer that it measures.
HOST = re.compile(r"^[^\n]*\bCPU\(row\) (?P<arrow>->|<-) GPU\(column\)[^\n]*\(GB/s\)[ \t]*$", re.MULTILINE)
_HOST_TESTS = {"host_to_device_memcpy": "h2d_gbps", "device_to_host_memcpy": "d2h_gbps"}
_OTHER = re.compile(r"\b(?:CPU\(row\)|local GPU\(column\))[^\n]*\((?:GB/s|ns)\)[ \t]*$")
_P2P_OF = ("Unidirectional P2P=Disabled Bandwidth", "Unidirectional P2P=Enabled Bandwidth",
           "Bidirectional P2P=Disabled Bandwidth", "Bidirectional P2P=Enabled Bandwidth",
           "P2P=Disabled Latency", "P2P=Enabled Latency")  # fmt: skip
_P2P_BEGINS = re.compile(r"^\s*(?:\[P2P |Device: \d|Device=\d|P2P Connectivity Matrix|\*\*\*NOTE)")
_RUNNING = re.compile(r"^\s*Running (\w*)\.?\s*$")
_WAIVED = re.compile(r"^\s*Waiv(?:ing|ed)\b:? *(\w*)")
_SUM = re.compile(r"^\s*SUM (\w+) ([0-9.eE+]+)\s*$")
# What the last line may be: a row, a sum, a remark.
_END = re.compile(r"^\s*(?:\d+\s+(?:[\d.]+|N/A)|[A-Z]{3,} |NOTE|Waiv|Additional)")
_TROUBLE = re.compile(
    r"\bASSERT in expression\b|^\s*\[?CUDA_ERROR|\bCuda failure\b|^\s*ERROR\b|Invalid value when checking"
)
THIS_HOST = "this host"
TRANSFER = "compute.transfer"


@dataclass(frozen=True)
class FoundMatrices:
    """The matrices in the output of a tool, what could not be read completely, and what is not judged ("name: why").

    `parts` are what one of Prelaunch's checks would have measured: copies between the host and its GPUs.
    """

    title: str
    written: tuple[WrittenMatrix, ...]
    unread: tuple[str, ...]
    left_out: tuple[str, ...]
    parts: tuple[Part, ...] = ()


def p2p(text: str) -> FoundMatrices:
    """Reads p2pBandwidthLatencyTest. Raises Broken."""
    lines, written, names = text.splitlines(), [], list[str]()
    for number, line in enumerate(lines):
        if found := P2P.match(line):
            name = " ".join(found["name"].split())
            names.append(name)
            rows = _block(lines, number + 1, name)
            written.append(_written(name, found["unit"], rows, "->"))
    missing = [wanted for wanted in _P2P_OF if not any(name.startswith(wanted) for name in names)]
    if len(set(names)) < len(names):
        raise Broken("it holds several outputs of p2pBandwidthLatencyTest. Explain them one by one", "")
    begins = any(
        map(_P2P_BEGINS.match, lines)
    )  # if a text begins like the tool's output and a matrix is missing, it was truncated
    unread = [f"it contains no matrix {name}: the output is truncated" for name in missing if begins]
    unread += _unfinished(lines) if begins and "P2P=Disabled Latency" in names else ()
    left_out = ["latency CPU: it is the time that the host takes to ask for a copy"] if names else []
    left_out += [] if begins else [f"{name}: this excerpt does not contain it" for name in missing]
    gpus = len(written[0].names) if written else 0
    return FoundMatrices(
        f"p2pBandwidthLatencyTest of {gpus} GPUs",
        tuple(written),
        (*unread, *_troubles(lines)),
        tuple(left_out),
    )


def host_metric(test: str) -> str:
    """The metric of compute.transfer that a test of copies between CPUs and GPUs measures: "h2d_gbps"; "" for every other test."""
    return _HOST_TESTS.get(test.rpartition("_")[0], "")


def nvbandwidth(text: str) -> FoundMatrices:
    """Reads nvbandwidth's text. Raises Broken."""
    lines, written, left_out, unread = text.splitlines(), list[WrittenMatrix](), list[str](), list[str]()
    running, copies, gpus = "", list[Copies](), 0
    for number, line in enumerate(lines):
        if found := _RUNNING.match(line):
            unread += [f"{running} shows no result"] if running else []
            running = found[1]
        elif found := NVBANDWIDTH.match(line):
            name = running or line.strip()
            rows = _block(lines, number + 1, name)
            written.append(_written(name, found["unit"], rows, found["arrow"]))
            if not _sum_fits(lines, number + 2 + len(rows), rows, name) and any(map(_SUM.match, lines)):
                unread.append(f"{name}: the sum below it is missing: it is cut")
            running, gpus = "", max(gpus, len(rows))
        elif HOST.match(line) and (metric := host_metric(running)):
            rows = _host_block(lines, number + 1, running)
            if not _sum_fits(lines, number + 2 + len(rows), rows, running):
                unread.append(f"{running}: the sum below it is missing: it is cut")
            copies.append(Copies(metric, running, rows))
            running, gpus = "", max(gpus, len(rows[0].cells))
        elif not running and HOST.match(line):
            unread.append(f"line {number + 1}: the name of the test whose matrix this is is missing")
        elif _OTHER.search(line):
            left_out.append(f"nvbandwidth {running or line.strip()}: it is not between two GPUs")
            running = ""
        elif found := _WAIVED.match(line):
            name, running = found[1] or running, ""
            if name.startswith("device_to_device"):
                unread.append(f"{name} was not run: nvbandwidth waived it")
    unread += [f"{running} shows no result"] if running else []
    if not text.endswith("\n") and lines and not _END.match(lines[-1]):
        unread.append(f"it ends within line {len(lines)}: {lines[-1].strip()[:80]}")
    title, rest = f"nvbandwidth of {gpus} GPUs", (*unread, *_troubles(lines))
    return FoundMatrices(title, tuple(written), rest, tuple(left_out), tuple(map(part_of, copies)))


@dataclass(frozen=True)
class Line:
    """One row of a matrix: its line in the text (0 in JSON), its name, and its cells as text."""

    number: int
    name: str
    cells: tuple[str, ...]


def _block(lines: Sequence[str], start: int, name: str) -> tuple[Line, ...]:
    """The rows below a title: as many as the line of names below it has, with the same numbers. Raises Broken."""
    if start >= len(lines):
        raise Broken(f"{name}: it ends before the matrix")
    header = lines[start].split()
    columns = header[1:] if header[:1] and not header[0].isdigit() else header
    if not columns:
        raise Broken(f"line {start + 1}, {name}: the line that names the GPUs is missing")
    require_names(columns, f"line {start + 1}")
    rows = []
    for place, column in enumerate(columns, 1):
        fields = lines[start + place].split() if start + place < len(lines) else []
        if fields[:1] != [column] or len(fields) != len(columns) + 1:
            said = f"must be the row of GPU {column}, with {len(columns)} cells"
            raise Broken(f"line {start + place + 1}, {name}: {said}")
        rows.append(Line(start + place + 1, f"GPU {column}", tuple(fields[1:])))
    return tuple(rows)


@dataclass(frozen=True)
class Copies:
    """One test's copies between each CPU (a row) and each GPU (a column), as a metric of compute.transfer."""

    metric: str
    name: str
    rows: tuple[Line, ...]


def _host_block(lines: Sequence[str], start: int, name: str) -> tuple[Line, ...]:
    """The rows of CPUs below a line that counts the GPUs. Raises Broken."""
    columns = lines[start].split() if start < len(lines) else []
    if not columns or columns != [str(place) for place in range(len(columns))]:
        raise Broken(f"line {start + 1}, {name}: the line that names the GPUs is missing")
    rows: list[Line] = []
    for number, line in enumerate(lines[start + 1 :], start + 2):
        fields = line.split()
        if not fields or not fields[0].isdigit():
            break
        if fields[0] != str(len(rows)) or len(fields) != len(columns) + 1:
            raise Broken(
                f"line {number}, {name}: must be the row of CPU {len(rows)}, with {len(columns)} cells"
            )
        rows.append(Line(number, f"CPU {len(rows)}", tuple(fields[1:])))
    if not rows:
        raise Broken(f"line {start + 2}, {name}: it ends before the matrix")
    return tuple(rows)


def part_of(copies: Copies) -> Part:
    """One value for each CPU and GPU, row by row, each with its line. Raises Broken."""
    cells = [
        (cell_value(text, f"line {row.number} ({row.name}), column {place},", Better.HIGHER), row, place)
        for row in copies.rows
        for place, text in enumerate(row.cells)
    ]
    said = "\n".join(
        f"{row.number}: {row.name}, GPU {place}: {row.cells[place]} GB/s" for _, row, place in cells
    )
    return Part(TRANSFER, {copies.metric: tuple(value for value, _, _ in cells)}, {copies.metric: said}, said)


def _written(name: str, unit: str, rows: Sequence[Line], arrow: str) -> WrittenMatrix:
    names, words = tuple(row.name for row in rows), f"{name} {unit}"
    better = says_better(unit) or Better.HIGHER
    cells = tuple(_cells(rows, names, arrow, better))
    what = what_of(unit)
    return WrittenMatrix(
        name, unit_of(words), what, better, names, cells, Ends(dict.fromkeys(names, THIS_HOST))
    )


def _cells(rows: Sequence[Line], names: Sequence[str], arrow: str, better: Better) -> Iterator[Cell]:
    for row in rows:
        for column, text in zip(names, row.cells, strict=True):
            if row.name != column and not is_untried(text):
                source, target = (column, row.name) if arrow == "<-" else (row.name, column)
                value = cell_value(text, f"line {row.number} ({row.name}), column {column},", better)
                yield Cell(source, target, value, row.number)


def _sum_fits(lines: Sequence[str], at: int, rows: Sequence[Line], name: str) -> bool:
    """Whether the sum below the matrix equals that of its cells, except for rounding. Raises Broken."""
    found = next((_SUM.match(line) for line in lines[at : at + 2] if _SUM.match(line)), None)
    if found is None:
        return False
    numbers = [float(text) for row in rows for text in row.cells if not is_untried(text)]
    said, made = float(found[2]), sum(numbers)
    if abs(said - made) > 0.006 * (len(numbers) + 1):
        raise Broken(
            f"{name}: its cells add up to {made:.2f}, and it says {said:.2f}: a cell was lost or changed"
        )
    return True


def _unfinished(lines: Sequence[str]) -> list[str]:
    """The last result is the CPU time beside the last latency: a text without it was truncated."""
    blocks = [number for number, line in enumerate(lines) if line.split()[:1] == ["CPU"]]
    latencies = [number for number, line in enumerate(lines) if P2P.match(line) and "Latency" in line]
    if not blocks and len(latencies) == 2:
        return []  # before CUDA 9.2 there was none
    if len(blocks) < len(latencies):
        return ["it ends before its last matrix"]
    for start in blocks:
        _block(lines, start, "CPU latency")
    return []


def _troubles(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        f"line {n}: {line.strip()[:200]}" for n, line in enumerate(lines, 1) if _TROUBLE.search(line)
    )[:8]
