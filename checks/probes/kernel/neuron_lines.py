"""The Neuron driver's reports of hardware errors in a kernel log: which device, and what the driver asks for. Pure."""

from __future__ import annotations

import re

from checks.check import Measurement
from checks.model import Value
from checks.probes.kernel.log import Log
from checks.probes.kernel.log_lines import Event, account, lines_of, matching

NAME = "neuron.ecc"
KINDS = ("SRAM_UNCORRECTABLE_ERROR", "NC_UNCORRECTABLE_ERROR", "HBM_UNCORRECTABLE_ERROR", "DMA_ERROR")
NODE = "the node"
MOST_DEVICES = 1024
# The driver may put its name and a time of its own before it. An error of a kind that is not listed counts as well.
_FORM = r"(?:\S+:? ){0,4}?NEURON_HW_ERR=(?P<kind>[A-Z_]+)\b"
_DEVICE = re.compile(r"\bnd-id=(\d+)\b|\bneuron(\d+):|\bdevice=(\d+)\b")
find = matching((("neuron_hw_err", re.compile(_FORM)),))


def device_of(event: Event) -> int | None:
    """The device that the line names."""
    match = _DEVICE.search(event.text)
    number = next((group for group in match.groups() if group is not None), None) if match else None
    return None if number is None else int(number)


def words_of(event: Event) -> str:
    """The kind of error, and the action that the driver asks for."""
    match = re.match(_FORM, event.text)
    action = re.search(r"\baction=(\S+)", event.text)
    return f"{match['kind'] if match else event.text}{f', {action[1]}' if action else ''}"


def of_log(log: Log) -> Measurement:
    """What a kernel log alone says: the devices that it names."""
    numbers = [number for event in log.this_boot if (number := device_of(event)) is not None]
    size = 1 + max((number for number in numbers if number <= MOST_DEVICES), default=-1)
    places = (*(f"device {number}" for number in range(size)), NODE)
    metrics: dict[str, Value] = {"places": places, "kernel_errors": by_device(log.this_boot, size)}
    return Measurement(metrics, account(log.this_boot), {"kernel_errors": lines_of(log.this_boot)})


def by_device(events: tuple[Event, ...], size: int) -> tuple[str, ...]:
    """The kernel's text about each device. A line about an unknown device, or none, is about the node."""
    texts: list[list[str]] = [[] for _ in range(size + 1)]
    for event in events:
        number = device_of(event)
        text = words_of(event)
        mine = texts[size if number is None or number >= size else number]
        if text not in mine:
            mine.append(text)
    return tuple("; ".join(text) for text in texts)
