"""kernel.log: every form of line, its age, and never a zero from a log that says nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks import kernel_log
from checks.check import CheckError, Measurement, Skipped, fault_of
from checks.kernel_lines import Kind, Line, Now, events, parse, pci_id, read_line, read_record
from checks.kernel_log import WINDOW_S, Unusable, first_usable, measure_file, measure_kmsg
from checks.model import Skip
from tests.checks.local_policy import local_policy, verdicts
from tests.checks.worlds import context

RECORDINGS = Path(__file__).parents[1] / "recordings/kernel"
XID = "NVRM: Xid (PCI:0000:b9:00): 79, pid=1, name=x, GPU has fallen off the bus."
SYSLOG = "Jan 13 12:34:56 ip-10-1-2-3 kernel: "
NOW = Now(uptime_s=10_000.0, epoch_s=1_740_328_000.0)  # 2025-02-23 16:26:40 UTC


@pytest.fixture(autouse=True)
def _utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def kinds(text: str) -> list[tuple[str, int | None, str]]:
    return [(event.kind.value, event.code, event.pci) for event in parse(text, NOW)]


def age(raw: str) -> float | None:
    line = read_line(raw, NOW)
    assert line is not None
    return line.age_s


def metrics_of(result: object) -> dict[str, Any]:
    assert isinstance(result, Measurement), result
    return dict(result.metrics)


PUBLIC = [
    line
    for line in (RECORDINGS / "public_lines.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("line", PUBLIC)
def test_every_public_line_is_read(line: str) -> None:
    """A line with the driver's Xid or SXid tag gives one, with code and address where it has them."""
    found = kinds(line)
    tag = "xid" if " Xid" in f" {line.split('(')[0]}" and "GetMessage" not in line else ""
    tag = "sxid" if "SXid" in line else tag if "NVRM:" in line else ""
    named = [event for event in found if event[0] == tag]

    assert len(named) == (1 if tag else 0)
    if tag and (rest := line.partition("): ")[2]) and rest.split(",")[0].strip("\\n ").isdigit():
        assert named[0][1] == int(rest.split(",")[0].strip("\\n "))
        assert named[0][2].count(":") == 2
    assert ("off_bus" in [event[0] for event in found]) == ("fallen off the bus" in line or "): 79" in line)


@pytest.mark.parametrize(
    "prefix",
    [
        "3,1,2000000,-;",
        "3,1,2000000,c,caller=T99;",
        "[ 1108.858286] ",
        "[123] ",
        "[    5.123456][   T99] ",
        "<3>[ 1108.858286] ",
        "kern  :err   : [ 1108.858286] ",
        "[Sun Feb 23 16:24:18 2025] ",
        "[Sun Feb  2 16:24:18 2025] ",
        SYSLOG,
        "Feb  3 12:34:56 host kernel: [  123.456789] ",
        "2025-02-23T16:24:18,123456+00:00 ",
        "2025-02-23T16:24:18.123456+00:00 host kernel: ",
        "2025-02-23T16:24:18+0000 host kernel: [   12.345678] ",
        "2025-02-23T16:24:18Z host kernel: ",
        "",
    ],
)
def test_every_prefix_is_read(prefix: str) -> None:
    """The message is the same behind all forms of stamps and tags, carriage return or not."""
    assert kinds(prefix + XID) == [("xid", 79, "0000:b9:00.0"), ("off_bus", None, "0000:b9:00.0")]
    assert kinds(f"{prefix}{XID}\r\n") == kinds(prefix + XID)


FAULTS = [
    tuple(line.split(" | ", 1))
    for line in (RECORDINGS / "faults.txt").read_text(encoding="utf-8").splitlines()
    if " | " in line and not line.startswith("#")
]


@pytest.mark.parametrize(("kind", "line"), FAULTS)
def test_other_faults_are_read_too(kind: str, line: str) -> None:
    """OOM kills once each, machine checks, memory and disk errors, lock-ups; and not their look-alikes."""
    expected = [] if kind == "none" else [(kind, None, "")]

    assert kinds(f"[ 12.345678] {line}") == expected
    assert kinds(SYSLOG + line) == expected
    assert kinds(f"2025-02-23T16:24:18,123456+00:00 {line}") == expected


