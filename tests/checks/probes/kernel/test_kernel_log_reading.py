"""What a kernel's log in a file tells, and when nobody can tell.

Also what it says about devices of Neuron, and about GPUs in the driver's own words without an Xid.
"""

from __future__ import annotations

import time

import pytest

from checks.explain.reading import Garbled, NotRecognised, Reading, ReadOptions
from checks.model import Answer, Level, Verdict
from checks.probes.kernel import kernel_log_reading
from tasks.reports.explained_input import explain_text
from tests.checks.probes.kernel.world import RECORDINGS, XID
from tests.corpus.case import declared
from tests.corpus.judging import explained


def read(text: str) -> Reading:
    return kernel_log_reading.read(text, ReadOptions())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[  0.000000] x86: a\n[  90.0] y\n", ""),
        ("[ 5000.0] x\n[ 9000.0] y\n", "does not begin at a start of the kernel and covers 4000 s"),
        ("[ 5000.0] x\n[ 99000.0] y\n", ""),
        ("Apr  9 01:00:00 h kernel: x\nApr  9 02:00:00 h kernel: y\n", "covers 3600 s, not the last 24 hours"),
        ("Apr  9 01:00:00 h kernel: x\nApr 10 02:00:00 h kernel: y\n", ""),
        ("Apr  9 01:00:00 h kernel: Linux version 6.1\nApr  9 02:00:00 h kernel: y\n", ""),
        ("Apr  9 01:00:00 h kernel: x\nApr  9 01:01:00 h kernel: Linux version 6.1\nApr  9 02:00:00 h kernel: y\n", ""),
        ("Apr  9 01:00:00 h cron[1]: Linux version 6.1\nApr  9 01:00:01 h kernel: x\nApr  9 02:00:00 h kernel: y\n", "covers"),
        ("6,7,1000000,-;x\n6,8,90000000000,-;y\n", ""),
        ("[ 5000.0] x\n[ 5001.0] y\nApr  9 01:00:00 h kernel: x\n", "covers 1 s"),
        ("6,7,1000000,-;x\n6,8,90000000,-;y\n", "covers 89 s"),
        (f"{XID}\n", "no line has a time"),
    ],
    ids=["from 0", "an hour", "a day", "an hour of syslog", "a day of syslog", "a start", "a later start",
         "a program speaks of a start", "a day of records", "two clocks", "a late record", "no time"],
)  # fmt: skip
def test_a_cut_log_is_in_doubt_unless_it_shows_a_start_or_a_day(text: str, said: str) -> None:
    """A machine that failed two hours ago has an hour's log without a fault."""
    doubts = read(text).unread

    assert (said == "") == (doubts == ())
    assert all(said in doubt for doubt in doubts)


def test_zeros_in_a_log_hide_no_fault() -> None:
    """A crash leaves a hole, and the next boot's lines behind it: the fault is found, and the hole is said."""
    reading = read(f"[ 0.0] Linux version 6.1\n\0\0\0[ 90.0] {XID}\n")

    assert {part.check: part for part in reading.checks}["kernel.xid"].metrics["act"] == (1,)
    assert ["line 2 has a zero byte: the text at that place is lost"] == list(reading.unread)


def test_a_line_longer_than_any_of_the_kernels_is_in_doubt() -> None:
    """What stands beyond its first 64 KiB was not looked at."""
    for said in (" I/O", ""):
        reading = read(f"[ 0.0] Linux version 6.1\n[ 90.0] {'x' * 70000}{said}\n")
        assert "line 2 is longer than any line of the kernel, so it was not read to its end" in reading.unread


def test_a_line_of_megabytes_is_explained_in_seconds() -> None:
    """It is recognised by its beginning, and nothing takes it apart for each of its letters."""
    text = f"[ 0.0] Linux version 6.1\n[ 90.0] {'[ 1.0] ' * 200_000}\n"
    begun = time.process_time()
    found = explain_text("-", "a long line", text.encode(), None, None, ReadOptions())

    assert found.verdict.level is not Level.PASS
    assert time.process_time() - begun < 3


def test_messages_that_were_dropped_count_in_a_plain_log_too() -> None:
    """The kernel's own word, and journald's."""
    text = "[ 0.0] Linux version 6.1\n[ 70.0] printk: 12 messages suppressed.\n"
    missed = "Apr  9 02:00:00 h systemd-journald[7]: Missed 5 kernel messages\n"

    assert {17} == {part.metrics["records_lost"] for part in read(text + missed).checks}


