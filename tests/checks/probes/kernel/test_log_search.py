"""A log that is searched gives the answer of one that is read line by line, by our own search and by grep's."""

from __future__ import annotations

import math
import os
import random
import re
import stat
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from checks.explain.reading import Kind, Part, Reading
from checks.probes.kernel import explain, log_search, log_source
from checks.probes.kernel.log_excerpt import LogExcerpt
from checks.probes.kernel.log_lines import FORM, UPTIME_S, Line, Now, read_line
from checks.probes.kernel.log_search import RawLine, lines_with, matcher_of, of_bytes, of_file
from tests.checks.probes.kernel.world import RECORDINGS

NOW = Now(UPTIME_S, 1_760_000_000.0)
FAULTS = [
    line.partition(" | ")[2]
    for line in (RECORDINGS / "faults.txt").read_text(encoding="utf-8").splitlines()
    if " | " in line
] + [
    line
    for line in (RECORDINGS / "public_lines.txt").read_text(encoding="utf-8").splitlines()
    if re.match(r"NVRM|nvidia-", line)
]
NOISE = (
    "Linux version 6.1.119",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20",
    "efa 0000:4f:00.0: Setup irq:258",
    "printk: 17 messages suppressed.",
    "caf\xe9 in a file's name \xff\xfe",
    "EXT4-fs (nvme1n1p1): mounted filesystem",
    "a" * 9000,
)
FORMS = ("kmsg", "dmesg", "ctime", "syslog", "iso")


def log_of(form: str, seed: int) -> bytes:
    """A log in this form, with faults at random places, long lines, letters that are no UTF-8, colours, zeros."""
    made = random.Random(f"{form} {seed}")
    lines, at_s, record = [], 0.0 if seed % 2 else 5000.0, 0
    for _ in range(made.randrange(40, 400)):
        message = made.choice(FAULTS) if made.random() < 0.1 else made.choice(NOISE)
        if made.random() < 0.03:
            message = re.sub(r"[A-Z]{2,}", "\x1b[1;31m\\g<0>\x1b[0m", message)
        if form == "kmsg" and made.random() < 0.05 and "\\" not in message:
            message = f"\\x{ord(message[0]):02x}{message[1:]}"
        at_s += made.random() * 600 - (20000 if made.random() < 0.01 and seed % 2 == 0 else 0)
        record += 1 if made.random() < 0.98 else made.randrange(4)
        line = _stamped(form, max(at_s, 0.0), record, message)
        lines.append("\0\0" + line if made.random() < 0.005 else line)
        if made.random() < 0.1:
            lines.append(made.choice(("", " SUBSYSTEM=pci", "some words", "\ttab")))
    end = made.choice(("\n", "\r\n"))
    return (end.join(lines) + made.choice((end, ""))).encode("latin-1")


def _stamped(form: str, at_s: float, record: int, message: str) -> str:
    moment = time.localtime(1_750_000_000 + at_s)
    who = "kernel:" if record % 5 else "cron[77]:"
    if form == "kmsg":
        return f"6,{record},{int(at_s * 1e6)},-;{message}"
    if form == "dmesg":
        return f"[{at_s:12.6f}] {message}"
    if form == "ctime":
        return f"[{time.strftime('%a %b %d %H:%M:%S %Y', moment)}] {message}"
    if form == "syslog":
        return f"{time.strftime('%b %e %H:%M:%S', moment)} ip-10-0-0-1 {who} {message}"
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.000123+0000 ip-10-0-0-1 {who} {message}"


def line_by_line(data: bytes) -> Reading:
    """What reading each line gives: the answer to compare with."""
    lines, shown, missed = [], LogExcerpt(), 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        words = raw.replace(b"\0", b"").decode("utf-8", "backslashreplace")
        missed += log_source.missed(words)
        for part in words.splitlines():
            line = read_line(part, NOW)
            if line is not None:
                lines.append(replace(line, number=number))
    shown.see(line for line in lines if explain._speaks(line))
    ordered = [line for line in lines if not explain._starts(line) or shown.answers(line)]
    left_out = ("restarts",) if len(ordered) < len(lines) else ()
    every = log_source.Reader(explain.FAMILIES[0].find, NOW, math.inf)
    every.take(lines)
    parts = tuple(
        _part(family, ordered, shown, missed + every.lost) for family in explain.FAMILIES if family.always
    )
    doubts = [] if data.endswith(b"\n") else ["the last line is not complete: the text may be truncated"]
    doubts += filter(None, (shown.left_out(),))
    if b"\0" in data:
        number = data.count(b"\n", 0, data.index(b"\0")) + 1
        doubts.append(f"line {number} has a zero byte: the text at that place is lost")
    return Reading(Kind.KERNEL_LOG, "", parts, tuple(doubts), left_out=left_out)


