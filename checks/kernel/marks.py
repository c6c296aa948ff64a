"""Lines of the kernel's log that are no fault of a GPU, and tell what became of one: a start, a reset, the driver's version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from checks.kernel import sxid
from checks.kernel.events import Event
from checks.kernel.lines import Line, pci_id
from checks.kernel.sxid import Severity

# Every line of the kernel's that is a mark begins with one of these.
BEGINNINGS = (
    "NVRM: loading NVIDIA",
    "NVRM: GPU at PCI",
    "GPU reset executed:",
    "Linux version ",
    "nvidia-nvswitch",
)
_DRIVER = re.compile(r"NVRM: loading NVIDIA UNIX .*?Kernel Module\D*(\d{3,4}\.\d{1,4}[.\d]*)")
_UUID = re.compile(r"NVRM: GPU at PCI:([0-9A-Fa-f:.]+): (GPU-[0-9a-fA-F-]{1,64})")
_RESET = re.compile(r"GPU reset executed: (GPU-[0-9a-fA-F-]{1,64}), success: true\b")
_BRANCH = re.compile(r"\b(\d{3,4})\.\d")


class Mark(str, Enum):
    """The kind of an event that counts nothing."""

    BOOT = "boot"
    RESET = "reset"
    DRIVER = "driver"
    SXID = "sxid"


MARKS = frozenset(mark.value for mark in Mark)


def marks(line: Line, message: str, gpus: dict[str, str]) -> Iterator[Event]:
    """The mark that a message is, if any. `gpus` (name -> PCI address) learns from it."""
    if found := _UUID.match(message):
        gpus[found[2].lower()] = pci_id(found[1])
    elif _DRIVER.match(message):
        yield Event(Mark.DRIVER.value, line, text=message)
    elif message.startswith("Linux version ") and not line.facility:
        yield Event(Mark.BOOT.value, line, text=message)
    elif (found := _RESET.match(message)) and (pci := gpus.get(found[1].lower(), "")):
        yield Event(Mark.RESET.value, line, None, pci, message)
    elif "SXid" in message and any(one.kind != Severity.CORRECTED.value for one in sxid.find([line])):
        yield Event(Mark.SXID.value, line, text=message)


def branch_of(text: str) -> int | None:
    """The driver's branch (570) that a text names, as its own line or /proc/driver/nvidia/version does; None for none."""
    found = _BRANCH.search(text)
    return int(found[1]) if found else None
