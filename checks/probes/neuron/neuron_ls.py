"""Parses what `neuron-ls` lists, JSON (-j) or the table, into a Listing (pure).

JSON is a list with one object per device; `nc_count` counts logical cores, each of which is `logical_neuroncore_config`
physical ones (absent before Trainium 2: 1). `numa_node` is a string, `connected_to` null on a type with one device.
The table's header has two rows; a row whose first cell is empty holds another process of the device above.

ListingError        the text is truncated, garbled, or contradicts itself
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from checks.documents.decode import parse_json
from checks.value_types import DecodeError

MAX_BYTES = 4 << 20
_RULE = re.compile(r"^\s*\+(?:-+\+)+\s*$")
_ROW = re.compile(r"^\s*\|(.*)\|\s*$")
_LOGICAL = re.compile(r"^\s*logical-neuroncore-config:\s*(\d+)\s*$", re.MULTILINE)
_NONE = ("", "NA", "N/A")


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


@dataclass(frozen=True)
class Listing:
    """All devices, in the order of their numbers."""

    devices: tuple[Device, ...]
    form: str


def parse(text: str) -> Listing:
    """The listing. Raises ListingError."""
    start = text.find("[")
    table = re.search(r"^\s*\|\s*NEURON\s*\|", text, re.MULTILINE)
    if start >= 0 and table is None:
        devices, form = tuple(_from_json(text, start)), "JSON"
    elif table is not None:
        devices, form = tuple(_from_table(text)), "text"
    else:
        raise ListingError(
            f"neuron-ls lists no device: {' '.join(text.split())[:200] or 'it printed nothing'}"
        )
    return Listing(_checked(devices), form)


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


def _from_table(text: str) -> Iterator[Device]:
    lines = text.splitlines()
    first = next(index for index, line in enumerate(lines) if _ROW.match(line) and "NEURON" in line)
    if first + 1 >= len(lines) or not _ROW.match(lines[first + 1]):
        raise ListingError("the table's header is truncated")
    titles = [
        " ".join(" ".join(pair).split())
        for pair in zip(_cells(lines[first]), _cells(lines[first + 1]), strict=False)
    ]
    if "NEURON DEVICE" not in titles or "NEURON CORES" not in titles or "PCI BDF" not in titles:
        raise ListingError(f"the table has unknown columns: {', '.join(titles)}")
    found = _LOGICAL.search(text)
    each = int(found[1]) if found and "LOGICAL NC" not in titles else 1
    current: Device | None = None
    ended = False
    for index in range(first + 2, len(lines)):
        if _RULE.match(lines[index]):
            ended = True
            continue
        if not _ROW.match(lines[index]):
            break
        ended = False
        cells = dict(zip(titles, _cells(lines[index]), strict=False))
        if len(_cells(lines[index])) != len(titles):
            raise ListingError(f"line {index + 1} has {len(_cells(lines[index]))} cells of {len(titles)}")
        if cells["NEURON DEVICE"]:
            if current is not None:
                yield current
            current = _row(cells, each, index + 1)
        elif current is None:
            raise ListingError(f"line {index + 1} continues a device that is not there")
        else:
            current = _with_process(current, cells)
    if not ended:
        raise ListingError("the table's last line is missing")
    if current is not None:
        yield current


def _cells(line: str) -> list[str]:
    row = _ROW.match(line)
    return [cell.strip() for cell in row[1].split("|")] if row else []


def _row(cells: Mapping[str, str], each: int, line: int) -> Device:
    cores = _count(cells["NEURON CORES"], "NEURON CORES")
    logical = _count(cells["LOGICAL NC"], "LOGICAL NC") if "LOGICAL NC" in cells else cores
    links = cells.get("CONNECTED DEVICES", "")
    connected = tuple(
        _count(part.strip(), "CONNECTED DEVICES") for part in links.split(",") if part.strip() not in _NONE
    )
    index = _count(cells["NEURON DEVICE"], "NEURON DEVICE")
    made = Device(index, cores * each, logical, cells["PCI BDF"], connected, (), line)
    return _with_process(made, cells)


def _with_process(device: Device, cells: Mapping[str, str]) -> Device:
    said = cells.get("PID", "")
    more = () if said in _NONE else (_count(said, "PID"),)
    return Device(
        device.index,
        device.cores,
        device.logical_cores,
        device.bdf,
        device.connected,
        (*device.processes, *more),
        device.line,
    )


def _whole(row: Mapping[str, object], key: str) -> int:
    return _count(row.get(key), key)


def _count(value: object, name: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 32:
        raise ListingError(f"{name} is {value!r:.60}, which is not a number")
    return value
