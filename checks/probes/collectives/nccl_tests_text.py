"""Reads the text that nccl-tests print, in every generation: 2.0 to 2.11, 2.13 to 2.16, 2.17 and later (src/common.cu).

Columns are found by the names in the header. Prefixes that launchers put before a line ("host: ", and those of
checks.explain.unread_lines) are removed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.explain.unread_lines import bare
from checks.probes.collectives.nccl_tests_result import Footer, Placement, Plan, RankLine, Row, Run

_HOST = re.compile(r"^[A-Za-z][\w.-]*:(?=\s*(?:#|\d+\s+\d+\s+[a-z]))")
_BEGIN = re.compile(r"Collective test starting: (\w+)")
_END = re.compile(r"Collective test concluded: (\w+)")
_VERSION = re.compile(r"nccl-tests version (\S+)")
_PLAN = re.compile(
    r"nThread (\d+) nGpus (\d+) minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\).*?validation: (\d+)"
)
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(\d+) on\s+(\S+) device\s+(\d+)")
_BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d+) (OK|FAILED)\s*$")
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)\s*(OK|FAILED)?\s*$")
_ERROR = re.compile(
    r"Test (?:NCCL|CUDA) failure|Test failure|NCCL WARN|Invalid number of GPUs|execve\(\)|command not found"
    r"|(?:Segmentation|Bus) (?:fault|error)|Killed"
)
# The command line that started the program, as a shell or a job's script shows it above the output.
_COMMAND = re.compile(
    r"(?:^|[\s/])((?:all_reduce|all_gather|reduce_scatter|alltoall|sendrecv|broadcast|reduce|gather|scatter|hypercube)_perf)(?=\s|$)"
)
_COMPLAINT = re.compile(r"^#\s*[Ee]rror:")
_TABLE = re.compile(r"^#\s*size\s+count\s")
_ROW = re.compile(r"^\d+(?:\s|$)")
REDOPS = ("sum", "prod", "max", "min", "avg", "mulsum", "none")


@dataclass
class _Open:
    """A run that is being read. `commanded` is the program that a command line above it starts."""

    program: str = ""
    commanded: str = ""
    version: str = ""
    plan: Plan | None = None
    columns: tuple[str, ...] = ()
    began: bool = False
    ended: bool = False
    bounds: tuple[int, bool, str] | None = None
    average: tuple[float, bool] | None = None
    ranks: list[RankLine] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Whether a line that begins a run now begins another one."""
        return bool(self.rows or self.average or self.ended)

    def closed(self) -> Run:
        """The run as it was read."""
        footer = None
        if self.bounds and self.average:
            footer = Footer(*self.bounds[:2], *self.average, self.bounds[2])
        # From 2.17.0 on the output marks its start and its end; from 2.17.4 on it names its version.
        says_so = self.began or self.ended or bool(self.version)
        concluded = self.began and self.ended if says_so else True
        return Run(
            self.program or self.commanded, self.version, self.plan, tuple(self.ranks), tuple(self.rows), footer, concluded,
            tuple(self.errors), tuple(self.odd), "error" in self.columns, self.lines,
        )  # fmt: skip


def recognised(text: str) -> bool:
    """Whether this is output of nccl-tests."""
    return any(
        _TABLE.match(line) or _PLAN.search(line) or _BEGIN.search(line) or _BOUNDS.match(line)
        for _, line in _bare(text)
    )


def understood(text: str) -> frozenset[int]:
    """The numbers of the lines that `read` takes or reports: comments, rows and errors."""
    return frozenset(
        number
        for number, line in _bare(text)
        if line.startswith("#") or _ROW.match(line) or _ERROR.search(line) or _COMMAND.search(line)
    )


