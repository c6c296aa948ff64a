"""The table that `dcgmi diag` prints without -j -> Diagnosis (pure).

A row whose first cell is empty continues the one above: before 4.0 it may be another status ("Fail - GPU: 0" under
"Pass - GPUs: 1, 2"), from 4.0 on each GPU has such a row ("GPU3: Fail"). Rows called Warning, Error or Info hold
messages, broken at the width of the cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from checks.check import CheckError
from checks.probes.dcgm.diagnosis import (
    DcgmStatus,
    Diagnosis,
    Problem,
    Result,
    completed,
    major_of,
    status_of,
)
from checks.probes.dcgm.error_table import dcgm_facts

LINK_DOWN = 14  # dcgm_errors.h, DCGM_FR_NVLINK_DOWN
HEADER = re.compile(r"^\s*\|\s*Diagnostic\s*\|\s*Result\s*\|", re.MULTILINE)
# A status of 3.x with its GPUs.
SHARED = re.compile(r"(Pass|Fail|Skip|Warn(?:ing)?|Not Run) - (All|GPUs?: \d[\d, ]*)", re.IGNORECASE)
_CELLS = re.compile(r"^\s*\|(?P<left>.{27})\|(?P<right>.*?)\|?\s*$")
_RULE = re.compile(r"^\s*\+[-=]+\+[-=]+\+\s*$")
_SECTION = re.compile(r"^\s*[|+]-----  (?P<name>.+?)  -+\+-+[|+]\s*$")
_ONE_GPU = re.compile(r"GPU ?(?P<gpu>\d+): (?P<word>.+)")
_MESSAGE_WIDTH = 45
_MESSAGES = ("Warning", "Error", "Info")
_VERSION, _DRIVER, _DEVICES = "DCGM Version", "Driver Version Detected", "GPU Device IDs Detected"


@dataclass
class _Test:
    """A test while its rows are being read."""

    name: str
    printed: str
    line: int
    statuses: list[tuple[str, str, int]] = field(default_factory=list)
    gpus: dict[int, tuple[str, int]] = field(default_factory=dict)
    messages: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class _Reader:
    """What was read so far."""

    tests: list[_Test] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    message: bool = False
    fresh: bool = True
    ended: bool = False
    lines: set[int] = field(default_factory=set)


def parse(text: str) -> Diagnosis:
    """The diagnosis; `broken` is set if the table is cut. Raises CheckError if its head or all results are missing."""
    lines = text.splitlines()
    header = next((index for index, line in enumerate(lines) if HEADER.match(line)), None)
    if header is None:
        raise CheckError(f"the output has no table: {' '.join(text.split())[:200] or 'it printed nothing'}")
    reader = _Reader()
    last = len(lines)
    for index in range(header, len(lines)):
        if not _take(reader, lines, index):
            last = index
            break
    more = next((index for index in range(last, len(lines)) if _CELLS.match(lines[index])), None)
    return _diagnosis(reader, more)


def _take(reader: _Reader, lines: list[str], index: int) -> bool:
    """Reads one line. Returns False after the end of the table."""
    line = lines[index]
    if line.strip()[:1] in ("|", "+"):
        reader.lines.add(index + 1)
    if _SECTION.match(line) or HEADER.match(line):
        reader.message, reader.fresh = False, True
        return True
    if _RULE.match(line):
        # The line under the header consists of "="; a line of "-" is the end, or the beginning of another table.
        reader.ended = "=" not in line and not any(
            HEADER.match(after) for after in lines[index + 1 : index + 2]
        )
        return not reader.ended
    match = _CELLS.match(line)
    if match is None:
        return True
    left, right = match["left"].strip(), match["right"][1 : 1 + _MESSAGE_WIDTH]
    if left in (_VERSION, _DRIVER, _DEVICES, "EUD Test Version", "CPU EUD Test Version"):
        reader.about[left] = right.strip()
        reader.message = False
    elif left in _MESSAGES:
        _message(reader, left, right, index + 1)
    elif left:
        reader.message = False
        _begin(reader, left, right.strip(), index + 1)
    else:
        _continue(reader, right, index + 1)
    return True


def _begin(reader: _Reader, left: str, status: str, line: int) -> None:
    test = _Test(dcgm_facts().canonical(left), status, line)
    test.statuses.append((status, status, line))
    reader.tests.append(test)
    reader.fresh = False


def _message(reader: _Reader, title: str, right: str, line: int) -> None:
    if reader.fresh:
        raise CheckError(f"line {line} is a message of a test that is not there")
    reader.message = True
    reader.tests[-1].messages.append((title, right))


def _continue(reader: _Reader, right: str, line: int) -> None:
    if not reader.tests:
        raise CheckError(f"line {line} continues a row that is not there")
    test = reader.tests[-1]
    match = _ONE_GPU.fullmatch(right.strip())
    if match is not None:
        gpu = int(match["gpu"])
        if gpu in test.gpus:
            raise CheckError(f"line {line}: {test.name} has two results for GPU {gpu}")
        test.gpus[gpu] = (match["word"].strip(), line)
        reader.message = False
    elif SHARED.fullmatch(right.strip()):
        test.statuses.append((right.strip(), right.strip(), line))
        reader.message = False
    elif reader.message:
        title, text = test.messages[-1]
        test.messages[-1] = (title, text + right)
    else:
        test.statuses.append((right.strip(), right.strip(), line))  # an unknown status cannot be a pass


def _diagnosis(reader: _Reader, more: int | None) -> Diagnosis:
    version = reader.about.get(_VERSION, "")
    major_of(version)
    devices = [number for number in reader.about.get(_DEVICES, "").split(",") if number.strip()]
    faults = [] if reader.ended else ["its last line is missing"]
    faults += [] if devices else ["it does not list the GPUs"]
    faults += [] if more is None else [f"line {more + 1} is a row after its end"]
    results = tuple(result for test in reader.tests for result in _results(test, len(devices), version))
    if not results:
        raise CheckError("the table holds no result of any test")
    tested = {result.gpu for result in results if result.gpu is not None}
    gpus = tuple(sorted(tested | set(range(len(devices)))))
    broken = f"the table is not complete: {', '.join(faults)}" if faults else ""
    driver = reader.about.get(_DRIVER, "")
    return Diagnosis(version, driver, "text", gpus, results, broken, frozenset(reader.lines))


def _results(test: _Test, devices: int, version: str) -> Iterator[Result]:
    problems = [
        Problem(" ".join(text.split())) for title, text in test.messages if title != "Info" and text.strip()
    ]
    if test.gpus:
        yield from _of_gpus(test, problems)
        return
    groups = [_shared(test, status, line, devices) for status, _, line in test.statuses]
    shared = [result for group in groups for result in group]
    twice = [gpu for gpu, times in Counter(result.gpu for result in shared).items() if times > 1]
    if twice:
        raise CheckError(f"{test.name} has two results for {'the node' if twice[0] is None else twice[0]}")
    blamed = _blamed(shared, problems)
    failed = {result.gpu for result in shared if result.status is DcgmStatus.FAIL}
    is_link_down = any(completed(problem).error_id == LINK_DOWN for problem in problems)
    for result in shared:
        mine = tuple(problem for problem, owner in blamed if owner == result.gpu)
        # One reason below one status of several GPUs is the reason of all: the table names the first. A link that is down is not.
        alike = not is_link_down and sum(other.line == result.line for other in shared) == len(failed)
        mine = mine or (tuple(problems) if result.gpu in failed and len(problems) == 1 and alike else ())
        yield replace(result, problems=mine)


def _of_gpus(test: _Test, problems: list[Problem]) -> Iterator[Result]:
    """From 4.0 on there is one line per GPU under the test's own; what no GPU explains is about the node."""
    of_gpus = [
        Result(test.name, gpu, status_of(status), status, (), line)
        for gpu, (status, line) in sorted(test.gpus.items())
    ]
    failing = any(result.status is not DcgmStatus.PASS for result in of_gpus)
    own = status_of(test.printed)
    blamed = _blamed([*of_gpus, Result(test.name, None, own, test.printed)], problems)
    for result in of_gpus:
        yield replace(result, problems=tuple(problem for problem, owner in blamed if owner == result.gpu))
    rest = tuple(problem for problem, owner in blamed if owner is None)
    if rest or (own is not DcgmStatus.PASS and not failing):
        yield Result(test.name, None, own, test.printed, rest, test.line)


