"""Reads what neuron-ls printed, as JSON or as a table, and the samples of neuron-monitor."""

from __future__ import annotations

import re

from checks.explain.reading import Broken, Kind, NotRecognised, Part, Reading, ReadOptions
from checks.explain.unread_lines import lines_matching, lines_of_json
from checks.model import Value
from checks.probes.neuron import neuron_monitor
from checks.probes.neuron.devices import LINKS, metrics_of
from checks.probes.neuron.neuron_ls import Listing, ListingError, parse
from checks.probes.neuron.neuron_monitor import MonitorError

KIND = Kind.NEURON_LS
_MONITOR = f'"{neuron_monitor.GROUP}"'
# The table's lines, and what neuron-ls prints above it.
_OF_TABLE = re.compile(r"[|+].*[|+]$|(?:instance-(?:type|id)|logical-neuroncore-config): \S+$")
_TABLE = re.compile(r"^\s*\|\s*NEURON\s*\|\s*NEURON\s*\|", re.MULTILINE)


def detect(text: str) -> bool:
    """Whether neuron-ls or neuron-monitor printed it."""
    if _MONITOR in text:
        return True
    return ('"neuron_device"' in text and '"neuron_device_index"' not in text) or bool(_TABLE.search(text))


def read(text: str, asked: ReadOptions) -> Reading:
    """The reading. Raises NotRecognised, Broken."""
    if not detect(text):
        raise NotRecognised("this is not the output of neuron-ls or neuron-monitor")
    if _MONITOR in text:
        return _samples(text, asked)
    try:
        listing = parse(text)
    except ListingError as error:
        raise Broken(str(error)) from error
    expected = LINKS.get(asked.declared.instance_type, 0) if asked.declared else 0
    cores = sum(device.cores for device in listing.devices)
    title = f"neuron-ls, {listing.form}: {len(listing.devices)} devices, {cores} cores"
    lines = _lines(text.splitlines(), listing)
    metrics = metrics_of(listing, expected, {})
    part = Part("neuron.devices", metrics, {name: lines for name in metrics if name != "devices"}, "")
    understood = lines_of_json(text) if listing.form == "JSON" else lines_matching(text, _OF_TABLE)
    return Reading(KIND, title, (part,), _gaps(listing), understood=understood)


def _samples(text: str, asked: ReadOptions) -> Reading:
    try:
        found = neuron_monitor.parse(text)
    except MonitorError as error:
        raise Broken(str(error)) from error
    instance = asked.instance
    size = max(instance.neuron_devices if instance else 0, max(found.devices) + 1)
    by_device = {
        name: dict(zip(found.devices, found.counters[name], strict=True))
        for name in ("mem_ecc_uncorrected", "sram_ecc_uncorrected")
    }
    metrics: dict[str, Value] = {
        "devices": tuple(f"device {number}" for number in range(size)),
        **{name: tuple(counts.get(n) for n in range(size)) for name, counts in by_device.items()},
    }
    lines = {name: _with(text, f'"{name}"') for name in by_device}
    title = f"neuron-monitor, samples: {found.count}, devices: {len(found.devices)}; nothing is known from before them"
    return Reading(KIND, title, (Part("neuron.ecc", metrics, lines, ""),), understood=lines_of_json(text))


def _with(text: str, words: str) -> str:
    found = [f"{n}: {line.strip()[:300]}" for n, line in enumerate(text.splitlines(), 1) if words in line]
    return "\n".join(found[:40])


def _lines(text: list[str], listing: Listing) -> str:
    return "\n".join(f"{d.line}: {text[d.line - 1].strip()}" for d in listing.devices if d.line)


def _gaps(listing: Listing) -> tuple[str, ...]:
    """A device whose number is left out may be lost on the node or in the file: nobody can tell."""
    numbers = {device.index for device in listing.devices}
    named = {other for device in listing.devices for other in device.connected}
    gone = sorted((set(range(max(numbers) + 1)) | named) - numbers)
    return (f"not listed: device {', '.join(map(str, gone))}",) if gone else ()
