"""kernel.xid: what a line calls for in the light of its registers, of what stands beside it, and of what came since."""

from __future__ import annotations

from checks.kernel.xid import xid
from checks.model import Level
from tests.corpus.kernel_cases import SXID_FATAL, faulty, xid_line

WARN = Level.WARN


def _link(register: str) -> str:
    """What 74 says after its code, with this first register."""
    return f", pid=<unknown>, name=<unknown>, NVLink: fatal error detected on link 6({register}{', 0x0' * 6})"


CASES = [
    faulty(
        xid,
        "an NVLink fault that its line calls harmless",
        xid_line(145, ", RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000082 0x00000040 0x0)"),
        names="Decode row 15",
    ),
    faulty(xid, "a link that is not seated", xid_line(74, _link("0x10000")), names="register 1 bit 16"),
    faulty(
        xid,
        "a link's bit that may be ignored",
        xid_line(74, _link("0x1")),
        level=WARN,
        names="may be ignored",
    ),
    faulty(
        xid,
        "a link that follows an NVSwitch's fault",
        SXID_FATAL,
        xid_line(74, _link("0x100000")),
        level=WARN,
        names="follows from an SXid",
    ),
    faulty(
        xid,
        "a GPU that was reset since",
        "NVRM: GPU at PCI:0000:ca:00: GPU-7d1be7a0-1111-4222-8333-944455566677",
        xid_line(119),
        "GPU reset executed: GPU-7d1be7a0-1111-4222-8333-944455566677, success: true",
        level=WARN,
        names="the GPU was reset since",
    ),
    faulty(
        xid,
        "a demand of the driver's that was withdrawn",
        xid_line(154, ", GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
        xid_line(154, ", GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"),
        level=WARN,
        names="withdrew its demand",
    ),
    faulty(
        xid,
        "a reset that failed",
        "NVRM: GPU at PCI:0000:ca:00: GPU-7d1be7a0-1111-4222-8333-944455566677",
        xid_line(119),
        "GPU reset executed: GPU-7d1be7a0-1111-4222-8333-944455566677, success: false",
        names="reset of the GPU",
    ),
    faulty(
        xid,
        "a double bit error and its row",
        xid_line(48),
        xid_line(63, ", Row Remapper: New row marked"),
        names="with 63: drain it",
    ),
]
