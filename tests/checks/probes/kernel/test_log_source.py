"""The kernel's log: which source is read, how far, and never a zero from one that says nothing."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import pytest

from checks.check import CheckError, Skipped
from checks.facts.withheld_kernel_log import FILE_VARIABLE
from checks.model import Skip
from checks.probes.kernel import hardware, log_source, xid
from checks.probes.kernel.log import Log
from checks.probes.kernel.log_lines import Now, read_line, read_record
from checks.probes.kernel.log_source import WINDOW_S, Reader, UnusableSource, first_usable, read_file
from tests.checks.probes.kernel.world import NOW, XID, log_of
from tests.checks.worlds import context
from tests.fakes.tools import Reply, install, on_path

JOURNAL = "2025-02-23T16:20:00.000001+0000 host kernel: all well\n"

pytestmark = pytest.mark.usefixtures("utc")


def reader() -> Reader:
    return Reader(xid.find, NOW, WINDOW_S)


def usable(kmsg: Path, files: list[Path], journal: Path) -> Log | Skipped:
    with on_path(journal, alone=True):
        return first_usable(kmsg, files, xid.find, NOW, WINDOW_S, 5.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Jan 13 12:34:56 host cron[1]: job\n",
        "2025-02-23T16:24:18.1+00:00 host systemd[1]: Started.\n",
        "an application's own output\n",
    ],
)
def test_a_log_without_the_kernel_is_no_evidence(tmp_path: Path, text: str) -> None:
    """Empty, or other programs' only: unusable, not zero."""
    path = tmp_path / "syslog"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(UnusableSource, match="no kernel line"):
        read_file(path, reader(), vouched=False)


def test_log_source_takes_the_first_usable_file(tmp_path: Path) -> None:
    """Without a ring and a journal an empty file is passed over, and the source is named."""
    (empty := tmp_path / "messages").touch()
    (good := tmp_path / "syslog").write_text("[ 9990.0] all well\n", encoding="utf-8")
    log = usable(tmp_path / "none", [empty, good], tmp_path)

    assert isinstance(log, Log) and (log.source, log.lines_read, log.recent) == (str(good), 1, ())


def test_a_huge_file_is_read_at_its_end(tmp_path: Path) -> None:
    """Of a sparse gigabyte only the last 16 MiB are read, within seconds, and that is said."""
    path = tmp_path / "messages"
    with open(path, "wb") as stream:
        stream.seek(1 << 30)
        stream.write(f"\n[ 9990.0] {XID}\n".encode())
    begun = time.process_time()
    log = read_file(path, reader(), vouched=False)

    assert len(log.recent) == 1
    assert "only the last 16777216 of" in log.notes[0]
    assert time.process_time() - begun < 10


def test_the_rest_of_an_overlong_line_is_no_line(tmp_path: Path) -> None:
    """Text at the place where a line is cut must not pass for the kernel's."""
    path = tmp_path / "messages"
    path.write_text(f"[ 9990.0] {'x' * (log_source.LINE_BYTES - 10)}{XID}\n[ 9991.0] y\n", encoding="utf-8")
    log = read_file(path, reader(), vouched=False)

    assert (log.lines_read, log.recent) == (2, ())


def test_old_events_are_kept_apart() -> None:
    """Beyond the window an event is older; without a stamp it is not."""
    log = log_of(f"[ 100.0] {XID}\n[ 9950.0] {XID}\n{XID}\n", window_s=100.0)

    assert (len(log.recent), len(log.older), log.covers_s) == (2, 1, 9900.0)


FAULT = f"Feb 23 15:00:00 host kernel: {XID}"
START = "host kernel: Linux version 6.1.119 (mockbuild@host) (gcc 11.4.1) #1 SMP"


BOOTS: dict[str, tuple[object, ...]] = {
    "restarted": ((FAULT, f"Feb 23 16:16:40 {START}", FAULT.replace("15:00", "16:20")), 1, 1),
    "no start": ((FAULT, FAULT.replace("15:00", "16:20")), 2, 0),
    "a start above it": ((f"Feb 23 16:16:40 {START}", FAULT), 1, 0),
    "an earlier stamp": ((FAULT, f"Feb 23 14:16:40 {START}"), 1, 0),
    "no stamp": ((FAULT, START), 1, 0),
    "no start at all": ((FAULT, "Feb 23 16:16:40 host kernel: app: Linux version 6.1.119"), 1, 0),
}


