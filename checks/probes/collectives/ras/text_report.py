"""Reads the text in which RAS answers people (`ncclras`, `ncclras -v`; NCCL 2.24 and later). Pure.

The text names the ranks that stand apart, and of the others it says only how many they are. Where RAS says OK, it says no counts.
Source: NVIDIA, NCCL user guide, "RAS", and the sentences that NCCL 2.24 to 2.32 print.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from checks.probes.collectives.ras.report import (
    MOST_GAPS,
    Counted,
    Failed,
    Lag,
    Place,
    RasReport,
    ReportError,
    Silent,
    lags_of,
    operations,
)

_VERSION = re.compile(r"^NCCL version (\S+) compiled with CUDA", re.M)
_BEGINS = re.compile(r"^Group +Comms +Nodes +Ranks +Ranks +Ranks +Status +Errors *$", re.M)
_HEAD = re.compile(
    r"NCCL version |CUDA runtime version |Job summary *$|=+ *$|Communicators\.\.\.|Group +Comms|No communicator data"
    r"|(?: *(?:#|Nodes|\(total\)|in group|per (?:node|process|comm)|Processes|GPUs|Ranks|\d+|[A-Z]+))+ *$"
)
_NOTHING = "No communicator data collected!"
_ROW = re.compile(r"^ *(\d+) +(\d+) +\d+ +[\d-]+ +(\d+) +(\d+) +(\w+) +([\w,]+) *$")
_SECTION = re.compile(r"^(Errors|Warnings) *$")
_BLOCK = re.compile(r"^#(\d+)-\d+ \(([0-9a-f]+)\) (INCOMPLETE|ERROR|MISMATCH)$")
_WHERE = r"GPUs? (?P<gpu>\d+(?: \(NVML \d+\))?) managed by process (?P<pid>\d+) on node (?P<host>\S+)"
_LISTED = re.compile(rf"^  Rank (?P<rank>\d+) -- (?:{_WHERE}|\[process information not found\])$")
_MISSING = re.compile(r"^  The missing ranks?: ([\d, ]+)$")
_PROCESS = re.compile(r"^  Process (\d+) on node (\S+) managing GPUs? (.+)$")
_COUNTS = re.compile(r"^  Communicator ranks have different (\w+) operation counts$")
_GROUP = re.compile(r"^  (\d+) ranks have (?:launched up to operation (\d+)|not launched any operations)$")
_ALONE = re.compile(
    r"^  Rank (?P<rank>\d+) has (?:launched up to operation (?P<count>\d+)|not launched any operations)"
    rf" -- (?:{_WHERE}|\[process information not found\])$"
)
_STATUS = re.compile(r"^  (?:Communicator ranks have different status|\d+ ranks? ha(?:ve|s) status \w+)$")
_ALONE_STATUS = re.compile(r"^  Rank \d+ has status \w+ -- .+$")
_REPORTED = re.compile(
    rf"^  Rank (?P<rank>\d+) reported (?P<error>.+?) -- (?:{_WHERE}|\[process information not found\])$"
)
_REPORTED_BY = re.compile(r"^  \d+ ranks reported (.+)$")
_NO_PROCESS = re.compile(r"^  \[could not find information on \d+ process(?:es)?\]$")
_SAID = re.compile(
    r"^  (?:Missing communicator data from \d+ (?:job process(?:es)?|ranks?)|"
    r"\d+ job process(?:es are| is) considered dead \(unreachable via the RAS network\)|"
    r"(?:Initialization|Asynchronous) errors? on \d+ ranks?|"
    r"Encountered \d+ communication timeouts? while gathering communicator data)$"
)
_HEADS = ("INCOMPLETE", "DEAD", "TIMEOUT")


@dataclass
class _Counts:
    """The groups of one operation in one communicator: (count, ranks, the places that are named)."""

    communicator: str
    operation: str
    groups: list[tuple[int, int, list[Place]]] = field(default_factory=list)


@dataclass
class _Found:
    dead: set[tuple[str, int]] = field(default_factory=set)
    processes: list[Place] = field(default_factory=list)
    silent: list[tuple[str, Place]] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    counts: list[_Counts] = field(default_factory=list)
    groups: dict[str, str] = field(
        default_factory=dict
    )  # communicator -> the number of its group in the table


def begins(text: str) -> list[int]:
    """Where an answer in this form has its table of communicators."""
    return [at.start() for at in _BEGINS.finditer(text)]


def texts(text: str) -> list[str]:
    """The answers that follow one another in a text; each begins with the version, or if that was left out, with its table."""
    starts = [at.start() for at in _VERSION.finditer(text)]
    if len(starts) < len(begins(text)):
        starts = begins(text)
    return [
        text[start:end]
        for start, end in zip([0, *starts[1:]], [*starts[1:], len(text)], strict=True)
        if start < end
    ]


def understood(text: str) -> frozenset[int]:
    """The numbers of the lines of the answers: what may stand above the errors, and all that follows, which `read` reads strictly."""
    numbers, strict = set[int](), False
    for number, line in enumerate(text.splitlines(), 1):
        strict = (strict or _SECTION.match(line) is not None) and not _VERSION.match(line)
        if strict or _HEAD.match(line):
            numbers.add(number)
    return frozenset(numbers)


def read(text: str) -> RasReport:
    """One answer. Raises ReportError."""
    table = _BEGINS.search(text)
    if table is None and _NOTHING not in text:
        raise ReportError("the answer of RAS has no table of communicators")
    lines = text[table.start() if table else text.find(_NOTHING) :].splitlines()
    if sum(1 for line in lines if _SECTION.match(line)) < 2 or not text.endswith("\n"):
        raise ReportError("the answer of RAS ends before its warnings")
    rows = [row for line in lines if (row := _ROW.match(line))]
    if table is not None and not rows:
        raise ReportError("the table of communicators is empty")
    found, status = _sections(lines), {row[1]: row[5] for row in rows}
    running = {name for name, group in found.groups.items() if status.get(group) == "RUNNING"}
    counts = [one for one in found.counts if one.communicator in running]
    version = _VERSION.search(text)
    silent = [Silent(place, (place.host, place.pid) in found.dead) for place in _lost(found, running)]
    if not silent and any(row[5] == "RUNNING" and "INCOMPLETE" in row[6] for row in rows):
        raise ReportError("a communicator is incomplete, but the answer does not say which rank is missing")
    return RasReport(
        version=version[1] if version else "",
        ranks=max((int(row[4]) for row in rows), default=0),
        communicators=sum(int(row[2]) for row in rows),
        passing=sum(int(row[2]) for row in rows if row[5] != "RUNNING"),
        silent=tuple(silent),
        failed=tuple(found.failed),
        lags=tuple(lag for one in counts for lag in _lags(one))[:MOST_GAPS],
        unnamed=tuple(said for one in counts for said in _unnamed(one)),
    )


def _sections(lines: Sequence[str]) -> _Found:
    found, head, block, error = _Found(), "", "", ""
    begun = next(place for place, line in enumerate(lines) if _SECTION.match(line))
    for line in lines[begun:]:
        line = line.rstrip()
        if not line or _SECTION.match(line) or set(line) == {"="} or _SAID.match(line):
            continue
        if line in _HEADS:
            head, block = line, ""
        elif match := _BLOCK.match(line):
            head, block, error = match[3], match[2], ""
            found.groups[block] = match[1]
        elif match := _REPORTED_BY.match(line):
            error = match[1]
        elif not _of_block(found, head, block, error, line):
            raise ReportError(f"the answer of RAS has a line that is not known: {line.strip()!r:.120}")
    return found


def _of_block(found: _Found, head: str, block: str, error: str, line: str) -> bool:
    """Adds what a line below a head says; False if it is not known there."""
    listed = _LISTED.match(line)
    if head in ("INCOMPLETE", "DEAD") and (match := _PROCESS.match(line)):
        place = Place(-1, match[2], int(match[1]), match[3])
        found.processes.append(place)
        if head == "DEAD":
            found.dead.add((place.host, place.pid))
    elif _NO_PROCESS.match(line):
        pass
    elif head == "INCOMPLETE" and block and (match := _MISSING.match(line)):
        found.silent += [(block, Place(int(number))) for number in re.findall(r"\d+", match[1])]
    elif head == "INCOMPLETE" and block and listed:
        found.silent.append((block, _place(listed)))
    elif head == "ERROR" and (match := _REPORTED.match(line)):
        found.failed.append(Failed(_place(match), match["error"].lower()))
    elif head == "ERROR" and listed and error:
        found.failed.append(Failed(_place(listed), error.lower()))
    elif head == "MISMATCH":
        return _of_mismatch(found, block, line)
    else:
        return False
    return True


def _of_mismatch(found: _Found, block: str, line: str) -> bool:
    if match := _COUNTS.match(line):
        found.counts.append(_Counts(block, "" if match[1] == "collective" else match[1]))
        return True
    if _STATUS.match(line) or _ALONE_STATUS.match(line):
        return True
    listed = _LISTED.match(line)
    if not found.counts or found.counts[-1].communicator != block:
        return listed is not None  # the ranks of a status
    groups = found.counts[-1].groups
    if match := _GROUP.match(line):
        groups.append((int(match[2] or 0), int(match[1]), []))
    elif match := _ALONE.match(line):
        groups.append((int(match["count"] or 0), 1, [_place(match)]))
    elif listed and groups:
        groups[-1][2].append(_place(listed))
    else:
        return False
    return True


def _place(match: re.Match[str]) -> Place:
    if match["host"] is None:
        return Place(int(match["rank"]))
    gpu = re.search(r"NVML (\d+)", match["gpu"])
    return Place(
        int(match["rank"]), match["host"], int(match["pid"]), gpu[1] if gpu else match["gpu"].split()[0]
    )


def _lost(found: _Found, running: Collection[str]) -> Iterator[Place]:
    """The missing ranks. NCCL 2.24 and 2.25 name only their numbers: if one process is missing, it is that one."""
    seen, silent = set(), [place for name, place in found.silent if name in running]
    for place in silent:
        if not place.host and len(silent) == len(found.processes) == 1:
            place = replace(found.processes[0], rank=place.rank)
        if place not in seen:
            seen.add(place)
            yield place


def _lags(counts: _Counts) -> Iterator[Lag]:
    """A group that is not named still counts: it has ranks, and none of them is blamed."""
    ranks = [
        Counted(place, count, count)
        for count, many, places in counts.groups
        for place in (places if places else [Place(-1)] * many)
    ]
    for lag in lags_of(counts.communicator, counts.operation, ranks):
        if lag.place.rank >= 0:
            yield lag


def _unnamed(counts: _Counts) -> Iterator[str]:
    most = max((count for count, _, _ in counts.groups), default=0)
    behind = [(many, count) for count, many, places in counts.groups if count < most and not places]
    total = sum(many for _, many, _ in counts.groups)
    for many, count in behind:
        if 2 * many <= total:
            yield f"{many} ranks of communicator {counts.communicator} are behind by {operations(most - count, counts.operation)}"
