"""kernel.xid: every form of an Xid, whose GPU it is, and what it needs.

NVLink's Xids: 74 by its registers, 144 to 150 by unit, interrupt and status.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.check import fault_of
from checks.model import Action
from checks.probes.kernel import xid, xid_nvlink
from checks.probes.kernel.xid import listed_gpus, measured
from checks.probes.kernel.xid_catalogue import Need, table
from checks.probes.kernel.xid_context import MARKS, branch_of
from checks.probes.kernel.xid_decision import decide_line, incidents
from checks.probes.kernel.xid_rows import XidDecision
from checks.probes.sysfs import text_of
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
    assert (575, None) == (branch_of(text_of(tmp_path / "version")), branch_of(text_of(tmp_path / "none")))


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


def link(*values: tuple[int, int], number: int = 6) -> str:
    """A line of 74 with these registers (the first is 1) set."""
    words = [hex(dict(values).get(place, 0)) for place in range(1, 8)]
    said = f"pid=<unknown>, name=<unknown>, NVLink: fatal error detected on link {number}({', '.join(words)})"
    return f"NVRM: Xid (PCI:0000:b9:00): 74, {said}"


def decided(*said: str) -> XidDecision:
    """What the gravest incident of a log with these lines calls for."""
    text = "".join(f"[ {9000 + index}.0] {line}\n" for index, line in enumerate(said))
    return next(one.decision for one in incidents(log_of(text).recent) if one.decision.code == 74)


@pytest.mark.parametrize(
    ("need", "action", "bits"),
    [
        (Need.SUPPORT, Action.NONE, [(1, 0), (1, 23)]),
        (Need.SUPPORT, Action.INSPECT, [(5, 20)]),
        (Need.ACT, Action.CONTACT, [(1, 1), (1, 31), (2, 5), (3, 13), (7, 0)]),
        (Need.ACT, Action.INSPECT, [(1, 4), (1, 16), (1, 21), (1, 27), (3, 16)]),
        (Need.ACT, Action.RESET_GPU, [(4, 18)]),
    ],
)
def test_a_bit_means_what_the_catalogue_says(need: Need, action: Action, bits: list[tuple[int, int]]) -> None:
    """Ignore, sympathetic, mechanics, parity; a bit that is not listed is reported."""
    for register, bit in bits:
        found = decided(link((register, 1 << bit)))

        assert (found.need, found.action) == (need, action), (register, bit)
        assert f"register {register} bit {bit}" in found.reason


def test_the_gravest_bit_decides() -> None:
    """One that may be ignored hides none beside it."""
    assert decided(link((1, 1 | 1 << 16))).action is Action.INSPECT
    assert decided(link((1, 1), (5, 1 << 18))).need is Need.ACT
    assert decided(link((1, 1 | 1 << 31))).action is Action.CONTACT


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:b9:00): 74",
        "NVRM: Xid (PCI:0000:b9:00): 74, NVLink: fatal error detected on link 6(0x1, 0x0",
        "NVRM: Xid (PCI:0000:b9:00): 74, NVLink: fatal error detected on link 6(0x1, 0x0, 0x0)",
        link(),
    ],
)
def test_registers_that_cannot_be_read_excuse_nothing(text: str) -> None:
    """A line that was cut, and one whose bits are all zero."""
    assert decided(text).need is Need.ACT


def test_parity_errors_are_reported_when_they_return_on_one_link() -> None:
    """More than twice on the same link; three on three links are not."""
    parity = (1, 1 << 4)

    assert decided(*[link(parity)] * 3).action is Action.CONTACT
    assert decided(*[link(parity, number=number) for number in (1, 2, 3)]).action is Action.INSPECT


@pytest.mark.parametrize(
    "other",
    [
        "NVRM: Xid (PCI:0000:b9:00): 48, x",
        "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 41 LTSSM Fault Up",
    ],
)
def test_a_sympathetic_bit_follows_what_stands_beside_it(other: str) -> None:
    """Another Xid of the GPU, or an NVSwitch's; alone it is reported."""
    found = decided(link((1, 1 << 20)), other)

    assert (found.need, found.action) == (Need.SUPPORT, Action.NONE)
    assert "follows from" in found.reason


@pytest.mark.parametrize(
    "other",
    [
        "NVRM: Xid (PCI:0000:b9:00): 45, pid=1, name=x, Ch 00000008",
        "NVRM: Xid (PCI:0000:b9:00): 31, pid=1, name=x, y",
        "NVRM: Xid (PCI:0000:53:00): 48, x",
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 11012, Non-fatal, Link 3 ingress ECC limit",
    ],
)
def test_nvlink_xid_stays_unexplained_beside_its_consequences(other: str) -> None:
    """The program that was ended, another GPU's fault, a bit that a switch corrected: the link stays unexplained."""
    assert decided(link((1, 1 << 20)), other).need is Need.ACT


# intrInfo of each version, from public lines and from the sheet's patterns.
V1, V2 = 0x00000082, 0x00000004


