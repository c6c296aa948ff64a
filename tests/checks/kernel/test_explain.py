"""What a kernel's log in a file tells, and when nobody can tell."""

from __future__ import annotations

import pytest

from checks.explain.reading import Asked, Broken, NotRecognised, Part
from checks.kernel import explain
from tests.checks.kernel.world import RECORDINGS, XID


def parts(name: str) -> dict[str, Part]:
    text = (RECORDINGS / name).read_text(encoding="utf-8")
    return {part.check: part for part in explain.read(text, Asked()).parts}


WHOLE = (
    "kmsg_healthy.txt",
    "kmsg_nvlink5.txt",
    "dmesg_healthy.txt",
    "dmesg_off_bus.txt",
    "dmesg_ctime_gsp.txt",
    "journal_memory.txt",
    "messages_sxid.txt",
)


@pytest.mark.parametrize("name", WHOLE)
def test_a_recording_is_recognised(name: str) -> None:
    """Every form that the project recorded, as a whole and without a doubt."""
    text = (RECORDINGS / name).read_text(encoding="utf-8")

    assert explain.detect(text)
    assert explain.read(text, Asked()).unread == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"DCGM Diagnostic": {}}\n',
        "# nThread 1 nGpus 8 minBytes 8\n",
        "hello\nworld\n",
        "host:194:710 [0] NCCL INFO Using network Socket\n",
        "Jan 13 12:34:56 host cron[1]: NVRM: Xid (PCI:0000:b9:00): 79\n",
    ],
)
def test_other_text_is_not_claimed(text: str) -> None:
    """No line of it shows that the kernel wrote it."""
    assert not explain.detect(text)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_nothing_is_not_recognised(text: str) -> None:
    """An empty file is no healthy log."""
    with pytest.raises(NotRecognised):
        explain.read(text, Asked())


def test_a_log_in_which_the_kernel_says_nothing_is_broken() -> None:
    """Only other programs wrote: nobody can tell."""
    with pytest.raises(Broken):
        explain.read("Jan 13 12:34:56 host cron[1]: job\nsome words\n", Asked())


def test_the_lines_are_named() -> None:
    """A metric rests on lines of the text, by number."""
    part = parts("dmesg_off_bus.txt")["kernel.xid"]

    assert part.metrics["gpus"] == ("GPU at 0000:ca:00.0",)
    assert part.metrics["act"] == (3,)
    assert [line.partition(":")[0] for line in part.lines["act"].splitlines()] == ["14", "15", "16"]


def test_a_text_that_ends_within_a_line_is_in_doubt() -> None:
    """It may be cut there, and after it anything may have stood."""
    reading = explain.read(f"[ 1.0] all well\n[ 100.0] {XID[:20]}", Asked())

    assert any("may be cut" in doubt for doubt in reading.unread)


def test_a_text_without_times_is_in_doubt() -> None:
    """An excerpt says nothing of what was left out."""
    assert any("no line has a time" in doubt for doubt in explain.read(f"{XID}\n", Asked()).unread)


def test_a_text_that_begins_late_is_in_doubt() -> None:
    """The kernel numbers its records from 0."""
    reading = explain.read("6,7,1000000,-;x\n6,8,90000000,-;y\n", Asked())

    assert any("record 7" in doubt for doubt in reading.unread)


def test_a_missing_record_is_counted() -> None:
    """A line that was deleted from a dump of /dev/kmsg leaves a gap."""
    text = (RECORDINGS / "kmsg_healthy.txt").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    reading = explain.read("".join(lines[:3] + lines[4:]), Asked())

    assert {part.metrics["records_lost"] for part in reading.parts} == {1}


def test_nothing_in_a_text_is_too_old() -> None:
    """A log of last year tells of last year's machine, whole."""
    assert parts("dmesg_ctime_gsp.txt")["kernel.xid"].metrics["act"] == (2,)
    assert parts("journal_memory.txt")["kernel.hardware"].metrics["edac_ue"] == 1
    assert parts("journal_memory.txt")["kernel.xid"].metrics["act"] == (0,)


@pytest.mark.parametrize(
    "line",
    [
        f"6,{'9' * 5000},1,-;x",
        f"6,1,{'9' * 5000},-;x",
        f"[{'9' * 5000}.0] x",
        f"[ 1.0] NVRM: Xid (PCI:0000:b9:00): {'9' * 5000}, x",
        f"[ 1.0] nvidia-nvswitch0: SXid (PCI:0000:b9:00.0): {'9' * 5000}, Fatal",
        f"[ 1.0] EDAC MC0: {'9' * 5000} UE x",
        f"[ 1.0] printk: {'9' * 5000} messages suppressed.",
    ],
)
def test_a_number_without_end_is_read_without_harm(line: str) -> None:
    """Python refuses to read numbers of thousands of digits; garbage must not end the reader."""
    reading = explain.read(f"[ 0.0] Linux version 6.1\n{line}\n[ 90.0] y\n", Asked())

    assert len(reading.parts) == 3
