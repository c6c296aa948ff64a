"""neuron.devices: the Neuron devices of the node, counted by three sources, with their cores and links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from checks.check import Body, Check, CheckError, Context, Measurement, check, lists_neuron_devices
from checks.model import MachinePart, Scope, Value
from checks.probes.neuron.neuron_ls import NeuronDevice, parse
from checks.process import tool

ROOT = Path("/")
SYSFS = "sys/devices/virtual/neuron_device"
ASK_S = 30.0
# Links of a device to others: the neighbours in a 4 x 4 torus (awsdocs-neuron, neuron-ls --topology).
# Of inf2 types the documentation draws none, so that only the links' other ends are looked at.
LINKS = {"trn1.32xlarge": 4, "trn1n.32xlarge": 4, "trn2.48xlarge": 4}


def neuron_check(name: str, metrics: Iterable[str], **more: Any) -> Callable[[Body], Check]:
    """Makes a function a check of a node's Neuron devices."""
    usual: dict[str, Any] = {"part": MachinePart.NEURON, "holds": lists_neuron_devices}
    return check(name, Scope.NODE, metrics=tuple(metrics), **{**usual, **more})


@neuron_check(
    "neuron.devices",
    ("devices_found", "cores", "links_missing", "links_one_way", "processes"),
    timeout_s=60,
    needs="neuron-ls, /dev",
    beside_job=True,
)
def devices(context: Context) -> Measurement:
    """Counts the Neuron devices in /dev, in sysfs and by neuron-ls; the least of them is what was found.

    An element a device: `cores` (physical), `links_missing` (where the type's topology is known), `links_one_way`
    (links to a device that does not link back), `processes` (that hold the device). Where neuron-ls gives no answer
    these are null if devices are missing in /dev, else it raises CheckError.
    """
    declared = context.instance.neuron_devices if context.instance else 0
    expected = LINKS.get(context.declared.instance_type, 0)
    counts, notes = count_files(ROOT)
    try:
        listing, account = ask()
    except CheckError as error:
        if min(counts.values(), default=declared) >= declared:
            raise
        # Devices are missing in /dev or sysfs, whatever neuron-ls might have said.
        unread: Value = (None,) * max(declared, 1)
        metrics: dict[str, Value] = {
            "devices_found": min(counts.values()),
            **dict.fromkeys(("cores", "links_missing", "links_one_way", "processes"), unread),
        }
        return Measurement(metrics, f"{notes}\n{error}")
    counts["ls"] = len(listing)
    return Measurement(metrics_of(listing, expected, counts), f"{notes}\n{account}")


def ask() -> tuple[tuple[NeuronDevice, ...], str]:
    """The listing that neuron-ls prints, and an account of the run. Raises CheckError, ToolMissing."""
    result = tool.run(("neuron-ls", "-j"), ASK_S)
    if result.code is None:
        raise CheckError(f"neuron-ls did not end within {ASK_S:g} s: {result.account()[:600]}")
    listing = result.parsed(parse)
    if result.code:
        raise CheckError(f"neuron-ls failed: {result.account()[:600]}")
    return listing, result.account()


def count_files(root: Path) -> tuple[dict[str, int], str]:
    """How many devices /dev and sysfs show, of those that can be read, and what they are."""
    counts: dict[str, int] = {}
    notes = []
    for name, folder in (("dev", root / "dev"), ("sysfs", root / SYSFS)):
        try:
            names = sorted(e.name for e in folder.iterdir() if re.fullmatch(r"neuron\d+", e.name))
        except OSError as error:
            notes.append(f"{folder}: {error.strerror}")
            continue
        counts[name] = len(names)
        notes.append(f"{folder}: {' '.join(names) or 'no Neuron device'}")
    return counts, "\n".join(notes)


def metrics_of(
    listed: Sequence[NeuronDevice], expected_links: int, counts: dict[str, int]
) -> dict[str, Value]:
    """The check's metrics; `counts` may be empty, where only the listing is known."""
    one_way = [
        [other for other in device.connected if not _links_back(listed, device, other)] for device in listed
    ]
    metrics: dict[str, Value] = {
        "devices": tuple(f"device {device.neuron_device} ({device.bdf})" for device in listed),
        "devices_found": min([len(listed), *counts.values()]),
        "cores": tuple(device.cores for device in listed),
        "links_missing": tuple(max(expected_links - len(set(device.connected)), 0) for device in listed),
        "links_one_way": tuple(len(others) for others in one_way),
        "processes": tuple(len(device.neuron_processes) for device in listed),
        **{f"devices_{name}": count for name, count in counts.items()},
    }
    return metrics


def _links_back(listed: Sequence[NeuronDevice], device: NeuronDevice, other: int) -> bool:
    """Whether the other end links back; of one that is not listed nobody can tell."""
    return all(device.neuron_device in peer.connected for peer in listed if peer.neuron_device == other)