@pytest.mark.parametrize(
    "line",
    [
        f"Jan 13 12:34:56 host python[123]: {XID}",
        f"Jan 13 12:34:56 host app: kernel: {XID}",
        f"2025-02-23T16:24:18.123456+00:00 host python[123]: {XID}",
        f"[ 12.345678] python[123]: {XID}",
        f"14,1,2000000,-;app[7]: it said {XID}",
        f"they wrote: {XID}",
    ],
)
def test_what_a_program_quotes_is_not_the_kernel(line: str) -> None:
    """An Xid inside of another program's message is no Xid."""
    assert kinds(line) == []


@pytest.mark.parametrize(
    "line",
    ["NVRM: Xid", "NVRM: Xid (PCI:0000:66:00): abc, pid=1", "NVRM: Xid : 32", "NVRM: Xid (new form) 79"],
)
def test_an_xid_that_cannot_be_read_still_counts(line: str) -> None:
    """A form that nobody knows yet must not become silence."""
    assert [event[:2] for event in kinds(SYSLOG + line)] == [("xid", None)]


@pytest.mark.parametrize(
    "text", ["0000:b9:00", "0000:B9:00.0", "b9:00.0", "PCI:0000:b9:00", "00000000:B9:00.0", " 0000:b9:00 "]
)
def test_one_gpu_has_one_address(text: str) -> None:
    """However it is spelt, by driver, NVML or lspci."""
    assert pci_id(text) == "0000:b9:00.0"


def test_a_gpu_that_is_named_a_line_earlier_is_found() -> None:
    """The driver names the GPU in one line and says in a later one that it fell off the bus."""
    text = "[1.0] NVRM: The NVIDIA GPU 0000:b3:00.0\n[1.0] NVRM: fallen off the bus and is not responding."

    assert kinds(text) == [("off_bus", None, "0000:b3:00.0")]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("6,1,9990000000,-;x", 10.0),
        ("[ 9990.000000] x", 10.0),
        ("[Sun Feb 23 16:26:30 2025] x", 10.0),
        ("Feb 23 16:26:30 host kernel: x", 10.0),
        ("Feb 23 16:26:30 host kernel: [    1.000000] x", 10.0),
        ("2025-02-23T17:26:30,000000+01:00 x", 10.0),
        ("2025-02-23T16:26:30Z host kernel: x", 10.0),
        ("Dec 31 23:59:59 host kernel: x", 53.0 * 86400 + 16 * 3600 + 26 * 60 + 41),
        ("Feb 24 10:00:00 host kernel: x", 0.0),
        ("[99999.000000] x", 0.0),
        ("x", None),
        ("[...] x", None),
        ("Feb 30 10:00:00 host kernel: x", None),
    ],
)
def test_the_age_of_a_line(raw: str, expected: float | None) -> None:
    """From every stamp; without a year the nearest one, ahead counts as now, and no stamp has no age."""
    assert age(raw) == (None if expected is None else pytest.approx(expected))


def test_new_year_is_crossed() -> None:
    """A stamp of January 1st that is read a second before midnight is not a year old."""
    before_midnight = Now(10_000.0, 1_735_689_599.0)
    line = read_line("Jan  1 00:00:10 host kernel: x", before_midnight)

    assert line is not None
    assert line.age_s == 0.0


def test_a_record_is_unescaped_and_keeps_its_facility() -> None:
    """/dev/kmsg escapes line breaks, and its first number tells who wrote."""
    line = read_record("12,343,3700000000,-;NVRM: a\\x0aNVRM: b\n SUBSYSTEM=pci\n", NOW)

    assert line == Line("NVRM: a\nNVRM: b", 6300.0, facility=1, tagged=True)


def test_a_recorded_ring(tmp_path: Path) -> None:
    """Xids of the kernel and of a program's record both count, quoted text does not."""
    path = tmp_path / "kmsg.txt"
    path.write_bytes((RECORDINGS / "kmsg.txt").read_bytes())
    result = measure_file(path, NOW, WINDOW_S, vouched=False)
    metrics = metrics_of(result)

    assert {kind.value: metrics[kind.value] for kind in Kind if metrics[kind.value]} == {
        "xid": 2,
        "off_bus": 2,
    }
    assert "xid 79 0000:3b:00.0 (6300 s ago, written by a program (facility 1))" in result.evidence
    assert result.evidence.index("0000:b3:00.0") < result.evidence.index("0000:b9:00.0")
    assert fault_of(kernel_log.kernel_log, metrics) == ""