def _shared(test: _Test, printed: str, line: int, devices: int) -> list[Result]:
    """One status and the GPUs that have it."""
    match = SHARED.fullmatch(printed)
    if match is None:
        return [Result(test.name, None, status_of(printed), printed, (), line)]
    status, owners = status_of(match[1]), match[2]
    if owners.lower() == "all":
        gpus: list[int | None] = list(range(devices)) or [None]
    else:
        gpus = [int(number) for number in owners.partition(":")[2].split(",") if number.strip()]
    return [Result(test.name, gpu, status, printed, (), line) for gpu in gpus]


def _blamed(results: list[Result], problems: list[Problem]) -> list[tuple[Problem, int | None]]:
    """The GPU of each message: the one that it names, else the only one that failed, else none (the node)."""
    failed = [
        result.gpu for result in results if result.status is not DcgmStatus.PASS and result.gpu is not None
    ]
    own = {result.gpu for result in results}
    owners: list[tuple[Problem, int | None]] = []
    for problem in problems:
        match = re.search(r"\bGPU (\d+)\b", problem.message)
        if match and int(match[1]) in own:
            owners.append((problem, int(match[1])))
        elif None in own:
            owners.append((problem, None))
        else:
            owners.append((problem, failed[0] if len(failed) == 1 else results[0].gpu))
    return owners
