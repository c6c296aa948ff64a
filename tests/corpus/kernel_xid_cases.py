"""The kernel's log: what a line calls for in the light of its registers, of what stands beside it, of what came since, and of
its age.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from checks.check import Check
from checks.facts.withheld_kernel_log import FILE_VARIABLE
from checks.model import Level, Observation
from checks.probes.kernel.hardware import hardware
from checks.probes.kernel.sxid import sxid
from checks.probes.kernel.xid import xid
from tests.corpus.case import Case, Observe, Rows, Sort, context, observed, observing
from tests.corpus.kernel_cases import (
    OFF_BUS,
    SXID_FATAL,
    earlier_boot,
    faulty,
    journal_form,
    long_ago,
    text_of,
    xid_line,
)

WARN = Level.WARN


def _link(register: str) -> str:
    """What 74 says after its code, with this first register."""
    return f", pid=<unknown>, name=<unknown>, NVLink: fatal error detected on link 6({register}{', 0x0' * 6})"


ASKS_FOR_A_RESET = xid_line(154, ", GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
WITHDRAWN = xid_line(154, ", GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")


def _old(check: Check, *messages: str) -> Observe:
    """The check over the log of a machine that has run for two days, with the messages of 30 hours ago, a second apart."""
    old = ((30 * 3600.0 - at, text) for at, text in enumerate(messages))
    observe = text_of(check, partial(long_ago, (48 * 3600.0, "Linux version 6.1.119"), *old))

    def since_two_days(tmp_path: Path) -> Sequence[Observation]:
        def clock(which: int) -> float:
            return 48 * 3600.0 + 30.0

        with mock.patch("time.clock_gettime", clock):
            return observe(tmp_path)

    return since_two_days


@observing
def _replaced(tmp_path: Path, check: Check) -> Rows:
    """The check where a variable of the environment names a file, in which all is well, in place of the node's log."""
    path = tmp_path / "anything"
    path.write_text(journal_form(()), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FILE_VARIABLE, str(path))
        return observed(check, context(check, tmp_path))


CASES = [
    *(
        Case(check.name, Sort.UNMEASURABLE, "another file in place of the log", _replaced(check))
        for check in (xid, sxid, hardware)
    ),
    *(
        Case(check.name, Sort.FAULTY, "before this boot, as a clock that nobody confirms says",
            text_of(check, partial(earlier_boot, message, "usb 1-1: new device")), names=name)
        for check, message, name in (
            (xid, xid_line(79), "0000:ca:00.0"),
            (sxid, SXID_FATAL, "Link 41"),
            (hardware, OFF_BUS, "off_bus"),
        )
    ),
    *(
        Case(check.name, Sort.FAULTY, f"30 hours ago, and nothing since: {message}", _old(check, message), names=name)
        for check, message, name in (
            (xid, xid_line(79), "last seen 30 h before the check"),
            (xid, ASKS_FOR_A_RESET, "GPU Reset Required"),
            (sxid, SXID_FATAL, "older than 24 h"),
            (hardware, OFF_BUS, "older than 24 h"),
            (hardware, "EDAC MC0: 1 UE memory read error on CPU#0 DIMM#0", "older than 24 h"),
            (hardware, "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 9: ac00004000010091", "older than 24 h"),
        )
    ),
    *(
        Case(check.name, Sort.HEALTHY, f"30 hours ago, and nobody's fault today: {messages[0]}", _old(check, *messages))
        for check, messages in (
            (xid, (xid_line(31),)),
            (xid, (xid_line(94, ", Contained: CE User Channel"),)),
            (xid, (ASKS_FOR_A_RESET, WITHDRAWN)),
            (sxid, ("nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 61 egress non-posted PRIV error",)),
            (hardware, ("Out of memory: Killed process 4242 (python) total-vm:8123456kB",)),
            (hardware, ("INFO: task python3:31337 blocked for more than 120 seconds.",)),
            (hardware, ("nfs: server 10.0.4.2 not responding, still trying",)),
        )
    ),
    faulty(xid, "an NVLink fault that its line calls harmless",
        xid_line(145, ", RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000082 0x00000040 0x0)"), names="Decode row 15"),
    faulty(xid, "a link that is not seated", xid_line(74, _link("0x10000")), names="register 1 bit 16"),
    faulty(xid, "a link's bit that may be ignored", xid_line(74, _link("0x1")), level=WARN, names="can be ignored"),
    faulty(xid, "a link that follows an NVSwitch's fault", SXID_FATAL, xid_line(74, _link("0x100000")), level=WARN,
        names="follows from an SXid"),
    faulty(xid, "a GPU that was reset since", "NVRM: GPU at PCI:0000:ca:00: GPU-7d1be7a0-1111-4222-8333-944455566677", xid_line(119),
        "GPU reset executed: GPU-7d1be7a0-1111-4222-8333-944455566677, success: true", level=WARN,
        names="the GPU was reset afterwards"),
    faulty(xid, "a demand of the driver's that was withdrawn", ASKS_FOR_A_RESET, WITHDRAWN, level=WARN,
        names="no longer demands an action"),
    faulty(xid, "a reset that failed", "NVRM: GPU at PCI:0000:ca:00: GPU-7d1be7a0-1111-4222-8333-944455566677", xid_line(119),
        "GPU reset executed: GPU-7d1be7a0-1111-4222-8333-944455566677, success: false", names="reset of the GPU"),
    faulty(xid, "a double bit error and its row", xid_line(48), xid_line(63, ", Row Remapper: New row marked"),
        names="Xid 63 was seen too: drain the GPU"),
]  # fmt: skip
