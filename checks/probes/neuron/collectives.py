"""neuron.collectives: runs AWS's nccom-test over all cores of the node, with its own check of the results, and reads its output.

nccom-test prints a table of sizes (size(B), count(elems), type, time(us), algbw(GB/s), busbw(GB/s)) and "Avg bus bandwidth".
A size that failed has "Failure running neuron-bench" instead of figures, and the end says "1 errors found - test failed".
Its GB/s are 2^30 bytes per second (awsdocs-neuron, nccom-test).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.check import Basis, CheckError, Context, Measurement, Resource
from checks.model import Profile, Value
from checks.model_details import Contents
from checks.probes.neuron.devices import ask, neuron_check
from checks.process import tool
from checks.process.tool import ToolResult

GIB_IN_GB = (1 << 30) / 1e9
_HEADER = re.compile(
    r"^\s*size\(B\)\s+count\(elems\)\s+type\s+time\S*\(us\)\s+algbw\S*\(GB/s\)\s+busbw\S*\(GB/s\)"
)
_SIZE_LINE = re.compile(r"^\s*(\d+)\s+(\d+)\s+([a-z]+\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$")
_FAILED_ROW = re.compile(r"^\s*(\d+)\s+(\D.*)$")
_AVERAGE = re.compile(r"^\s*Avg bus bandwidth:\s*(\S+?)\s*GB/s\s*$")
_ERRORS = re.compile(r"^\s*(\d+) errors? found\b")
_WRONG = re.compile(r"mismatch|incorrect|wrong|corrupt|(?:check|validation) failed", re.IGNORECASE)
OPERATIONS = ("allr", "allg", "redsct")
SIZES = ("1MB", "4MB", "16MB", "64MB")
GREATEST_BYTES = 64 << 20


@dataclass(frozen=True)
class NccomSize:
    """One size: its bus bandwidth in 10^9 bytes per second."""

    size_bytes: int
    busbw_gbps: float


@dataclass(frozen=True)
class NccomRun:
    """The whole output. `failures` are lines about sizes that failed, `wrong` those that speak of wrong results."""

    results: tuple[NccomSize, ...]
    failures: tuple[str, ...]
    wrong: tuple[str, ...]


def parse(text: str) -> NccomRun:
    """The run. Raises CheckError."""
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        raise CheckError(f"nccom-test printed no table: {' '.join(text.split())[:300] or 'nothing'}")
    records: list[NccomSize] = []
    failures, wrong = [], [line.strip() for line in lines if _WRONG.search(line)]
    ended = False
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if _AVERAGE.match(line) or _ERRORS.match(line):
            ended = True
            errors = _ERRORS.match(line)
            failures += [line.strip()] if errors and int(errors[1]) else []
        elif match := _SIZE_LINE.match(line):
            records.append(_record(match, number))
        elif _FAILED_ROW.match(line):
            failures.append(line.strip())
    if not ended:
        raise CheckError("the last line is missing: the output was truncated, or nccom-test did not end")
    return NccomRun(tuple(records), tuple(failures), tuple(wrong))


def _record(match: re.Match[str], number: int) -> NccomSize:
    try:
        time_us, algbw, busbw = (float(match[index]) for index in (4, 5, 6))
    except ValueError as error:
        raise CheckError(f"line {number}: {error}") from error
    if not all(math.isfinite(value) and value >= 0 for value in (time_us, algbw, busbw)) or not time_us:
        raise CheckError(f"line {number} has no measurement: {match[0].strip()}")
    # The columns account for each other; where the rounded figure is large enough, they have to.
    size = int(match[1])
    computed = size / (time_us * 1e-6) / (1 << 30)
    if algbw >= 1 and not 0.8 * algbw <= computed <= 1.25 * algbw:
        raise CheckError(f"line {number}: {size} bytes in {time_us:g} us do not give {algbw:g} GB/s")
    return NccomSize(size, busbw * GIB_IN_GB)


def holds(basis: Basis) -> tuple[Contents, ...]:
    """Each operation of the profile."""
    return (Contents("operations", labels=operations_of(basis.options)),)


def operations_of(options: Mapping[str, float]) -> tuple[str, ...]:
    """The first ones, as many as the profile wants."""
    return OPERATIONS[: int(options.get("operations", len(OPERATIONS)))]


@neuron_check(
    "neuron.collectives",
    ("cores_used", "rows_missing", "failures", "wrong_results", "busbw_gbps"),
    timeout_s=1800,
    needs="nccom-test, neuron-ls",
    cost="minutes",
    profiles=(Profile.STANDARD, Profile.DEEP),
    serial=True,
    uses=(Resource.GPU,),
    holds=holds,
)
def collectives(context: Context) -> Measurement:
    """Runs all-reduce, all-gather and reduce-scatter over all logical cores of the node, 1 MB to 64 MB, float32.

    An element an operation: `rows_missing` (sizes without a figure), `failures` and `wrong_results` (texts, "" where
    there is nothing), `busbw_gbps` (10^9 bytes/s at the greatest size, null if that one failed). `cores_used` is
    the number of ranks. Raises CheckError for output that is cut, or a failure that names no size.
    """
    deadline_s = min(context.options.get("deadline_s", 300.0), max(context.timeout_s - 60.0, 1.0))
    operations = operations_of(context.options)
    ranks = sum(device.nc_count for device in ask()[0])
    results = [run(operation, ranks, deadline_s / len(operations)) for operation in operations]
    runs = [understood(result) for result in results]
    metrics: dict[str, Value] = {"cores_used": ranks, **metrics_of(operations, runs)}
    return Measurement(metrics, "\n\n".join(result.account() for result in results))


def run(operation: str, ranks: int, deadline_s: float) -> ToolResult:
    """Run nccom-test and return its output. Raises ToolMissing."""
    sizes = ("--minbytes", SIZES[0], "--maxbytes", SIZES[-1], "--stepfactor", "4")
    return tool.run(
        ("nccom-test", "-r", str(ranks), *sizes, "--datatype", "fp32", "--check", operation), deadline_s
    )


def understood(result: ToolResult) -> NccomRun:
    """The run that was printed. Raises CheckError."""
    if result.code is None:
        raise CheckError(f"nccom-test did not end within its deadline: {result.account()[:1000]}")
    parsed_run = result.parsed(parse)
    if result.code and not parsed_run.failures and not parsed_run.wrong:
        raise CheckError(f"nccom-test failed without a result for any size: {result.account()[:1000]}")
    return parsed_run


def metrics_of(operations: tuple[str, ...], runs: list[NccomRun]) -> dict[str, Value]:
    """The metrics of the runs, one element per operation."""
    at_greatest = [
        next((record.busbw_gbps for record in run.results if record.size_bytes >= GREATEST_BYTES), None)
        for run in runs
    ]
    return {
        "operations": operations,
        "rows_missing": tuple(
            len(SIZES) - len({record.size_bytes for record in run.results}) for run in runs
        ),
        "failures": tuple("; ".join(run.failures)[:300] for run in runs),
        "wrong_results": tuple("; ".join(run.wrong)[:300] for run in runs),
        "busbw_gbps": tuple(at_greatest),
    }