def test_old_events_are_counted_apart(tmp_path: Path) -> None:
    """Beyond the window an event is older; without a stamp it is not."""
    path = tmp_path / "messages"
    path.write_text(f"[ 100.0] {XID}\n[ 9950.0] {XID}\n{XID}\n", encoding="utf-8")
    metrics = metrics_of(measure_file(path, NOW, 100.0, vouched=True))

    assert (metrics["xid"], metrics["off_bus"], metrics["older_events"]) == (2, 2, 2)
    assert metrics["covers_s"] == 9900.0


def test_application_xids_are_counted_apart(tmp_path: Path) -> None:
    """13, 31, 43 and 45 follow from programs."""
    path = tmp_path / "messages"
    codes = (13, 31, 43, 45, 48)
    path.write_text(
        "".join(f"[ 9950.0] NVRM: Xid (PCI:0000:b9:00): {c}, x\n" for c in codes), encoding="utf-8"
    )
    metrics = metrics_of(measure_file(path, NOW, WINDOW_S, vouched=False))

    assert (metrics["xid"], metrics["xid_application"]) == (1, 4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "Jan 13 12:34:56 host cron[1]: job\n",
        "2025-02-23T16:24:18.1+00:00 host systemd[1]: Started.\n",
        "an application's own output\n",
    ],
)
def test_a_log_without_the_kernel_is_no_evidence(tmp_path: Path, text: str) -> None:
    """Empty, or other programs' only: unusable, not zero."""
    path = tmp_path / "syslog"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(Unusable, match="no line of the kernel's"):
        measure_file(path, NOW, WINDOW_S, vouched=False)


def test_a_log_that_ended_long_ago_is_no_evidence(tmp_path: Path) -> None:
    """The last line is older than the window: whoever wrote the log has died."""
    path = tmp_path / "messages"
    path.write_text(f"Jan 13 12:34:56 host kernel: all well\n{SYSLOG}{XID}\n", encoding="utf-8")

    with pytest.raises(Unusable, match="says nothing of now"):
        measure_file(path, NOW, WINDOW_S, vouched=True)


def test_a_huge_file_is_read_at_its_end(tmp_path: Path) -> None:
    """Of a sparse gigabyte only the last 16 MiB are read, within seconds, and that is said."""
    path = tmp_path / "messages"
    with open(path, "wb") as stream:
        stream.seek(1 << 30)
        stream.write(f"\n[ 9990.0] {XID}\n".encode())
    begun = time.monotonic()
    result = measure_file(path, NOW, WINDOW_S, vouched=False)

    assert metrics_of(result)["xid"] == 1
    assert "only the last 16777216 of" in result.evidence
    assert time.monotonic() - begun < 10


def test_the_rest_of_an_overlong_line_is_no_line(tmp_path: Path) -> None:
    """Text at the place where a line is cut must not pass for the kernel's."""
    path = tmp_path / "messages"
    path.write_text(f"[ 9990.0] {'x' * (kernel_log.LINE_BYTES - 10)}{XID}\n[ 9991.0] y\n", encoding="utf-8")
    metrics = metrics_of(measure_file(path, NOW, WINDOW_S, vouched=False))

    assert (metrics["lines_read"], metrics["xid"]) == (2, 0)


def test_bytes_that_are_no_text_are_read_past(tmp_path: Path) -> None:
    """A torn log still tells what it can."""
    path = tmp_path / "messages"
    path.write_bytes(b"\xff\xfe\x00\n[ 9990.0] " + XID.encode() + b"\n")

    assert metrics_of(measure_file(path, NOW, WINDOW_S, vouched=False))["xid"] == 1


def test_the_first_usable_source_is_taken(tmp_path: Path) -> None:
    """Without /dev/kmsg an empty file is passed over, and the source is named."""
    empty, good = tmp_path / "messages", tmp_path / "syslog"
    empty.touch()
    good.write_text("[ 9990.0] all well\n", encoding="utf-8")
    metrics = metrics_of(first_usable(tmp_path / "none", [empty, good], NOW, WINDOW_S, 5.0))

    assert (metrics["source"], metrics["lines_read"], metrics["xid"]) == (str(good), 1, 0)


def test_no_source_at_all_is_skipped(tmp_path: Path) -> None:
    """Nothing there is TOOL_MISSING; something that says nothing is NOT_PERMITTED, with every reason."""
    silent = tmp_path / "messages"
    silent.touch()
    absent = first_usable(tmp_path / "none", [tmp_path / "nowhere"], NOW, WINDOW_S, 5.0)
    mute = first_usable(tmp_path / "none", [silent], NOW, WINDOW_S, 5.0)

    assert isinstance(absent, Skipped)
    assert isinstance(mute, Skipped)
    assert (absent.skip, mute.skip) == (Skip.TOOL_MISSING, Skip.NOT_PERMITTED)
    assert str(silent) in mute.detail
    assert "none" in mute.detail


