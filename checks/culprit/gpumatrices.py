"""The matrices that two tools of NVIDIA print of the GPUs of one host: p2pBandwidthLatencyTest and nvbandwidth (pure).

p2pBandwidthLatencyTest writes six matrices (both ways of access, one and both directions, latency), and beside each
latency what the CPU took to ask for the copy, which is no property of the path. nvbandwidth writes a matrix a test, and
the sum of its cells; what is not between two GPUs is no matrix of equals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.culprit.matrix import Better
from checks.culprit.words import says_better, unit_of, what_of
from checks.culprit.written import Cell, Ends, Written, cell_value, is_untried, require_names
from checks.explain.reading import Broken

P2P = re.compile(
    r"^[ \t]*(?P<name>(?:Unidirectional |Bidirectional )?P2P=(?:Enabled|Disabled) (?:Bandwidth|Latency)[^\n(]*"
    r"(?:\([^\n)]*\) )?)Matrix \((?P<unit>GB/s|us)\)[ \t]*$",
    re.MULTILINE,
)
NVBANDWIDTH = re.compile(
    r"^[^\n]*\bGPU\(row\) (?P<arrow><->|->|<-) GPU\(column\)[^\n]*\((?P<unit>GB/s|ns)\)[ \t]*$", re.MULTILINE
)
_OTHER = re.compile(r"\b(?:CPU\(row\)|local GPU\(column\))[^\n]*\((?:GB/s|ns)\)[ \t]*$")
_P2P_OF = ("Unidirectional P2P=Disabled Bandwidth", "Unidirectional P2P=Enabled Bandwidth",
           "Bidirectional P2P=Disabled Bandwidth", "Bidirectional P2P=Enabled Bandwidth",
           "P2P=Disabled Latency", "P2P=Enabled Latency")  # fmt: skip
_RUNNING = re.compile(r"^\s*Running (\w*)\.?\s*$")
_WAIVED = re.compile(r"^\s*Waiv(?:ing|ed)\b:? *(\w*)")
_SUM = re.compile(r"^\s*SUM (\w+) ([0-9.eE+]+)\s*$")
# What may stand last: a row, a sum, a remark.
_END = re.compile(r"^\s*(?:\d+\s+(?:[\d.]+|N/A)|[A-Z]{3,} |NOTE|Waiv|Additional)")
_TROUBLE = re.compile(
    r"\bASSERT in expression\b|^\s*\[?CUDA_ERROR|\bCuda failure\b|^\s*ERROR\b|Invalid value when checking"
)
HOST = "this host"


@dataclass(frozen=True)
class Found:
    """What a tool's text holds, what of it could not be read whole, and what is not judged ("name: why")."""

    title: str
    written: tuple[Written, ...]
    unread: tuple[str, ...]
    left_out: tuple[str, ...]


def p2p(text: str) -> Found:
    """p2pBandwidthLatencyTest. Raises Broken."""
    lines, written, names = text.splitlines(), [], list[str]()
    for number, line in enumerate(lines):
        if found := P2P.match(line):
            name = " ".join(found["name"].split())
            names.append(name)
            rows = _block(lines, number + 1, name)
            written.append(_written(name, found["unit"], rows, "->"))
    missing = [wanted for wanted in _P2P_OF if not any(name.startswith(wanted) for name in names)]
    if len(set(names)) < len(names):
        raise Broken("it holds several outputs of p2pBandwidthLatencyTest. Explain them one by one")
    unread = [f"it holds no matrix {name}: it is cut" for name in missing]
    unread += _unfinished(lines) if "P2P=Disabled Latency" in names else ()
    left_out = ("latency CPU: it is the time that the host takes to ask for a copy",) if names else ()
    gpus = len(written[0].names) if written else 0
    return Found(
        f"p2pBandwidthLatencyTest of {gpus} GPUs", tuple(written), (*unread, *_troubles(lines)), left_out
    )


def nvbandwidth(text: str) -> Found:
    """nvbandwidth's text. Raises Broken."""
    lines, written, left_out, unread = text.splitlines(), list[Written](), list[str](), list[str]()
    running = ""
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
            running = ""
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
    gpus = max((len(one.names) for one in written), default=0)
    return Found(f"nvbandwidth of {gpus} GPUs", tuple(written), (*unread, *_troubles(lines)), tuple(left_out))


@dataclass(frozen=True)
class _Line:
    number: int
    name: str
    cells: tuple[str, ...]


def _block(lines: Sequence[str], start: int, name: str) -> tuple[_Line, ...]:
    """The rows below a title: as many as the line of names below it has, numbered alike. Raises Broken."""
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
        rows.append(_Line(start + place + 1, f"GPU {column}", tuple(fields[1:])))
    return tuple(rows)


def _written(name: str, unit: str, rows: Sequence[_Line], arrow: str) -> Written:
    names, words = tuple(row.name for row in rows), f"{name} {unit}"
    better = says_better(unit) or Better.HIGHER
    cells = tuple(_cells(rows, names, arrow, better))
    what = what_of(unit)
    return Written(name, unit_of(words), what, better, names, cells, Ends(dict.fromkeys(names, HOST)))


def _cells(rows: Sequence[_Line], names: Sequence[str], arrow: str, better: Better) -> Iterator[Cell]:
    for row in rows:
        for column, text in zip(names, row.cells, strict=True):
            if row.name != column and not is_untried(text):
                source, target = (column, row.name) if arrow == "<-" else (row.name, column)
                value = cell_value(text, f"line {row.number} ({row.name}), column {column},", better)
                yield Cell(source, target, value, row.number)


def _sum_fits(lines: Sequence[str], at: int, rows: Sequence[_Line], name: str) -> bool:
    """Whether a sum stands below the matrix: that of its cells, but for what rounding loses. Raises Broken."""
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
    """The last thing measured is what the CPU took beside the last latency: a text that lacks it was cut."""
    blocks = [number for number, line in enumerate(lines) if line.split()[:1] == ["CPU"]]
    latencies = [number for number, line in enumerate(lines) if P2P.match(line) and "Latency" in line]
    if not blocks and len(latencies) == 2:
        return []  # before CUDA 9.2 it had none
    if len(blocks) < len(latencies):
        return ["it ends before its last matrix"]
    for start in blocks:
        _block(lines, start, "CPU latency")
    return []


def _troubles(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        f"line {n}: {line.strip()[:200]}" for n, line in enumerate(lines, 1) if _TROUBLE.search(line)
    )[:8]