def test_a_kernel_that_speaks_late_is_recognised() -> None:
    """A syslog may begin with thousands of lines of programs."""
    cron = "Jan 13 12:34:56 host cron[1]: job\n" * 6000

    assert kernel_log_reading.detect(f"{cron}Jan 13 12:34:57 host kernel: {XID}\n")
    assert not kernel_log_reading.detect(f"{cron}Jan 13 12:34:57 host cron[1]: {XID}\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"DCGM Diagnostic": {}}\n',
        "# nThread 1 nGpus 8 minBytes 8\n",
        "hello\nworld\n",
        "host:194:710 [0] NCCL INFO Using network Socket\n",
        "Jan 13 12:34:56 host cron[1]: NVRM: Xid (PCI:0000:b9:00): 79\n",
        "[1] the loss of rank 1 is 3.2\n[1]:\n",
        (RECORDINGS.parent / "torchrun/raised.node-0.txt").read_text(encoding="utf-8"),
    ],
)
def test_other_text_is_not_claimed(text: str) -> None:
    """No line of it shows that the kernel wrote it."""
    assert not kernel_log_reading.detect(text)


@pytest.mark.parametrize(
    ("text", "refused"),
    [("\n \n", NotRecognised), ("Jan 13 12:34:56 host cron[1]: job\nsome words\n", Garbled)],
)
def test_a_text_in_which_the_kernel_is_silent_is_no_healthy_log(text: str, refused: type[Exception]) -> None:
    with pytest.raises(refused):
        read(text)


def test_a_number_in_brackets_is_the_kernels_before_a_message_of_a_driver() -> None:
    """Some logs have whole seconds; other programs number their ranks so."""
    assert kernel_log_reading.detect(f"[1] the loss of rank 1 is 3.2\n[123] {XID}\n")


def test_the_lines_are_named() -> None:
    """A metric rests on lines of the text, by number."""
    text = (RECORDINGS / "dmesg_off_bus.txt").read_text(encoding="utf-8")
    part = {part.check: part for part in read(text).checks}["kernel.xid"]

    assert part.metrics["gpus"] == ("GPU at 0000:ca:00.0",)
    assert part.metrics["act"] == (3,)
    assert [line.partition(":")[0] for line in part.lines["act"].splitlines()] == ["14", "15", "16"]


def test_a_text_that_ends_within_a_line_is_in_doubt() -> None:
    """It may be cut there, and after it anything may have stood."""
    reading = read(f"[ 1.0] all well\n[ 100.0] {XID[:20]}")

    assert any("may be truncated" in doubt for doubt in reading.unread)


def test_a_missing_record_is_counted() -> None:
    """A line that was deleted from a dump of /dev/kmsg leaves a gap."""
    text = (RECORDINGS / "kmsg_healthy.txt").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    reading = read("".join(lines[:3] + lines[4:]))

    assert {part.metrics["records_lost"] for part in reading.checks} == {1}


@pytest.mark.parametrize(
    "line",
    [
        f"6,1,{'9' * 5000},-;x",
        f"[{'9' * 5000}.0] x",
        f"[ 1.0] NVRM: Xid (PCI:0000:b9:00): {'9' * 5000}, x",
        f"[ 1.0] EDAC MC0: {'9' * 5000} UE x",
    ],
)
def test_a_number_without_end_is_read_without_harm(line: str) -> None:
    """Python refuses to read numbers of thousands of digits; garbage must not end the reader."""
    reading = read(f"[ 0.0] Linux version 6.1\n{line}\n[ 90.0] y\n")

    assert len(reading.checks) == 3


START = "Nov 21 00:00:01 n1 kernel: Linux version 6.5.0\n"


@pytest.mark.parametrize("other", ["Linux version 6.5.0", XID.replace("79", "94")])
def test_another_machine_neither_mends_nor_explains(other: str) -> None:
    """A log server's file: GPUs of all machines have the same addresses. That it holds several is said."""
    fault = XID.replace("79", "95")
    reading = read(f"{START}Nov 21 12:00:00 n1 kernel: {fault}\nNov 21 12:00:01 n2.site kernel: {other}\n")
    found = {part.check: part.metrics for part in reading.checks}["kernel.xid"]

    assert (0,) == found["handled"] == found["routine"]
    assert any("2 machines (n1, n2)" in doubt for doubt in reading.unread)


