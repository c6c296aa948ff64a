"""Parses the JSON of `neuron-ls -j` (pure).

It is a list with one object per device; `nc_count` counts logical cores, each of which is `logical_neuroncore_config` physical ones
(absent before Trainium 2: 1). `numa_node` is a string, `connected_to` null on a type with one device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from checks.check import CheckError
from checks.documents.decode import Foreign, decode, parse_json
from checks.value_types import DecodeError, Range

MAX_BYTES = 4 << 20


Count = Annotated[int, Range(0, (1 << 32) - 1)]


@dataclass(frozen=True)
class _Process(Foreign):
    pid: Count


@dataclass(frozen=True)
class NeuronDevice(Foreign):
    """One device, in the words of neuron-ls, and the line of the text that begins it."""

    neuron_device: Count
    nc_count: Count
    bdf: str
    connected_to: tuple[Count, ...] | None
    memory_size: object
    neuron_processes: tuple[_Process, ...]
    neuroncore_ids: tuple[Count, ...] | None = None
    logical_neuroncore_config: Count = 1
    line: int = 0

    @property
    def cores(self) -> int:
        """How many physical cores it has; `nc_count` is what a process sees."""
        return self.nc_count * self.logical_neuroncore_config

    @property
    def connected(self) -> tuple[int, ...]:
        """The devices to which its links lead."""
        return self.connected_to or ()


def parse(text: str) -> tuple[NeuronDevice, ...]:
    """All devices, in the order of their numbers. Raises CheckError."""
    start = text.find("[")
    if start < 0:
        raise CheckError(f"neuron-ls lists no device: {' '.join(text.split())[:200] or 'it printed nothing'}")
    return _checked(tuple(_from_json(text, start)))


def _checked(devices: Sequence[NeuronDevice]) -> tuple[NeuronDevice, ...]:
    """The devices in order. A gap or a link to nowhere shows that one was lost between the tool and here, or before."""
    numbers = [device.neuron_device for device in devices]
    if not numbers:
        raise CheckError("the list of devices is empty")
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise CheckError(f"device {twice} is listed twice")
    buses = [device.bdf for device in devices]
    if len(set(buses)) < len(buses):
        raise CheckError("two devices have one PCI address")
    return tuple(sorted(devices, key=lambda device: device.neuron_device))


def _from_json(text: str, start: int) -> Iterator[NeuronDevice]:
    try:
        records = parse_json(text[start : text.rfind("]") + 1] or text[start:], MAX_BYTES)
        devices = decode(tuple[NeuronDevice, ...], records)
    except DecodeError as error:
        raise CheckError(f"the JSON document is truncated or garbled: {error}") from error
    at = [index for index, line in enumerate(text.splitlines(), 1) if '"neuron_device"' in line]
    lines = at if len(at) == len(devices) else [0] * len(devices)
    for device, line in zip(devices, lines, strict=True):
        if device.neuroncore_ids is not None and len(device.neuroncore_ids) != device.nc_count:
            number, cores = device.neuron_device, device.nc_count
            raise CheckError(f"device {number} does not list the {cores} cores that it counts")
        yield replace(device, line=line)