def _part(family: explain._Family, lines: list[Line], shown: LogExcerpt, missed: int) -> Part:
    reader = log_source.Reader(family.find, NOW, math.inf)
    reader.take(replace(line, record=None) for line in lines)
    reader.lost = missed
    log = reader.log("text")
    if not family.decides_restarts:
        log = explain.boots_apart(log, lines, shown.newest_first)
    measured = family.measured(log)
    metrics = {name: value for name, value in measured.metrics.items() if name not in explain.TIMELESS}
    if measured.metrics["earlier_boot"]:
        metrics["earlier_boot"] = measured.metrics["earlier_boot"]
    if shown.first_record is None and not log.records_lost:
        del metrics["records_lost"]
    if shown.covers_s is not None:
        metrics["covers_s"] = shown.covers_s
    return Part(family.check, metrics, measured.lines)


def strange_lines(data: bytes) -> set[int]:
    """The lines without the form of a log, as one search finds them."""
    return {number for number, _ in log_search.lines_without(of_bytes(data), FORM)}


def same(expected: Reading, got: Reading, seed: int) -> None:
    """Metrics, the lines that they rest on, and what is in doubt. Of stamps that go back (in logs with an even seed) not all
    are seen, so that less may be covered, and never more, and restarts may count that a whole reading would leave out.
    """
    covered, found = (float(reading.parts[0].metrics["covers_s"]) for reading in (expected, got))  # type: ignore[arg-type]
    assert found == covered if seed % 2 else 0.5 * covered <= found <= covered
    assert expected.unread == got.unread
    as_ordered = bool(expected.left_out) == bool(got.left_out)
    assert as_ordered or not seed % 2
    # Whether a restart closes what came before it depends on the order that was seen.
    for one, other in zip(expected.parts, got.parts, strict=True) if as_ordered else ():
        assert {**one.metrics, "covers_s": 0} == {**other.metrics, "covers_s": 0}
        assert dict(one.lines) == dict(other.lines)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands, so that two readings can be compared."""
    monkeypatch.setattr(explain, "_now", lambda: NOW)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few KB are searched as those of gigabytes are."""
    monkeypatch.setattr(log_search, "LEAST_BYTES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", FORMS)
