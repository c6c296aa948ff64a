"""The table that `dcgmi diag` prints without -j -> Diagnosis (pure).

A row whose first cell is empty continues the one above: before 4.0 it may be another status ("Fail - GPU: 0" under
"Pass - GPUs: 1, 2"), from 4.0 on each GPU and CPU has such a row ("GPU3: Fail"). Rows called Warning, Error or Info hold
messages, broken at the width of the cell; from 4.0 on that of a GPU or CPU names it ("Warning: GPU3", dcgmi/Diag.cpp).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from checks.check import CheckError
from checks.probes.dcgm import diagnosis
from checks.probes.dcgm.error_table import dcgm_facts

LINK_DOWN = 14  # dcgm_errors.h, DCGM_FR_NVLINK_DOWN
HEADER = re.compile(r"^\s*\|\s*Diagnostic\s*\|\s*Result\s*\|", re.MULTILINE)
# A status of 3.x with its GPUs.
SHARED = re.compile(r"(Pass|Fail|Skip|Warn(?:ing)?|Not Run) - (All|GPUs?: \d[\d, ]*)", re.IGNORECASE)
_CELLS = re.compile(r"^\s*\|(?P<left>.{27})\|(?P<right>.*?)\|?\s*$")
_RULE = re.compile(r"^\s*\+[-=]+\+[-=]+\+\s*$")
_SECTION = re.compile(r"^\s*[|+]-----  (?P<name>.+?)  -+\+-+[|+]\s*$")
_ENTITY = r"(?P<entity>GPU|CPU) ?(?P<number>\d+)"
_OF_ENTITY = re.compile(rf"{_ENTITY}: (?P<status>.+)")
_MESSAGE = re.compile(rf"(?P<title>Warning|Error|Info)(?:: {_ENTITY})?")
_MESSAGE_WIDTH = 45
Owner = tuple[str, int | None]  # the name of a result, and its GPU
_VERSION, _DRIVER, _DEVICES = "DCGM Version", "Driver Version Detected", "GPU Device IDs Detected"


@dataclass
class _Test:
    """A test while its rows are being read. A message is a list of pieces, with the owner that its first cell names."""

    name: str
    printed: str
    line: int
    statuses: list[tuple[str, int]] = field(default_factory=list)
    entities: dict[Owner, tuple[str, int]] = field(default_factory=dict)
    messages: list[tuple[Owner | None, list[str]]] = field(default_factory=list)

    def owner(self, match: re.Match[str]) -> Owner:
        """The owner of the GPU or CPU in the text. The result of a CPU has a name of its own, as in JSON."""
        number = int(match["number"])
        return (self.name, number) if match["entity"] == "GPU" else (f"{self.name} (CPU {number})", None)


@dataclass
class _Reader:
    """What was read so far."""

    tests: list[_Test] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    message: list[str] | None = None
    fresh: bool = True
    ended: bool = False
    lines: set[int] = field(default_factory=set)


def parse(text: str) -> diagnosis.Diagnosis:
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
        reader.message, reader.fresh = None, True
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
    if left.endswith((" Version", " Detected")):
        reader.about[left] = right.strip()
        reader.message = None
    elif title := _MESSAGE.fullmatch(left):
        _message(reader, title, right, index + 1)
    elif left:
        reader.message = None
        _begin(reader, left, right.strip(), index + 1)
    else:
        _continue(reader, right, index + 1)
    return True


def _begin(reader: _Reader, left: str, status: str, line: int) -> None:
    reader.tests.append(_Test(dcgm_facts().canonical(left), status, line, [(status, line)]))
    reader.fresh = False


def _message(reader: _Reader, title: re.Match[str], right: str, line: int) -> None:
    if reader.fresh:
        raise CheckError(f"line {line} is a message of a test that is not there")
    test, pieces = reader.tests[-1], [right]
    reader.message = pieces
    if title["title"] != "Info":
        test.messages.append((test.owner(title) if title["entity"] else None, pieces))


def _continue(reader: _Reader, right: str, line: int) -> None:
    if not reader.tests:
        raise CheckError(f"line {line} continues a row that is not there")
    test, status = reader.tests[-1], right.strip()
    match = _OF_ENTITY.fullmatch(status)
    if reader.message is not None and not match and not SHARED.fullmatch(status):
        reader.message.append(right)
        return
    reader.message = None
    if match is None:
        test.statuses.append((status, line))  # an unknown status cannot be a pass
    elif (owner := test.owner(match)) in test.entities:
        raise CheckError(f"line {line}: {test.name} has two results for {match['entity']} {match['number']}")
    else:
        test.entities[owner] = (match["status"].strip(), line)


def _diagnosis(reader: _Reader, more: int | None) -> diagnosis.Diagnosis:
    version = reader.about.get(_VERSION, "")
    diagnosis.major_of(version)
    devices = [number for number in reader.about.get(_DEVICES, "").split(",") if number.strip()]
    faults = [] if reader.ended else ["its last line is missing"]
    faults += [] if devices else ["it does not list the GPUs"]
    faults += [] if more is None else [f"line {more + 1} is a row after its end"]
    results = tuple(result for test in reader.tests for result in _results(test, len(devices)))
    if not results:
        raise CheckError("the table holds no result of any test")
    tested = {result.gpu for result in results if result.gpu is not None}
    gpus = tuple(sorted(tested | set(range(len(devices)))))
    broken = f"the table is not complete: {', '.join(faults)}" if faults else ""
    driver = reader.about.get(_DRIVER, "")
    return diagnosis.Diagnosis(version, driver, "text", gpus, results, broken, frozenset(reader.lines))


def _results(test: _Test, devices: int) -> Iterator[diagnosis.Result]:
    if test.entities:
        yield from _of_entities(test)
        return
    shared = [result for status, line in test.statuses for result in _shared(test, status, line, devices)]
    twice = [gpu for gpu, times in Counter(result.gpu for result in shared).items() if times > 1]
    if twice:
        raise CheckError(f"{test.name} has two results for {'the node' if twice[0] is None else twice[0]}")
    blamed = _blamed(test, shared)
    problems = tuple(problem for problem, _ in blamed)
    failed = {result.gpu for result in shared if result.status is diagnosis.DcgmStatus.FAIL}
    is_link_down = any(diagnosis.completed(problem).error_id == LINK_DOWN for problem in problems)
    for result in shared:
        mine = _problems_of(result, blamed)
        # One reason below one status of several GPUs is the reason of all: the table names the first. A link that is down is not.
        alike = not is_link_down and sum(other.line == result.line for other in shared) == len(failed)
        mine = mine or (problems if result.gpu in failed and len(problems) == 1 and alike else ())
        yield replace(result, problems=mine)


def _of_entities(test: _Test) -> Iterator[diagnosis.Result]:
    """From 4.0 on there is one line per GPU or CPU under the test's own; what none of them explains is about the node."""
    of_entities = [
        diagnosis.Result(name, gpu, diagnosis.status_of(status), status, (), line)
        for (name, gpu), (status, line) in test.entities.items()
    ]
    failing = any(result.status is not diagnosis.DcgmStatus.PASS for result in of_entities)
    node = diagnosis.Result(test.name, None, diagnosis.status_of(test.printed), test.printed, (), test.line)
    blamed = _blamed(test, [*of_entities, node])
    for result in of_entities:
        yield replace(result, problems=_problems_of(result, blamed))
    rest = _problems_of(node, blamed)
    if rest or (node.status is not diagnosis.DcgmStatus.PASS and not failing):
        yield replace(node, problems=rest)


