"""Whether a restart of the machine, as a text shows it, closes what came before it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from checks.explain.reading import ReadOptions
from checks.model import Value
from checks.probes.kernel import kernel_log_reading
from tests.checks.probes.kernel.world import XID

START = "Nov 21 00:00:01 n1 kernel: Linux version 6.5.0\n"
FAULT = f"Nov 21 12:00:00 n1 kernel: {XID}\nNov 21 13:00:00 n1 kernel: usb 1-1: gone\n"
DAY_BEFORE = "Nov 20 00:00:01 n1 kernel: Linux version 6.5.0\nNov 20 13:00:00 n1 kernel: usb 1-1: new\n"


def metrics_of(text: str) -> dict[str, Mapping[str, Value]]:
    """By check, what the text shows."""
    return {part.check: part.metrics for part in kernel_log_reading.read(text, ReadOptions()).checks}


@pytest.mark.parametrize(
    "text",
    [
        "".join(reversed((START + FAULT).splitlines(keepends=True))),
        "".join(reversed(f"[ 0.0] Linux version 6\n[ 9.0] {XID}\n[ 99.0] x\n".splitlines(keepends=True))),
        START + FAULT + DAY_BEFORE,
        START + FAULT,
    ],
    ids=["journalctl --reverse", "dmesg | tac", "cat messages*", "no restart"],
)
def test_a_start_that_came_before_a_fault_mends_nothing(text: str) -> None:
    """Where it stands in the text is not when it was."""
    parts = metrics_of(text)
    found, lost = parts["kernel.xid"], parts["kernel.hardware"]

    assert ((1,), (0,)) == (found["act"], found["handled"])
    assert (1, False) == (lost["off_bus"], "earlier_boot" in lost), "kernel.hardware counts it as lost"


ASKED = "NVRM: Xid (PCI:0000:b9:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"


def acts(text: str) -> tuple[object, object, bool]:
    """How many Xids of the text still call for an action, how many were handled, and whether its order is in doubt."""
    found = metrics_of(text)["kernel.xid"]
    return found["act"], found["handled"], bool(kernel_log_reading.read(text, ReadOptions()).left_out)


def lines_of(*said: tuple[str, str]) -> str:
    return "".join(f"{stamp} {text}\n" for stamp, text in said)


IN_DOUBT = {
    "most stamps go back": lines_of(
        ("Nov 21 00:00:01 n1 kernel:", "Linux version 6.5.0"),
        ("Nov 21 12:00:00 n1 kernel:", ASKED),
        ("Nov 21 11:00:00 n1 kernel:", "usb 1-1: a"),
        ("Nov 21 10:00:00 n1 kernel:", "usb 1-1: b"),
        ("Nov 21 09:00:00 n1 kernel:", "usb 1-1: c"),
    ),
    "some go back": lines_of(
        ("[ 9000.0]", ASKED),
        ("[ 8000.0]", "usb 1-1: a"),
        ("[    0.0]", "Linux version 6.5.0"),
        ("[  100.0]", "usb 1-1: b"),
        ("[  200.0]", "usb 1-1: c"),
    ),
    "two clocks": lines_of(
        ("[ 9000.0]", ASKED),
        ("Nov 21 12:00:00 n1 kernel:", "usb 1-1: a"),
        ("[ 8000.0]", "usb 1-1: b"),
        ("Nov 21 11:00:00 n1 kernel:", "usb 1-1: c"),
        ("[ 7000.0]", "usb 1-1: d"),
        ("Nov 21 10:00:00 n1 kernel:", "Linux version 6.5.0"),
    ),
}


@pytest.mark.parametrize("text", IN_DOUBT.values(), ids=IN_DOUBT)
def test_a_restart_in_a_text_whose_order_is_in_doubt_closes_nothing(text: str) -> None:
    """A majority of stamps decides nothing: the text is read as it stands, the Xid is open."""
    act, handled, _ = acts(text)

    assert ((1,), (0,)) == (act, handled)


def test_an_order_in_doubt_is_said() -> None:
    """Who reads the answer learns why the restart in the text was left out of account."""
    text = lines_of(
        ("Nov 21 12:00:00 n1 kernel:", ASKED),
        ("Nov 21 11:00:00 n1 kernel:", "usb 1-1: a"),
        ("Nov 21 13:00:00 n1 kernel:", "Linux version 6.5.0"),
    )
    (said,) = kernel_log_reading.read(text, ReadOptions()).left_out

    assert ((1,), (0,), True) == acts(text)
    assert "restarts repair no earlier fault" in said


@pytest.mark.parametrize(
    "text",
    [
        START
        + FAULT
        + "Nov 21 14:00:00 n1 kernel: Linux version 6.5.0\nNov 21 14:00:09 n1 kernel: usb 1-1: new\n",
        DAY_BEFORE + f"Nov 20 14:00:00 n1 kernel: {XID}\n" + START,
        f"[ 0.0] Linux version 6.5\n[ 9.0] a\n[ 90.0] {XID}\n[ 0.0] Linux version 6.5\n[ 9.0] b\n[ 99.0] c\n",
        f"[ 9.0] a\n[ 90.0] {XID}\n[ 0.0] microcode: early\n[ 0.0] Linux version 6.5\n[ 9.0] b\n[ 8.9] c\n",
    ],
    ids=["syslog", "cat messages.1 messages", "a serial console", "a start that is not its first line"],
)
def test_a_restart_that_place_and_stamp_confirm_closes_what_came_before(text: str) -> None:
    """Then it is a warning: a restart hides a broken GPU until it is under load again."""
    assert ((0,), (1,), False) == acts(text)
    assert closed_everywhere(text), "a GPU that was lost before the restart is not lost now"


SXID = "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 24 LTSSM Fault Up"


def closed_everywhere(text: str) -> bool:
    """Whether a lost GPU, and a fatal SXid beside it, are faults of an earlier boot for kernel.hardware and kernel.sxid."""
    lines = text.splitlines(keepends=True)
    both = "".join(line + (line.replace(XID, SXID) if XID in line else "") for line in lines)
    found = metrics_of(both)
    lost, switch = found["kernel.hardware"], found["kernel.sxid"]
    return (0, 1, 0, 1) == (lost["off_bus"], lost["earlier_boot"], switch["fatal"], switch["earlier_boot"])


def test_kernel_checks_agree_on_a_restart_in_a_reversed_journal() -> None:
    """`journalctl --reverse` over two boots."""
    text = DAY_BEFORE + f"Nov 20 14:00:00 n1 kernel: {XID}\n" + START

    assert closed_everywhere("".join(reversed(text.splitlines(keepends=True))))
