"""NVLink's Xids: 74 by its registers, 144 to 150 by unit, interrupt and status."""

from __future__ import annotations

import pytest

from checks.model import Action
from checks.probes.kernel import xid_nvlink
from checks.probes.kernel.xid_catalogue import Need
from checks.probes.kernel.xid_decision import decide_line, incidents
from checks.probes.kernel.xid_rows import XidDecision
from tests.checks.probes.kernel.world import log_of


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