def _shared(test: _Test, printed: str, line: int, devices: int) -> list[diagnosis.Result]:
    """One status and the GPUs that have it."""
    match = SHARED.fullmatch(printed)
    if match is None:
        return [diagnosis.Result(test.name, None, diagnosis.status_of(printed), printed, (), line)]
    status, owners = diagnosis.status_of(match[1]), match[2]
    if owners.lower() == "all":
        gpus: list[int | None] = list(range(devices)) or [None]
    else:
        gpus = [int(number) for number in owners.partition(":")[2].split(",") if number.strip()]
    return [diagnosis.Result(test.name, gpu, status, printed, (), line) for gpu in gpus]


def _blamed(test: _Test, results: list[diagnosis.Result]) -> list[tuple[diagnosis.Problem, Owner]]:
    """The owner of each message: that of its first cell, else the GPU that it names, else the node, else the only GPU that failed."""
    owners = {(result.test, result.gpu): result.status for result in results}
    failed = [owner for owner, status in owners.items() if status is not diagnosis.DcgmStatus.PASS]
    last = failed[0] if len(failed) == 1 else next(iter(owners))
    blamed = []
    for labelled, pieces in test.messages:
        if message := " ".join("".join(pieces).split()):
            match = re.search(r"\bGPU (\d+)\b", message)
            of_gpu = (test.name, int(match[1])) if match else None
            candidates = (labelled, of_gpu, (test.name, None), last)
            owner = next(owner for owner in candidates if owner and owner in owners)
            blamed.append((diagnosis.Problem(message), owner))
    return blamed


def _problems_of(
    result: diagnosis.Result, blamed: list[tuple[diagnosis.Problem, Owner]]
) -> tuple[diagnosis.Problem, ...]:
    return tuple(problem for problem, owner in blamed if owner == (result.test, result.gpu))
