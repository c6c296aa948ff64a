"""Parses samples of neuron-monitor into the devices' ECC counters (pure).

There is one JSON object per period. Each group has its own "error", which is not empty if nothing was measured. Whether a counter
counts since the driver was loaded or within the period depends on the version, so a 0 proves nothing about earlier
errors: neuron.ecc reads sysfs instead, and this module is for `prelaunch explain` alone.

MonitorError        the text is truncated, garbled, or was not measured
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from checks.documents.decode import parse_json
from checks.value_types import DecodeError

MAX_BYTES = 16 << 20
GROUP = "neuron_hw_counters"
COUNTERS = ("mem_ecc_uncorrected", "sram_ecc_uncorrected", "mem_ecc_corrected", "sram_ecc_corrected")


class MonitorError(Exception):
    """The text gives no answer. The message says where it breaks."""


@dataclass(frozen=True)
class Samples:
    """The greatest value of each counter over all samples, one element per device."""

    count: int
    devices: tuple[int, ...]
    counters: Mapping[str, tuple[int, ...]]


def parse(text: str) -> Samples:
    """The samples. Raises MonitorError."""
    documents = list(_documents(text))
    if not documents:
        raise MonitorError("the text has no sample")
    greatest: dict[int, dict[str, int]] = {}
    for document in documents:
        rows = dict(_rows(document))
        if greatest and set(rows) != set(greatest):
            raise MonitorError("the samples list different devices")
        for device, counters in rows.items():
            known = greatest.setdefault(device, counters)
            greatest[device] = {name: max(known[name], counters[name]) for name in COUNTERS}
    devices = tuple(sorted(greatest))
    return Samples(
        len(documents), devices, {name: tuple(greatest[d][name] for d in devices) for name in COUNTERS}
    )


def _documents(text: str) -> Iterator[Mapping[str, object]]:
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            end = decoder.raw_decode(text, at)[1]
            made = parse_json(text[at:end], MAX_BYTES)
        except (ValueError, RecursionError, DecodeError) as error:
            raise MonitorError(f"a sample is truncated or garbled: {error}") from error
        if isinstance(made, dict):
            yield made
        at = text.find("{", end)


def _rows(document: Mapping[str, object]) -> Iterator[tuple[int, dict[str, int]]]:
    system = document.get("system_data")
    group = system.get(GROUP) if isinstance(system, dict) else None
    if not isinstance(group, dict):
        raise MonitorError(f"a sample has no {GROUP}")
    if group.get("error") != "":
        raise MonitorError(f"{GROUP} was not measured: {group.get('error', 'no reason given')}")
    rows = group.get("neuron_devices")
    if not isinstance(rows, list) or not rows:
        raise MonitorError(f"{GROUP} lists no device")
    info = document.get("neuron_hardware_info")
    there = info.get("neuron_device_count") if isinstance(info, dict) else None
    if isinstance(there, int) and there != len(rows):
        raise MonitorError(f"{GROUP} lists {len(rows)} of {there} devices")
    for row in rows:
        if not isinstance(row, dict):
            raise MonitorError("a device is not a JSON object")
        yield _whole(row, "neuron_device_index"), {name: _whole(row, name) for name in COUNTERS}


def _whole(row: Mapping[str, object], key: str) -> int:
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MonitorError(f"{key} is {value!r:.40}, which is not a count")
    return value