@pytest.mark.parametrize("content", [None, "", "Jan 13 12:34:56 host cron[1]: x\n"])
def test_a_file_that_was_asked_for_must_speak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    """A missing, empty or kernel-less file in PRELAUNCH_KERNEL_LOG is an error, not another source."""
    path = tmp_path / "log"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    monkeypatch.setenv(kernel_log.FILE_VARIABLE, str(path))

    with pytest.raises(CheckError, match=kernel_log.FILE_VARIABLE):
        kernel_log.kernel_log.body(context())


def test_a_file_that_was_asked_for_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bare lines too: the operator vouches for the file."""
    path = tmp_path / "log"
    path.write_text(f"{XID}\n", encoding="utf-8")
    monkeypatch.setenv(kernel_log.FILE_VARIABLE, str(path))
    metrics = metrics_of(kernel_log.kernel_log.body(context()))

    assert (metrics["source"], metrics["xid"], metrics["off_bus"]) == (str(path), 1, 1)


def test_a_ring_without_an_end_is_an_error(tmp_path: Path) -> None:
    """A source that is written faster than it is read costs the deadline, and says so."""
    endless = tmp_path / "zeros"
    os.symlink("/dev/zero", endless)

    with pytest.raises(CheckError, match="end was not reached"):
        measure_kmsg(endless, NOW, WINDOW_S, deadline_s=0.2)


def test_lines_are_not_kept_without_bound() -> None:
    """A flood of Xids is counted whole, and the evidence holds the newest few."""
    tally = kernel_log.Tally(WINDOW_S)
    tally.take(Line(XID, float(9999 - number)) for number in range(5000))

    assert tally.counts["xid"] == 5000
    assert len(tally.kept) == kernel_log.KEPT
    assert min(event.line.age_s or 0.0 for event in tally.kept) == 5000.0


@pytest.mark.root
@pytest.mark.skipif(
    not os.access("/dev/kmsg", os.W_OK), reason="/dev/kmsg is not writable: run as root on a host"
)
def test_the_real_ring_is_read_to_its_end() -> None:
    """An innocuous line that a program writes is found, with its facility and its age."""
    said = f"prelaunch test {os.getpid()} {time.monotonic_ns()}: nothing is wrong"
    Path("/dev/kmsg").write_text(f"{said}\n", encoding="utf-8")
    descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        now = Now(time.monotonic(), time.time())
        lines = list(kernel_log._records(descriptor, now, time.monotonic() + 10, []))
    finally:
        os.close(descriptor)
    mine = [line for line in lines if line.message == said]

    assert [line.facility for line in mine] == [1]
    assert mine[0].age_s is not None
    assert mine[0].age_s < 5
    assert list(events(mine)) == []


ZEROS = {**dict.fromkeys((*(kind.value for kind in Kind), "xid_application"), 0), "covers_s": 86400}


def test_a_log_that_begins_now_shows_nothing() -> None:
    """Rotated a moment ago, or a machine that has just started: a warning about evidence."""
    assert verdicts("kernel.log", {**ZEROS, "covers_s": 1}) == [("WARN", "EVIDENCE", "covers_s")]


@pytest.mark.parametrize(
    ("metric", "level", "cause"),
    [
        ("off_bus", "FAIL", "HARDWARE"),
        ("xid", "FAIL", "HARDWARE"),
        ("sxid", "FAIL", "HARDWARE"),
        ("edac_ue", "FAIL", "HARDWARE"),
        ("mce", "WARN", "HARDWARE"),
        ("io_error", "WARN", "HARDWARE"),
        ("lockup", "WARN", "HARDWARE"),
        ("oom_kill", "WARN", "APPLICATION"),
        ("xid_application", "WARN", "APPLICATION"),
    ],
)
def test_the_lines_of_the_local_policy(metric: str, level: str, cause: str) -> None:
    """No event passes, one does not; every count has a line."""
    assert verdicts("kernel.log", ZEROS) == []
    assert verdicts("kernel.log", {**ZEROS, metric: 1}) == [(level, cause, metric)]
    assert {rule.metric for rule in local_policy().checks["kernel.log"].rules} == set(ZEROS)
