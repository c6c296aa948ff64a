"""Parses the JSON of `neuron-ls -j` (pure).

It is a list with one object per device; `nc_count` counts logical cores, each of which is `logical_neuroncore_config` physical ones
(absent before Trainium 2: 1). `numa_node` is a string, `connected_to` null on a type with one device.

ListingError        the text is truncated, garbled, or lists no device
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.documents.decode import parse_json
from checks.value_types import DecodeError

MAX_BYTES = 4 << 20


class ListingError(Exception):
    """The text gives no answer. The message says where it breaks."""


@dataclass(frozen=True)
class Device:
    """One device. `cores` are physical, `logical_cores` what a process sees; `processes` are pids."""

    index: int
    cores: int
    logical_cores: int
    bdf: str
    connected: tuple[int, ...]
    processes: tuple[int, ...]
    line: int = 0


def parse(text: str) -> tuple[Device, ...]:
    """All devices, in the order of their numbers. Raises ListingError."""
    start = text.find("[")
    if start < 0:
        raise ListingError(
            f"neuron-ls lists no device: {' '.join(text.split())[:200] or 'it printed nothing'}"
        )
    return _checked(tuple(_from_json(text, start)))


def _checked(devices: Sequence[Device]) -> tuple[Device, ...]:
    """The devices in order. A gap or a link to nowhere shows that one was lost between the tool and here, or before."""
    numbers = [device.index for device in devices]
    if not numbers:
        raise ListingError("the list of devices is empty")
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise ListingError(f"device {twice} is listed twice")
    buses = [device.bdf for device in devices]
    if len(set(buses)) < len(buses):
        raise ListingError("two devices have one PCI address")
    return tuple(sorted(devices, key=lambda device: device.index))


def _from_json(text: str, start: int) -> Iterator[Device]:
    try:
        rows = parse_json(text[start : text.rfind("]") + 1] or text[start:], MAX_BYTES)
    except DecodeError as error:
        raise ListingError(f"the JSON document is truncated or garbled: {error}") from error
    if not isinstance(rows, list):
        raise ListingError("the JSON document is not a list of devices")
    at = [index for index, line in enumerate(text.splitlines(), 1) if '"neuron_device"' in line]
    lines = at if len(at) == len(rows) else [0] * len(rows)
    for row, line in zip(rows, lines, strict=True):
        if not isinstance(row, dict):
            raise ListingError("a device is not a JSON object")
        yield _device(row, line)


def _device(row: Mapping[str, object], line: int) -> Device:
    index = _whole(row, "neuron_device")
    logical = _whole(row, "nc_count")
    ids = row.get("neuroncore_ids")
    if ids is not None and (not isinstance(ids, list) or len(ids) != logical):
        raise ListingError(f"device {index} does not list the {logical} cores that it counts")
    each = _whole(row, "logical_neuroncore_config") if "logical_neuroncore_config" in row else 1
    for key in ("bdf", "connected_to", "memory_size", "neuron_processes"):
        if key not in row:
            raise ListingError(f"device {index} has no {key}")
    connected, processes = row["connected_to"], row["neuron_processes"]
    if not isinstance(processes, list) or not isinstance(connected, (list, type(None))):
        raise ListingError(f"device {index} has links or processes in an unknown form")
    return Device(
        index,
        logical * each,
        logical,
        str(row["bdf"]),
        tuple(_count(other, "connected_to") for other in connected or ()),
        tuple(_whole(process, "pid") if isinstance(process, dict) else 0 for process in processes),
        line,
    )


def _whole(row: Mapping[str, object], key: str) -> int:
    return _count(row.get(key), key)


def _count(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        raise ListingError(f"{name} is {value!r:.60}, which is not a number")
    return value
