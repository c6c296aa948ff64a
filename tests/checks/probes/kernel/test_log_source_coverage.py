"""How far back a kernel log goes: a long journal is searched for what the checks would find in the whole of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from checks.probes.kernel import hardware, neuron_lines, sxid, xid
from checks.probes.kernel.log import Log
from checks.probes.kernel.log_lines import Find, messages
from checks.probes.kernel.log_source import WINDOW_S, Reader, first_usable, read_journal
from checks.process import tool
from checks.process.tool import ToolResult
from tests.checks.probes.kernel.world import NOW, RECORDINGS, XID, said
from tests.fakes.tools import Reply, install, on_path

pytestmark = pytest.mark.usefixtures("utc")

RECORDED = "\n".join(path.read_text(encoding="utf-8") for path in sorted(RECORDINGS.glob("*.txt")))
RESET = ["NVRM: GPU at PCI:0000:b9:00: GPU-0a1b", "GPU reset executed: GPU-0a1b, success: true"]
OTHER_FAULTS = [*RESET, "NEURON_HW_ERR=DMA_ERROR nd-id=3"]
MESSAGES = [text.rpartition(" | ")[2] for line in said(RECORDED) for text in messages(line)] + OTHER_FAULTS


def at(moment: str, message: str) -> str:
    """A line of the journal of this day and hour."""
    return f"2025-02-{moment}.000001+0000 host kernel: {message}"


BOOT = at("23T02:00:00", "Linux version 6.1.119 (mockbuild@host) (gcc 11.4.1) #1 SMP")
OTHERS = [at("23T16:20:00", f"audit: line {number}") for number in range(3000)]
YESTERDAY, NOON = at("22T10:26:40", "audit: line"), "23T12:00:00"
FINDS = {"xid": xid.find, "sxid": sxid.find, "hardware": hardware.find, "neuron": neuron_lines.find}
EVERY_FIND = pytest.mark.parametrize("find", FINDS.values(), ids=FINDS)


def journal_of(lines: Sequence[str], searches: bool = True) -> Callable[..., ToolResult]:
    """journalctl 253, where `--grep` together with `--lines` prints the newest line first, with at most 1 MiB of its output."""

    def run(argv: Sequence[str], _: float) -> ToolResult:
        options = {name: value for name, _, value in (argument.partition("=") for argument in argv)}
        until = datetime.fromtimestamp(float(options.get("--until", "@2e9")[1:]), UTC).isoformat()
        form = re.compile(options.get("--grep", "") if searches or "--grep" not in options else "no line")
        shown = [line for line in lines if line < until and form.search(line.partition("kernel: ")[2])]
        shown = shown[::-1][: int(options.get("--lines", len(shown)))]
        if "--reverse" not in options and not {"--grep", "--lines"} <= options.keys():
            shown.reverse()
        text = "\n".join(shown or ["-- No entries --"] * searches) + "\n"
        dropped = "\n[1 more bytes were cut]" * (len(text) > 1 << 20)
        code = int(not shown and "--grep" in options)
        return ToolResult(tuple(argv), code, text[: 1 << 20] + dropped, "", 0.0, bool(dropped))

    return run


@EVERY_FIND
def test_a_searched_journal_shows_every_recorded_fault(monkeypatch: pytest.MonkeyPatch, find: Find) -> None:
    """All recorded lines are older than the lines that are read without a search, and are found in the same order."""
    lines = [BOOT, *(at(NOON, message) for message in MESSAGES), *OTHERS]
    monkeypatch.setattr(tool, "run", journal_of(lines))
    whole, searched = Reader(find, NOW, WINDOW_S), read_journal(Reader(find, NOW, WINDOW_S), 5.0)
    whole.take(said("\n".join(lines)))

    assert [event.text for event in searched.this_boot] == [event.text for event in whole.events] != []
    assert (searched.covers_s, searched.records_lost) == (whole.oldest_age_s, whole.lost)


@EVERY_FIND
def test_the_search_is_an_expression_of_pcre(find: Find) -> None:
    """journalctl searches with PCRE, which selects the same lines as Python does."""
    text = "\n".join(MESSAGES)
    search = ["grep", "-P", f"^(?:{find.form})"]
    found = subprocess.run(search, input=text, capture_output=True, text=True, check=False)
    if "support" in found.stderr:
        pytest.skip("this grep has no PCRE")

    assert found.stdout.splitlines() == [line for line in MESSAGES if re.match(find.form, line)]


JOURNALS: dict[str, tuple[object, ...]] = {
    "a start": ([BOOT], {}, 52_000, 0),
    "an old fault": ([at("22T10:26:40", XID)], {}, 108_000, 0),
    "no fault": ([YESTERDAY], {}, 108_000, 0),
    "rotated": ([at(NOON, "audit: line")], {}, 400, 0),
    "no search": ([BOOT], {"searches": False}, 400, 1),
    "too much": ([BOOT, *[at(NOON, XID)] * 9000], {}, 16_000, 1),
}


@pytest.mark.parametrize(("before", "more", "covers_s", "lost"), JOURNALS.values(), ids=JOURNALS)
def test_a_journal_covers_what_could_be_found_in_it(
    monkeypatch: pytest.MonkeyPatch, before: list[str], more: dict[str, bool], covers_s: float, lost: int
) -> None:
    """Where the search fails, or finds more than can be read, lines of the last day were not read, and that counts."""
    monkeypatch.setattr(tool, "run", journal_of([*before, *OTHERS], **more))
    log = read_journal(Reader(xid.find, NOW, WINDOW_S), 5.0)

    assert (covers_s, lost) == (log.covers_s, log.records_lost)


NEW = at("23T16:26:00", "audit: line")
# What is asked for: the kernel's lines, and journald's about lines that it missed, which no other program can write.
KERNEL_LINES = "--boot .*_TRANSPORT=kernel \\+ _TRANSPORT=driver MESSAGE_ID=e9bf28e6e834481bb6f48f548ad13606"
MISSED = at(NOON, "").replace("kernel: ", "systemd-journald[576]: Missed 1234 kernel messages")


# Name -> the uptime, the ring's first number and age, the other log's lines; how far both go back, and how many lines are lost.
RINGS: dict[str, tuple[float, int, float, list[str], tuple[float, int]]] = {
    "whole": (10_000, 0, 10_000, [YESTERDAY, MISSED, NEW], (10_000, 0)),
    "started": (20, 0, 20, [YESTERDAY, NEW], (20, 0)),
    "day": (864_000, 50, 90_000, [YESTERDAY, MISSED, NEW], (108_000, 0)),
    "overwritten": (864_000, 50, 70, [], (70, 50)),
    "boot-overwritten": (10_000, 50, 9_990, [], (9_990, 50)),
    "since-boot": (10_000, 50, 70, [at("23T13:40:20", "audit: line"), NEW], (9_980, 0)),
    "window": (864_000, 50, 70, [YESTERDAY, NEW], (108_000, 0)),
    "missed": (864_000, 50, 70, [YESTERDAY, MISSED, NEW], (108_000, 1234)),
    "rotated": (864_000, 50, 70, [at(NOON, "audit: line"), NEW], (16_000, 50)),
    "ended": (864_000, 50, 70, [YESTERDAY], (70, 50)),
}


@pytest.mark.parametrize("source", ["journalctl", "messages"])
@pytest.mark.parametrize(("uptime_s", "first", "ring_s", "other", "found"), RINGS.values(), ids=RINGS)
def test_overwritten_records_of_the_ring_are_lost_unless_another_log_has_them(
    tmp_path: Path, source: str, uptime_s: float, first: int, ring_s: float, other: list[str], found: object
) -> None:
    """The other log has to go back over the window, or to the boot, and must not end before the ring begins."""
    (ring := tmp_path / "kmsg").write_text(f"6,{first},{uptime_s - ring_s:.0f}000000,-;x\n", encoding="utf-8")
    text = "".join(f"{line}\n" for line in other)
    (tmp_path / "messages").write_text(text if source == "messages" else "", encoding="utf-8")
    install(tmp_path, "journalctl", [Reply(text if source == "journalctl" else "", KERNEL_LINES)])
    now = replace(NOW, uptime_s=uptime_s)
    with on_path(tmp_path, alone=True):
        log = first_usable(ring, [tmp_path / "messages"], xid.find, now, WINDOW_S, 5.0)

    assert isinstance(log, Log)
    assert found == (log.covers_s, log.records_lost)