def test_our_own_search_gives_the_answer_of_a_reader(
    form: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With blocks so small that borders fall everywhere: into needles, line ends, and lines longer than a block."""
    data = log_of(form, seed)
    monkeypatch.setattr(log_search, "BLOCK_BYTES", 97 + 1000 * seed)
    found = lines_with(of_bytes(data), matcher_of(explain.NEEDLES))

    same(line_by_line(data), explain._Explainer(of_bytes(data), NOW).read(found), seed)


@pytest.mark.usefixtures("still", "small")
@pytest.mark.parametrize("seed", range(4, 7))
@pytest.mark.parametrize("form", FORMS)
def test_greps_search_gives_the_answer_of_a_reader(form: str, seed: int, tmp_path: Path) -> None:
    """Three greps, a third of the file each."""
    data = log_of(form, seed)
    (tmp_path / "log").write_bytes(data)
    with (tmp_path / "log").open("rb") as stream:
        opened = of_file(stream)
        with log_search.searching(opened, explain.NEEDLES) as found:
            reading, _ = explain.read_large(opened, found)

    strange = {
        n for n, raw in enumerate(data.split(b"\n"), 1) if raw.rstrip(b"\r") in (b"some words", b"\ttab")
    }
    assert (1, strange) == (len(reading.unread) - len(line_by_line(data).unread), strange_lines(data))
    reading = replace(reading, unread=reading.unread[:-1])
    same(line_by_line(data), reading, seed)


DATA = b"".join(
    b"%d line that is well\n%s" % (n, b"an XFS line\n" if n % 7 == 0 else b"") for n in range(900)
)
NEEDLES = (b"XFS ", b"\0", b"fa ????:", b"ver *ponding")


def searched(data: bytes, tmp_path: Path, program: str = "grep") -> list[RawLine]:
    """What a search of a file gives, with this grep."""
    (tmp_path / "data").write_bytes(data)
    with (
        (tmp_path / "data").open("rb") as stream,
        log_search.searching(of_file(stream), NEEDLES, program) as found,
    ):
        return list(found)


def fake_grep(tmp_path: Path, script: str) -> str:
    """A program in grep's place: a fake."""
    path = tmp_path / "grep"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def greps_of(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Notes each time that our own search is begun."""
    begun: list[bool] = []

    def noted(*words: object) -> Generator[RawLine, None, int]:
        begun.append(True)
        return (yield from lines_with(*words))  # type: ignore[arg-type]

    monkeypatch.setattr(log_search, "lines_with", noted)
    return begun


@pytest.mark.usefixtures("small")
def test_grep_itself_does_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it proves that it read all of its piece, nobody reads it again."""
    begun = greps_of(monkeypatch)

    assert list(lines_with(of_bytes(DATA), matcher_of(NEEDLES))) == searched(DATA, tmp_path)
    assert [] == begun


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        "cat > /dev/null; exit 1",
        "exec /bin/cat",
        'grep "$@" | head -n 5',
        'grep "$@" | head -c 100',
        'grep "$@" | grep -v XFS',
        "head -c 5000 | grep \"$@\"",
        "kill -9 $$",
        "grep -a -n -b XFS",
    ],
    ids=["nothing", "found nothing", "all", "5 lines", "100 bytes", "no XFS", "5000 bytes", "killed", "one needle"],
)  # fmt: skip
def test_a_grep_that_fails_is_never_nothing_found(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it leaves out, our own search finds: a line that is lost would be a fault that is not seen."""
    begun = greps_of(monkeypatch)
    program = fake_grep(tmp_path, script)

    assert list(lines_with(of_bytes(DATA), matcher_of(NEEDLES))) == searched(DATA, tmp_path, program)
    assert begun


@pytest.mark.usefixtures("small")
def test_without_grep_the_answer_is_the_same(tmp_path: Path) -> None:
    """Slower."""
    assert searched(DATA, tmp_path) == searched(DATA, tmp_path, "no-such-grep")


@pytest.mark.usefixtures("small")
def test_a_grep_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deadline passes, and our own search does the work."""
    monkeypatch.setattr(log_search, "START_S", 0.2)

    assert searched(DATA, tmp_path) == searched(DATA, tmp_path, fake_grep(tmp_path, "exec sleep 60"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"XFS ", b"XFS \n\n\n", b"\n\nXFS x", b"x" * 300_000 + b"XFS " + b"y" * 300_000 + b"\nXFS \n", DATA + b"\xff\0"],
    ids=["empty", "blank", "one line", "first", "last", "long", "zero"],
)  # fmt: skip
def test_odd_texts_are_searched_alike(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in them, one line, a line without end."""
    monkeypatch.setattr(log_search, "BLOCK_BYTES", 1000)

    assert list(lines_with(of_bytes(data), matcher_of(NEEDLES))) == searched(data, tmp_path)


@pytest.mark.usefixtures("small")
def test_a_line_that_grep_cannot_hold_is_searched_all_the_same(tmp_path: Path) -> None:
    """Half a gigabyte without a newline would be half a gigabyte of memory; here its limit is small."""
    data = b"XFS one\n" + b"x" * (40 << 20) + b"\nXFS two\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_search, "MEMORY_BYTES", 24 << 20)

        assert [b"XFS one", b"XFS two"] == [raw.data for raw in searched(data, tmp_path)]


@pytest.mark.usefixtures("small")
def test_a_file_that_shrinks_is_said(tmp_path: Path) -> None:
    """What is gone was not searched."""
    (tmp_path / "data").write_bytes(DATA)
    with (tmp_path / "data").open("rb") as stream:
        opened = of_file(stream)
        os.truncate(tmp_path / "data", len(DATA) // 2)
        with pytest.raises(log_search.TextBecameShorter), log_search.searching(opened, NEEDLES) as found:
            list(found)


def test_a_search_that_is_left_ends_its_greps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None goes on reading after an error of ours."""
    monkeypatch.setattr(log_search, "LEAST_BYTES", 1)
    (tmp_path / "data").write_bytes(DATA * 2000)
    others = _children()  # what earlier tests of this process still have
    with (tmp_path / "data").open("rb") as stream, log_search.searching(of_file(stream), NEEDLES) as found:
        next(found)
        searching = _children() - others

    assert searching and not searching & _children()


def _children() -> set[str]:
    """The ids of this process's children, ended ones that nobody has waited for among them."""
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}
