"""The lines that the Neuron driver leaves in the kernel's log when hardware fails (pure).

Their form, from awsdocs-neuron (nrt-troubleshoot): NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id=i-... hostname=...
nd-id=0 nc-id=0 serial-num=... action=TERMINATE_INSTANCE. EKS's node monitoring agent condemns a node for the four kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from checks.kernel.events import Event, Pattern, matching
from checks.kernel.lines import Line

KINDS = ("SRAM_UNCORRECTABLE_ERROR", "NC_UNCORRECTABLE_ERROR", "HBM_UNCORRECTABLE_ERROR", "DMA_ERROR")
# The driver may prefix its name and a time of its own; an error of a kind that is not listed counts as well.
_FORM = r"(?:\S+:? ){0,4}?NEURON_HW_ERR=(?P<kind>[A-Z_]+)\b"
_DEVICE = re.compile(r"\bnd-id=(\d+)\b|\bneuron(\d+):|\bdevice=(\d+)\b")
_find = matching((Pattern("neuron_hw_err", re.compile(_FORM)),))


def find(lines: Iterable[Line]) -> Iterator[Event]:
    """The hardware errors among the kernel's lines."""
    return _find(lines)


def device_of(event: Event) -> int | None:
    """The device that the line names."""
    found = _DEVICE.search(event.text)
    number = next((group for group in found.groups() if group is not None), None) if found else None
    return None if number is None else int(number)


def words_of(event: Event) -> str:
    """The kind, and what the driver asks for."""
    kind = re.match(_FORM, event.text)
    action = re.search(r"\baction=(\S+)", event.text)
    return f"{kind['kind'] if kind else event.text}{f', {action[1]}' if action else ''}"
