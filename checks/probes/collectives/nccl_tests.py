"""nccl.tests: NVIDIA's own nccl-tests programs on all GPUs of the node, where they are installed.

The text that they print is read in every generation: 2.0 to 2.11, 2.13 to 2.16, 2.17 and later (src/common.cu).

Columns are found by the names in the header. Prefixes that launchers put before a line ("host: ", and those of
checks.explain.unread_lines) are removed.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from checks.check import Basis, CheckError, Context, Measurement, Resource, Skipped, check
from checks.explain.unread_lines import bare
from checks.model import MachinePart, Profile, Scope, Skip
from checks.model_details import Contents
from checks.probes.collectives import nccl_tests_result
from checks.probes.collectives.nccl_tests_result import (
    BufferPlacement,
    NcclTestsPlan,
    NcclTestsRun,
    SizeResult,
)
from checks.probes.collectives.operations import KINDS
from checks.process.tool import ToolMissing, ToolResult, find, run

# In this order: the first is the most important one for training, and if it is missing, none is installed.
PROGRAMS = tuple(f"{collective.name}_perf" for collective in KINDS)
METRICS = (
    "programs",
    "programs_missing",
    "wrong_elements",
    "out_of_bounds",
    "rows_unverified",
    "rows_missing",
    "below_own_minimum",
    "ranks",
    "ranks_missing",
    "busbw_out_of_place_gbps",
    "busbw_in_place_gbps",
    "points",
    "busbw_gbps",
)
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
_SIZE_LINE = re.compile(r"^\d+(?:\s|$)")
REDOPS = ("sum", "prod", "max", "min", "avg", "mulsum", "none")


def holds(basis: Basis) -> tuple[Contents, ...]:
    """Each program that is installed, and each size of its run."""
    least, most, wanted = (int(basis.options.get(name, 1)) for name in ("min_bytes", "max_bytes", "programs"))
    sizes, missing = NcclTestsPlan(least, most, 4, True, 1, 1).sizes(), "programs_missing"
    points = Contents("points", wanted * sizes, along=("busbw_gbps",), less=missing, each=sizes)
    return Contents("programs", len(PROGRAMS[:wanted]), less=missing), points


@check(
    "nccl.tests",
    Scope.NODE,
    timeout_s=300,
    metrics=METRICS,
    needs="nccl-tests",
    cost="minutes",
    profiles=(Profile.STANDARD, Profile.DEEP),
    min_ranks=2,
    part=MachinePart.GPU,
    uses=(Resource.GPU,),
    holds=holds,
)
def tests(context: Context) -> Measurement | Skipped:
    """Runs nccl-tests on all GPUs of this node: every element compared, every size there, every GPU in use.

    Metrics have one value for each of `programs`. Bandwidths are the best size's, in 10^9 bytes/s, in place and out of
    place apart; but `busbw_gbps` is that of each row, the lesser of both, at `points`. What is not whole (no footer, a
    size without a row) is an error.
    """
    gpus = context.declared.gpus_per_node
    if gpus < 2:
        return Skipped(
            Skip.ONE_RANK_DECLARED, "there is one GPU per node, and a program with one rank exchanges nothing"
        )
    wanted = PROGRAMS[: int(context.options.get("programs", 1))]
    find(wanted[0])
    installed = []
    for name in wanted:
        with contextlib.suppress(ToolMissing):
            find(name)
            installed.append(name)
    share_s = 0.95 * context.timeout_s / len(installed)
    results = [run((name, *_arguments(context, gpus)), share_s) for name in installed]
    runs = [_read(name, result) for name, result in zip(installed, results, strict=True)]
    metrics = {**nccl_tests_result.metrics(runs, gpus), "programs_missing": len(wanted) - len(installed)}
    lacking = "".join(f"not installed: {name}\n" for name in wanted if name not in installed)
    return Measurement(metrics, lacking + "\n".join(result.account() for result in results))


def _arguments(context: Context, gpus: int) -> tuple[str, ...]:
    least, most = int(context.options["min_bytes"]), int(context.options["max_bytes"])
    return ("-b", str(least), "-e", str(most), "-f", "4", "-g", str(gpus), "-c", "1")


def _read(name: str, result: ToolResult) -> NcclTestsRun:
    """The only run of the program. Raises CheckError if it is not complete."""
    if not result.whole:
        message = f"{name} did not end by itself, or its output was truncated\n{result.account()[-2000:]}"
        raise CheckError(message)
    runs = read(f"{result.stdout}\n{result.stderr}")
    if len(runs) != 1:
        raise CheckError(f"{name} printed {len(runs)} runs, not one\n{result.account()[-2000:]}")
    parsed = runs[0]
    parsed = replace(parsed, program=parsed.program or name)
    reason = nccl_tests_result.faults(parsed)
    if not reason and result.code != 0 and not (parsed.failed or (parsed.closed and parsed.slow)):
        reason = (f"exit code {result.code}, although its footer reports success",)
    if nccl_tests_result.lists_one_process(parsed):
        reason = (*reason, "it lists the ranks of one process only")
    if parsed.plan is None or parsed.program != name:
        reason = (*reason, f"the header is missing or belongs to {parsed.program}")
    if reason and not (parsed.failed and parsed.results):  # wrong results count, whatever else is missing
        raise CheckError(f"{name}: {'; '.join(reason)}\n{result.account()[-2000:]}")
    return parsed


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
        if line.startswith("#") or _SIZE_LINE.match(line) or _ERROR.search(line) or _COMMAND.search(line)
    )


def read(text: str) -> tuple[NcclTestsRun, ...]:
    """The runs in the text, in order; () if there is none."""
    runs, parsed, commanded = [], NcclTestsRun(), ""
    for number, line in _bare(text):
        if parsed.full and (_BEGIN.search(line) or _VERSION.search(line) or _PLAN.search(line)):
            runs.append(parsed)
            parsed, commanded = NcclTestsRun(commanded=commanded), ""
        started = {match[1] for match in _COMMAND.finditer(line)} if not line.startswith("#") else set()
        if len(started) == 1 and not _ERROR.search(line):
            (command,) = started
            commanded, parsed.commanded = (command, parsed.commanded) if parsed.full else ("", command)
        _take(parsed, number, line)
    runs.append(parsed)
    for finished in runs:
        finished.program = finished.program or finished.commanded
    return tuple(finished for finished in runs if finished.results or finished.plan or finished.columns)


def _bare(text: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(text.splitlines(), 1):
        yield number, bare(_HOST.sub("", bare(raw)))


def _take(parsed: NcclTestsRun, number: int, line: str) -> None:
    numbered = f"{number}: {line}"
    if line.startswith("#"):
        try:
            is_known = _take_comment(parsed, line, numbered)
        except ValueError as error:
            parsed.odd.append(f"a line cannot be read ({error}): {numbered}")
            return
        if not is_known and _COMPLAINT.match(line):
            parsed.errors.append(numbered)
    elif _ERROR.search(line):
        parsed.errors.append(numbered)
    elif _SIZE_LINE.match(line):
        _take_row(parsed, line, numbered)


def _take_comment(parsed: NcclTestsRun, line: str, numbered: str) -> bool:
    if match := _VERSION.search(line):
        parsed.version = match[1]
    elif match := _BEGIN.search(line):
        parsed.program, parsed.began = match[1], True
    elif match := _END.search(line):
        parsed.ended = True
        parsed.program = parsed.program or match[1]
    elif match := _PLAN.search(line):
        threads, gpus, least, most, step = (int(match[index]) for index in range(1, 6))
        parsed.plan = NcclTestsPlan(least, most, step, match[6] == "factor", threads, gpus)
        parsed.lines["plan"] = numbered
    elif match := _RANK.match(line):
        parsed.ranks.append((int(match[1]), (int(match[2]), match[3])))
        parsed.lines["ranks"] = "\n".join(filter(None, [parsed.lines.get("ranks", ""), numbered]))
    elif _TABLE.match(line):
        parsed.columns = tuple(line.lstrip("# ").split())
    elif match := _BOUNDS.match(line):
        parsed.wrong_tests = max(int(match[1]), int(match[2] != "OK"))
        parsed.lines["footer"] = numbered
    elif match := _AVERAGE.match(line):
        parsed.average_gbps, parsed.slow = _number(match[1]), match[2] == "FAILED"
    else:
        return False
    return True


def _take_row(parsed: NcclTestsRun, line: str, numbered: str) -> None:
    if parsed.wrong_tests is not None or not parsed.columns:
        parsed.odd.append(f"a row is at a place where no row belongs: {numbered}")
        return
    try:
        parsed.results.append(_record(parsed.columns, line.split(), numbered))
    except (ValueError, KeyError) as error:
        parsed.odd.append(f"a row cannot be read ({error}): {numbered}")


def _record(columns: Sequence[str], tokens: Sequence[str], numbered: str) -> SizeResult:
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
    out = dict(zip(names[:width], of_right[:width], strict=True))
    inside = dict(zip(names[width:], of_right[width:], strict=True))
    redop = next((token for token in left[3:] if token in REDOPS), "")
    return SizeResult(int(tokens[0]), redop, _placement(out), _placement(inside), numbered)


def _placement(values: Mapping[str, str]) -> BufferPlacement:
    wrong_text = values["#wrong"] if "#wrong" in values else values["error"]
    _number(values["time"])
    wrong = None if wrong_text == "N/A" else _number(wrong_text)
    return BufferPlacement(_number(values["algbw"]), _number(values["busbw"]), wrong)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text} is not a finite number")
    return value