@pytest.mark.parametrize(
    ("code", "unit", "registers", "driver", "need", "action"),
    [
        (145, "RLW_REMAP Nonfatal", f"0x{V1:08x} 0x00000040", 570, Need.ACT, Action.RESET_GPU),
        (145, "RLW_REMAP Nonfatal", f"0x{V2:08x} 0x00000040", 575, Need.ACT, Action.RESET_GPU),
        (145, "RLW_REMAP Nonfatal", f"0x{V1:08x} 0x00000100", 570, Need.ROUTINE, Action.NONE),
        (145, "RLW_REMAP Nonfatal", f"0x{V1:08x} 0x80000000", 570, Need.SUPPORT, Action.CONTACT),
        (145, "RLW_REMAP Nonfatal", f"0x{V1:08x} 0x00000140", 570, Need.ACT, Action.RESET_GPU),
        (145, "RLW_REMAP Nonfatal", f"0x{V1:08x} 0x00000001", 570, Need.APPLICATION, Action.RESTART_APP),
        (145, "RLW_REMAP Nonfatal", f"0x{V1:08x} 0x40000100", 570, Need.SUPPORT, Action.CONTACT),
        (145, "RLW_RXPIPE Nonfatal", "0x00000006 0x00000001", 580, Need.SUPPORT, Action.CONTACT),
        (145, "RLW_RXPIPE Nonfatal", "0x00000086 0x00000001", 580, Need.ACT, Action.RESET_GPU),
        (149, "NETIR_LINK_EVT Fatal", "0x025525c6 0x00000000", 570, Need.ACT, Action.RESET_GPU),
        (149, "NETIR_LINK_EVT Link Fatal", "0x026525c6 0x0", 570, Need.SUPPORT, Action.INSPECT),
        (149, "NETIR_BER_EVENT Nonfatal", "0x00000226 0x00000002", 570, Need.SUPPORT, Action.INSPECT),
        (150, "MSE_WATCHDOG Fatal", "0x00000000 0x00000000", None, Need.ACT, Action.RESET_GPU),
        (144, "NEW_UNIT Fatal", "0xffffffff 0x00000001", None, Need.ACT, Action.CONTACT),
        (144, "NEW_UNIT Nonfatal", "0xffffffff 0x00000001", None, Need.SUPPORT, Action.CONTACT),
    ],
)
def test_a_line_is_decoded_by_its_registers(
    code: int, unit: str, registers: str, driver: int | None, need: Need, action: Action
) -> None:
    """Not by the word beside them: the sheet calls a reset for lines that say Nonfatal. In no row: by the word."""
    found = decide_line(code, f"{unit} XC0 i0 Link 09 ({registers})", "", driver)

    assert (found.need, found.action) == (need, action)


def test_an_unknown_driver_gets_the_graver_answer() -> None:
    """Where the two versions' patterns fit different rows both are looked at, and it is said."""
    both = "TLW_RX Fatal XC0 i0 Link 03 (0x{:08x} 0x00000004)"
    found = decide_line(146, both.format(0b0101000011), "", None)
    rows = xid_nvlink.decoded(146, xid_nvlink.NvlinkLine("TLW_RX", "Fatal", 3, 0b0101000011, 4), None)

    assert found.action is Action.RESET_GPU
    assert ("driver version unknown" in found.reason) == (len(rows) > 1)


def test_a_row_of_the_other_version_still_speaks() -> None:
    """A driver that prints the older form is decoded by it, and that is said."""
    found = decide_line(145, f"RLW_REMAP Nonfatal XC1 i0 Link 10 (0x{V1:08x} 0x00000040)", "", 580)

    assert found.action is Action.RESET_GPU
    assert "other driver version" in found.reason


def test_nvlink_xid_follows_the_action_that_xid_154_requests() -> None:
    """XID_154_EVAL: with a demand of the driver's it is that; without one the application is restarted."""
    first = f"[ 9000.0] NVRM: Xid (PCI:0000:b9:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x{V1:08x} 0x00000001)\n"
    asked = "[ 9001.0] NVRM: Xid (PCI:0000:b9:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n"
    both = {one.decision.code: one.decision.need for one in incidents(log_of(first + asked).recent, 570)}

    assert both[145] is Need.ACT
    assert incidents(log_of(first).recent, 570)[0].decision.need is Need.APPLICATION


def test_a_link_that_falls_twice_a_day_is_reported() -> None:
    """The sheet: REPORT_ISSUE if seen more than once a day."""
    line = "NVRM: Xid (PCI:0000:b9:00): 149, NETIR_LINK_EVT Link Fatal XC0 i0 Link 09 (0x001001c6 0x00000000)"
    once, twice = (
        incidents(log_of(f"[ 9000.0] {line}\n" * times).recent, 570)[0].decision for times in (1, 2)
    )

    assert once.action is twice.action is Action.RESET_GPU
    assert ("report it" in once.reason, "report it" in twice.reason) == (False, True)


def test_the_logs_own_driver_decides_the_version() -> None:
    """The line in which it was loaded, before; not what is loaded now."""
    loaded = "[ 8000.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20  Sun Mar 30 2025\n"
    line = f"[ 9000.0] NVRM: Xid (PCI:0000:b9:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x{V1:08x} 0x00000040)\n"
    found = incidents(log_of(loaded + line).recent, 580)[0].decision

    assert "other driver version" not in found.reason


def test_the_sheet_is_whole() -> None:
    """Every code has rows; no pattern fits nothing."""
    assert {rule.xid for rule in xid_nvlink.rules()} == set(xid_nvlink.CODES)
    assert all(rule.immediate in ("IGNORE", "RESET_GPU", "XID_154_EVAL") for rule in xid_nvlink.rules())