def read(text: str) -> tuple[Run, ...]:
    """The runs in the text, in order; () if there is none."""
    runs, made, commanded = [], _Open(), ""
    for number, line in _bare(text):
        if made.full and (_BEGIN.search(line) or _VERSION.search(line) or _PLAN.search(line)):
            runs.append(made)
            made, commanded = _Open(commanded=commanded), ""
        started = {match[1] for match in _COMMAND.finditer(line)} if not line.startswith("#") else set()
        if len(started) == 1 and not _ERROR.search(line):
            (command,) = started
            commanded, made.commanded = (command, made.commanded) if made.full else ("", command)
        _take(made, number, line)
    runs.append(made)
    return tuple(run.closed() for run in runs if run.rows or run.plan or run.columns)


def _bare(text: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(text.splitlines(), 1):
        yield number, bare(_HOST.sub("", bare(raw)))


def _take(made: _Open, number: int, line: str) -> None:
    shown = f"{number}: {line}"
    if line.startswith("#"):
        try:
            known = _take_comment(made, line, shown)
        except ValueError as error:
            made.odd.append(f"a line cannot be read ({error}): {shown}")
            return
        if not known and _COMPLAINT.match(line):
            made.errors.append(shown)
    elif _ERROR.search(line):
        made.errors.append(shown)
    elif _ROW.match(line):
        _take_row(made, line, shown)


def _take_comment(made: _Open, line: str, shown: str) -> bool:
    if match := _VERSION.search(line):
        made.version = match[1]
    elif match := _BEGIN.search(line):
        made.program, made.began = match[1], True
    elif match := _END.search(line):
        made.ended = True
        made.program = made.program or match[1]
    elif match := _PLAN.search(line):
        threads, gpus, least, most, step = (int(match[index]) for index in range(1, 6))
        validated = match[7] != "0"
        made.plan = Plan(least, most, step, match[6] == "factor", threads, gpus, validated)
        made.lines["plan"] = shown
    elif match := _RANK.match(line):
        made.ranks.append(RankLine(int(match[1]), int(match[2]), match[3], match[4]))
        made.lines["ranks"] = "\n".join(filter(None, [made.lines.get("ranks", ""), shown]))
    elif _TABLE.match(line):
        made.columns = tuple(line.lstrip("# ").split())
    elif match := _BOUNDS.match(line):
        made.bounds = (int(match[1]), match[2] == "OK", shown)
    elif match := _AVERAGE.match(line):
        made.average = (_number(match[1]), match[2] == "FAILED")
    else:
        return False
    return True


def _take_row(made: _Open, line: str, shown: str) -> None:
    if made.bounds or not made.columns:
        made.odd.append(f"a row is at a place where no row belongs: {shown}")
        return
    try:
        made.rows.append(_row(made.columns, line.split(), shown))
    except (ValueError, KeyError) as error:
        made.odd.append(f"a row cannot be read ({error}): {shown}")


def _row(columns: Sequence[str], tokens: Sequence[str], shown: str) -> Row:
    halves = [index for index, name in enumerate(columns) if name == "time"]
    if len(halves) != 2:
        raise ValueError(f"the header has {len(halves)} columns named time, not 2")
    right = len(columns) - halves[0]
    left = tokens[: len(tokens) - right]
    # Before 2.13 the column of the operator is blank for a collective without one.
    if not 3 <= len(left) <= halves[0]:
        raise ValueError(f"{len(tokens)} values under {len(columns)} columns")
    of_left, of_right = tokens[:3], tokens[-right:]
    if not of_left[1].isdigit() or of_left[2][:1].isdigit():
        raise ValueError("its first columns are not size, count and type")
    width = halves[1] - halves[0]
    names = columns[halves[0] :]
    out, inside = (
        dict(zip(names[:width], of_right[:width], strict=True)),
        dict(zip(names[width:], of_right[width:], strict=True)),
    )
    redop = next((token for token in left[3:] if token in REDOPS), "")
    return Row(int(tokens[0]), redop, _placement(out), _placement(inside), shown)


def _placement(values: Mapping[str, str]) -> Placement:
    said = values["#wrong"] if "#wrong" in values else values["error"]
    _number(values["time"])
    wrong = None if said == "N/A" else _number(said)
    return Placement(_number(values["algbw"]), _number(values["busbw"]), wrong)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text} is not a finite number")
    return value