@pytest.mark.parametrize(("said", "this_boot", "earlier"), BOOTS.values(), ids=BOOTS)
def test_events_of_an_earlier_boot_stay_apart(said: tuple[str, ...], this_boot: int, earlier: int) -> None:
    """The kernel's clock puts the fault before this boot; only a start that comes after it, by place and stamp, proves it."""
    now = Now(600.0, NOW.epoch_s, 600.0)
    young = Reader(xid.find, now, WINDOW_S)
    young.take(line for text in said if (line := read_line(text, now)))
    log = young.log("text")
    faults = [event for event in log.this_boot if event.code == 79]

    assert (this_boot, earlier) == (len(faults), len(log.earlier_boot))


@pytest.mark.parametrize(
    ("numbers", "lost"), [((0, 1, 2), 0), ((5, 6, 7), 0), ((0, 1, 4), 2), ((0, 2, 1), 2), ((7, 7), 1)]
)
def test_missing_records_are_counted(numbers: tuple[int, ...], lost: int) -> None:
    """The kernel numbers its records: a gap, or a wrong order, is lost evidence."""
    text = "".join(f"6,{number},9990000000,-;x\n" for number in numbers)

    assert log_of(text).records_lost == lost


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("Feb 23 16:00:00 host systemd-journald[7]: Missed 5 kernel messages", 5),
        ("Feb 23 16:00:00 host systemd-journal[7]: Missed 5 kernel messages", 5),
        ("Feb 20 16:00:00 host systemd-journald[7]: Missed 5 kernel messages", 0),
        ("Feb 23 16:00:00 host app[7]: Missed 5 kernel messages", 0),
        ("Feb 23 16:00:00 host kernel: printk: 12 messages suppressed.", 12),
        ("Feb 20 16:00:00 host kernel: printk: 12 messages suppressed.", 0),
    ],
)
def test_lost_lines_of_the_window_are_counted_in_a_file(tmp_path: Path, line: str, lost: int) -> None:
    """The kernel and journald report them; what was lost before the window says nothing about the window."""
    path = tmp_path / "messages"
    lines = ("Feb 20 15:00:00 host kernel: x", line, "Feb 23 16:20:00 host kernel: x")
    path.write_text("\n".join((*lines, "")), encoding="utf-8")

    assert read_file(path, reader(), vouched=False).records_lost == lost


def test_no_source_at_all_is_skipped(tmp_path: Path) -> None:
    """Nothing there is TOOL_MISSING; something that says nothing is NOT_PERMITTED, with every reason."""
    silent = tmp_path / "messages"
    silent.touch()
    absent = usable(tmp_path / "none", [tmp_path / "nowhere"], tmp_path)
    mute = usable(tmp_path / "none", [silent], tmp_path)

    assert isinstance(absent, Skipped)
    assert isinstance(mute, Skipped)
    assert (absent.skip, mute.skip) == (Skip.TOOL_MISSING, Skip.NOT_PERMITTED)
    assert str(silent) in mute.detail
    assert "none" in mute.detail


OLD_FAULT = f"2025-02-22T10:26:40.000001+0000 host kernel: {XID}\n"


@pytest.mark.parametrize(("first", "found"), [(0, 0), (5, 1)])
def test_kernel_log_reads_the_journal_for_records_lost_by_the_ring(
    tmp_path: Path, first: int, found: int
) -> None:
    """Its first records are overwritten, and with them a fault of yesterday; a whole ring needs no journal."""
    ring = tmp_path / "kmsg"
    ring.write_text(f"6,{first},9000000000,-;all well\n", encoding="utf-8")
    install(tmp_path, "journalctl", [Reply(OLD_FAULT + JOURNAL, "--boot")])
    log = usable(ring, [], tmp_path)

    assert isinstance(log, Log)
    assert (found, 0) == (len(log.older), len(log.recent))
    assert log.source == (f"{ring}, journal" if found else str(ring))


