"""kernel.xid: every form of an Xid, whose GPU it is, and what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.check import fault_of
from checks.probes.kernel import xid
from checks.probes.kernel.xid import listed_gpus, measured
from checks.probes.kernel.xid_catalogue import Need, table
from checks.probes.kernel.xid_context import MARKS
from checks.probes.kernel.xid_decision import decide_line
from tests.checks.probes.kernel.world import XID, log_of, recorded_lines, said

EIGHT = tuple(f"0000:{bus}:00.0" for bus in ("53", "64", "75", "86", "97", "a8", "b9", "ca"))
PUBLIC = recorded_lines("public_lines.txt")


def test_every_public_line_is_read() -> None:
    """A line with the driver's Xid tag gives one event, with code and address where it has them."""
    assert PUBLIC
    for line in PUBLIC:
        events = [event for event in xid.find(said(line)) if event.metric not in MARKS]
        tagged = " Xid" in f" {line.split('(')[0]}" and "GetMessage" not in line and "NVRM:" in line
        lost = "NVRM:" in line and "fallen off the bus" in line and "GetMessage" not in line

        assert len(events) == (1 if tagged or lost else 0), line
        code = line.partition("): ")[2].split(",")[0].strip("\\n ")
        if tagged and code.isdigit():
            assert (int(code), 2) == (events[0].code, events[0].pci.count(":")), line


@pytest.mark.parametrize(
    ("need", "codes"), [(Need.SUPPORT, [78, 162, 173]), (Need.ACT, [171]), (Need.UNKNOWN, [0])]
)
def test_xid_code_has_its_need(need: Need, codes: list[int | None]) -> None:
    """Codes of which the corpus has no machine; what is not in the table is never routine."""
    assert dict.fromkeys(codes, need) == {code: decide_line(code, "").need for code in codes}


@pytest.mark.parametrize(
    ("code", "text", "need"),
    [
        (154, "GPU recovery action changed from 0x0 (No", Need.UNREAD),
        (154, "", Need.UNREAD),
        (149, "NETIR_LINK_EVT  Link Fatal   XC0 i0 Link 09 (0x1)", Need.ACT),
        (144, "SAW_MVB Non-fatal XC1 i0 Link 10", Need.SUPPORT),
        (147, "TREX", Need.UNREAD),
        (150, "", Need.UNREAD),
    ],
)
def test_some_lines_decide_themselves(code: int, text: str, need: Need) -> None:
    """144 to 150 name the severity; a text that was cut before it, or before the action of a 154, decides nothing."""
    assert decide_line(code, text).need is need


def test_the_table_is_whole() -> None:
    """Every code of the catalogue is there once, with its source."""
    assert sorted(table()) == list(range(1, 174))
    assert all(row.source and row.name for row in table().values())


def test_a_gpu_is_named_by_its_number() -> None:
    """Eight digits of a domain, none, or a function: it is the same GPU, in the order of the addresses."""
    result = measured(log_of(f"[ 9990.0] {XID}\n[ 9991.0] NVRM: Xid (PCI:00000000:B9:00.0): 48, x\n"), EIGHT)

    assert result.metrics["gpus"] == tuple(f"GPU {index} ({pci})" for index, pci in enumerate(EIGHT))
    assert result.metrics["act"] == (0, 0, 0, 0, 0, 0, 2, 0)
    assert result.metrics["codes"] == "79 (GPU_HAS_FALLEN_OFF_THE_BUS) x1, 48 (GPU_ECC_DBE) x1"
    assert fault_of(xid.xid, result.metrics) == ""


def test_an_xid_of_no_listed_gpu_still_counts() -> None:
    """A GPU that is gone is not listed any more; a line may name none at all."""
    text = "[ 9990.0] NVRM: Xid (PCI:0000:11:00): 79\n[ 9991.0] NVRM: Xid : 79\n"
    result = measured(log_of(text), EIGHT)

    unlisted = "0000:11:00.0, not listed as a GPU of this node"
    assert result.metrics["gpus"][8:] == (unlisted, xid.UNNAMED)  # type: ignore[index]
    assert result.metrics["act"] == (0,) * 8 + (1, 0)
    assert result.metrics["unread"] == (0,) * 8 + (0, 1)


def test_the_evidence_says_when_and_where_from() -> None:
    """Newest first, with age and author."""
    text = "".join(f"12,{n},{9000 + n}000000,-;NVRM: Xid (PCI:0000:b9:00): 31, pid={n}\n" for n in range(50))
    result = measured(log_of(text), EIGHT)

    newest = "application 31 GPU 6 (0000:b9:00.0) (951 s ago, written by a program (facility 1))"
    assert newest in result.evidence
    assert result.evidence.index("pid=49") < result.evidence.index("pid=48")
    assert "[10 older ones are not shown]" in result.evidence
    assert result.metrics["application"] == (0, 0, 0, 0, 0, 0, 50, 0)


def test_the_driver_lists_its_gpus(tmp_path: Path) -> None:
    """The names of its folders, in the order of their addresses; none without a driver."""
    for name in ("0000:ca:00.0", "0000:53:00.0", "junk"):
        (tmp_path / name).mkdir()

    assert listed_gpus(tmp_path) == ("0000:53:00.0", "0000:ca:00.0")
    assert listed_gpus(tmp_path / "none") == ()
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.57.08  Sat May 24 2025\n"
    (tmp_path / "version").write_text(version)
    assert (575, None) == (xid.driver_branch(tmp_path / "version"), xid.driver_branch(tmp_path / "none"))


def test_incidents_are_listed_side_by_side() -> None:
    """What an overlay needs later: whose, which, how often, what for, why; nothing for a quiet log."""
    result = measured(log_of(f"[ 9990.0] {XID}\n[ 9991.0] {XID}\n"), EIGHT)
    quiet = measured(log_of("[ 9990.0] all well\n"), ())

    assert (result.metrics["incidents"], result.metrics["event_codes"]) == (1, (79,))
    assert (result.metrics["event_counts"], result.metrics["event_actions"]) == ((2,), ("reboot",))
    assert result.metrics["event_gpus"] == ("GPU 6 (0000:b9:00.0)",)
    assert "row 79: RESTART_BM" in result.evidence
    assert ((xid.NO_GPU,), (0,), 0) == tuple(quiet.metrics[name] for name in ("gpus", "act", "incidents"))
    assert "" == fault_of(xid.xid, quiet.metrics)
    assert not any(name.startswith("event_") for name in quiet.metrics)
