"""Every form of a kernel's line, and its age."""

from __future__ import annotations

import pytest

from checks.probes.kernel import hardware, xid
from checks.probes.kernel.log_lines import UPTIME_S, Event, Line, Now, account, read_line, read_record
from checks.probes.sysfs import pci_id
from tests.checks.probes.kernel.world import NOW, SYSLOG, XID, found

pytestmark = pytest.mark.usefixtures("utc")
SINCE_START, DATE, UPTIME = "[ 1108.858286] ", "[Sun Feb 23 16:24:18 2025] ", "[  123.456789] "


def line_of(raw: str, now: Now = NOW) -> Line:
    line = read_line(raw, now)
    assert line is not None
    return line


@pytest.mark.parametrize(
    "prefix",
    [
        "3,1,2000000,-;",
        "3,1,2000000,c,caller=T99;",
        *(level + stamp for level in ("", "<3>", "kern  :err   : ") for stamp in (SINCE_START, DATE)),
        "[123] ",
        "[    5.123456][   T99] ",
        *(f"{stamp}[  T4711] " for stamp in ("<3>[ 5.123456] ", DATE, "2025-02-23T16:24:18,123456+00:00 ")),
        "kern  :err   : 2025-01-25T10:34:54,859532+00:00 ",
        f"{SINCE_START}ip-10-1-2-3 kernel: ",
        "kernel: ",
        SYSLOG,
        *(f"Feb  3 12:34:56 {rest}" for rest in ("", "kernel: ", UPTIME, f"host kernel: {UPTIME}")),
        "Feb  3 12:34:56.123456 host kernel: ",
        *(f"2025-02-23T16:24:18.123456+00:00 {rest}" for rest in ("", "kernel: ", "host kernel: ")),
        "2025-02-23T16:24:18,123456+00:00 ",
        "2025-02-23T16:24:18+0000 host kernel: [   12.345678] ",
        "2025-02-23T16:24:18Z host kernel: ",
        "",
    ],
)
def test_every_prefix_is_read(prefix: str) -> None:
    """The message is the same behind all forms of stamps and tags, carriage return or not."""
    assert found(xid.find, prefix + XID) == [("act", 79, "0000:b9:00.0")]
    assert found(xid.find, f"{prefix}{XID}\r\n") == found(xid.find, prefix + XID)


@pytest.mark.parametrize(
    "text", ["0000:b9:00", "0000:B9:00.0", "b9:00.0", "PCI:0000:b9:00", "00000000:B9:00.0", " 0000:b9:00 "]
)
def test_pci_address_has_one_form_for_every_spelling(text: str) -> None:
    """However it is spelt, by driver, NVML or lspci."""
    assert pci_id(text) == "0000:b9:00.0"


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
    assert line_of(raw).age_s == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("raw", "facility"),
    [
        ("kern  :err   : [ 1.0] x", 0),
        ("user  :notice: [ 1.0] x", 1),
        ("user  :notice: 2025-01-25T10:34:54,859532+00:00 x", 1),
        ("daemon:info  : [Sun Feb 23 16:24:18 2025] x", 1),
        ("<3>[ 1.0] x", 0),
        ("<13>[ 1.0] x", 1),
    ],
)
def test_dmesg_says_who_wrote_a_line(raw: str, facility: int) -> None:
    """`dmesg -x` prints the facility's name, `dmesg -r` its number: what a program wrote is no start of the kernel."""
    line = line_of(raw)

    assert (line.message, line.facility, line.tagged) == ("x", facility, True)


def test_new_year_is_crossed() -> None:
    """A stamp of January 1st that is read a second before midnight is not a year old."""
    before_midnight = Now(10_000.0, 1_735_689_599.0)

    assert line_of("Jan  1 00:00:10 host kernel: x", before_midnight).age_s == 0.0


def test_a_record_is_unescaped_and_keeps_its_facility() -> None:
    """/dev/kmsg escapes line breaks, and its first number tells who wrote."""
    line = read_record("12,343,3700000000,-;NVRM: a\\x0aNVRM: b\n SUBSYSTEM=pci\n", NOW)

    assert line == Line("NVRM: a\nNVRM: b", 6300.0, facility=1, tagged=True, record=343)


@pytest.mark.parametrize(
    "line",
    [
        f"Jan 13 12:34:56 host python[123]: {XID}",
        f"Jan 13 12:34:56 host app: kernel: {XID}",
        f"Jan 13 12:34:56 app[7]: kernel: {XID}",
        f"[ 12.345678] app: kernel: {XID}",
        f"2025-02-23T16:24:18.123456+00:00 host app: kernel: {XID}",
        f"user  :err   : 2025-01-25T10:34:54,859532+00:00 python[123]: {XID}",
        f"2025-02-23T16:24:18.123456+00:00 host python[123]: {XID}",
        f"[ 12.345678] python[123]: {XID}",
        f"[ 12.345678] [   T123] python[123]: {XID}",
        f"14,1,2000000,-;app[7]: it said {XID}",
        f"they wrote: {XID}",
    ],
)
def test_kernel_checks_ignore_lines_quoted_by_a_program(line: str) -> None:
    """An Xid inside of another program's message is no Xid."""
    assert found(xid.find, line) == []
    assert found(hardware.find, line) == []


@pytest.mark.parametrize(
    ("age_s", "said"),
    [
        (44.4, "(44 s ago)"),
        (None, "(no time)"),
        (UPTIME_S - 44, "(44 s after the kernel's start)"),
        (56 * 365 * 86_400.0, "(its clock was not set)"),
    ],
)
def test_an_impossible_time_is_no_age(age_s: float | None, said: str) -> None:
    """A text with timestamps since boot does not say when it was read, and a clock that says 1970 was not set."""
    assert said in account([Event("act", Line(XID, age_s), 79, "0000:3b:00", XID)])