@pytest.mark.parametrize("content", [None, "Jan 13 12:34:56 host cron[1]: x\n"])
def test_a_file_that_was_asked_for_must_speak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    """A missing, empty or kernel-less file in PRELAUNCH_KERNEL_LOG is an error, not another source."""
    path = tmp_path / "log"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    monkeypatch.setenv(FILE_VARIABLE, str(path))

    with pytest.raises(CheckError, match=FILE_VARIABLE):
        xid.xid.body(context())


def test_a_ring_without_an_end_is_an_error(tmp_path: Path) -> None:
    """A source that is written faster than it is read costs the deadline, and says so."""
    endless = tmp_path / "zeros"
    os.symlink("/dev/zero", endless)
    with pytest.raises(CheckError, match="end was not reached"):
        log_source.read_ring(endless, reader(), deadline_s=0.2)


@pytest.mark.root
@pytest.mark.skipif(
    not os.access("/dev/kmsg", os.W_OK), reason="/dev/kmsg is not writable: run as root on a host"
)
def test_the_real_ring_is_read_to_its_end() -> None:
    """An innocuous line that a program writes is found, with its facility and its age, and no record is missing."""
    said = f"prelaunch test {os.getpid()} {time.monotonic_ns()}: nothing is wrong"
    Path("/dev/kmsg").write_text(f"{said}\n", encoding="utf-8")
    descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    now = Now(time.monotonic(), time.time())
    real = Reader(hardware.find, now, WINDOW_S)
    try:
        lines = list(log_source.records(descriptor, now, time.monotonic() + 10))
    finally:
        os.close(descriptor)
    real.take(lines)
    mine = [line for line in lines if line.message == said]

    assert [line.facility for line in mine] == [1]
    assert mine[0].age_s is not None
    assert mine[0].age_s < 5
    assert list(hardware.find(mine)) == []
    assert real.lost == 0


UNKNOWN_FORMS = {
    "compressed": gzip.compress(f"Jan 13 12:34:56 host kernel: {XID}\n".encode() * 50),
    "another date": f"13/01/2025 12:34:56 host kernel: {XID}\n".encode(),
    "JSON": f'{{"MESSAGE": "{XID}", "SYSLOG_IDENTIFIER": "kernel"}}\n'.encode(),
    "UTF-16": f"Jan 13 12:34:56 host kernel: {XID}\n".encode("utf-16"),
    "TAI64N": f"@4000000067850a801a2b3c4d host kernel: {XID}\n".encode(),
    "prose": b"The node is healthy.\n",
}


@pytest.mark.parametrize("data", UNKNOWN_FORMS.values(), ids=UNKNOWN_FORMS)
def test_a_log_of_a_form_that_is_not_known_is_no_evidence(tmp_path: Path, data: bytes) -> None:
    """Even where it was named: each of them holds a fault that nobody would see."""
    path = tmp_path / "named"
    path.write_bytes(data)

    with pytest.raises(UnusableSource, match="in a known form"):
        read_file(path, reader(), vouched=True)


def test_a_fault_of_today_is_not_taken_for_the_same_words_of_last_week(tmp_path: Path) -> None:
    """The ring still holds an old Xid; a tool that writes to the file alone reports it again."""
    path = tmp_path / "messages"
    path.write_text(f"[ 399990.0] {XID}\n", encoding="utf-8")
    late = Now(400_000.0, 1_736_772_000.0)
    ring = Reader(xid.find, late, WINDOW_S)
    ring.take(line for text in (f"6,0,1000000,-;{XID}",) if (line := read_record(text, late)) is not None)
    both = log_source._with_files(ring.log("/dev/kmsg"), [path], xid.find, late)

    assert (1, 1) == (len(both.recent), len(both.older))


def test_a_start_in_a_file_mends_nothing_in_the_ring(tmp_path: Path) -> None:
    """The file's stamps are of another time zone, so that the start before the fault seems to come after it."""
    path = tmp_path / "messages"
    path.write_text("Feb 23 16:26:30 h kernel: Linux version 6.1.0\n", encoding="utf-8")
    ring = reader()
    ring.take([line for line in [read_record(f"4,9,6400000000,-;{XID}", NOW)] if line])
    measured = xid.measured(log_source._with_files(ring.log("/dev/kmsg"), [path], xid.find, NOW), ())

    assert ((1,), (0,)) == (measured.metrics["act"], measured.metrics["handled"])