def test_an_xid_within_another_line_is_in_doubt() -> None:
    """On a serial console lines of two processors run into each other."""
    reading = read(f"{START}Nov 21 12:00:00 n1 kernel: usb 1-1: new high[   12.3] {XID}\n")

    assert any("line 2 has an Xid in the middle" in doubt for doubt in reading.unread)


HEAD = "[    0.000000] Linux version 6.1.119-129.201.amzn2023.x86_64\n[   31.250000] nvme nvme0: 8/0/0 default/read/poll queues\n"
FORMS = (
    "[  901.000000] {}\n",
    "2026-11-02T10:00:00.000000+0000 ip-10-0-0-9 kernel: {}\n",
    "kern  :err   : [  901.000000] {}\n",
)
NEURON = (
    "NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR hostname=ip-172-31-61-252 nd-id=0 nc-id=0 action=TERMINATE_INSTANCE",
    "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR instance-id=i-0 hostname=h nd-id=11 nc-id=1 serial-num=ab action=TERMINATE_INSTANCE",
    "NEURON_HW_ERR=NC_UNCORRECTABLE_ERROR instance-id=i-0 hostname=h nd-id=3 nc-id=1 serial-num=ab action=TERMINATE_INSTANCE",
    "neuron:nr_dma: NEURON_HW_ERR=DMA_ERROR nd-id=7 nc-id=1 serial-num=ab action=RESET_DEVICE",
    "neuron5: NEURON_HW_ERR=DMA_ERROR device=5",
    "NEURON_HW_ERR=A_NEW_ERROR nd-id=2 action=TERMINATE_INSTANCE",
)
RESET = (
    "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).  The GPU likely needs to be reset.",
    "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0001:07:00 (printing 1 of every 120).  The GPU likely needs to be reset.",
    "NVRM: GPU at PCI:0000:9b:00 does not answer. The GPU likely needs to be reset.",
    "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
    "NVRM: Xid (PCI:0000:9b:00): 63, Row Remapper: New row (0x0000000000abcdef) marked for remapping, reset gpu to activate.",
)


def verdict(text: str, instance_type: str = "") -> Verdict:
    """The answer of explain, which recognises the kind."""
    return explained(text, declared(instance_type) if instance_type else None)


@pytest.mark.parametrize(
    ("line", "form"), [*((line, FORMS[0]) for line in NEURON), *((NEURON[0], form) for form in FORMS[1:])]
)
def test_a_hardware_error_of_neuron_is_no_go_with_its_device(line: str, form: str) -> None:
    """With the driver's own action; whether the type is declared or not."""
    head = HEAD if form.startswith("[") else ""
    for instance_type in ("", "trn1.32xlarge"):
        made = verdict(head + form.format(line), instance_type)
        (said,) = [finding for finding in made.findings if finding.check == "neuron.ecc"]

        assert Answer.NO_GO is made.answer, [f.message for f in made.findings]
        assert {"device 0", "device 11", "device 3", "device 7", "device 5", "device 2"} & set(said.elements)
        assert line.partition("=")[2].partition(" ")[0] in said.message + said.evidence
        assert "action=" not in line or line.rpartition("=")[2] in said.message + said.evidence


@pytest.mark.parametrize("line", RESET)
def test_the_drivers_own_words_call_for_a_reset(line: str) -> None:
    """At least a WARN, with the GPU's address."""
    made = verdict(f"{HEAD}[  901.000000] {line}\n")
    (said,) = [finding for finding in made.findings if finding.check == "kernel.xid"]

    assert made.level in (Level.WARN, Level.FAIL)
    assert "reset" in said.message
    assert any(address in said.message for address in ("0000:9b:00.0", "0001:07:00.0", "0000:10:1c.0"))


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:9b:00): 63, pid=1896, Row Remapper: New row marked for remapping",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20",
        "NVRM: GPU at PCI:0000:ca:00: GPU-7d1be7a0-1111-4222-8333-944455566677",
        "python3: the GPU likely needs to be reset",
        "audit: comm=reset gpu to activate",
    ],
)
def test_words_that_call_for_nothing_stay_a_pass(line: str) -> None:
    """An Xid that the catalogue ignores, and another program's words."""
    assert Level.PASS is verdict(f"{HEAD}[  901.000000] {line}\n").level
