"""Reads what `neuron-ls -j` printed."""

from __future__ import annotations

from checks.explain.reading import CheckData, OutputKind, Reading, ReadOptions
from checks.explain.unread_lines import lines_of_json
from checks.probes.neuron.devices import LINKS, metrics_of
from checks.probes.neuron.neuron_ls import NeuronDevice, parse


def detect(text: str) -> bool:
    """Whether neuron-ls printed it."""
    return '"neuron_device"' in text and '"neuron_device_index"' not in text


def read(text: str, options: ReadOptions) -> Reading:
    """The reading. Raises CheckError."""
    devices = parse(text)
    expected = LINKS.get(options.declared.instance_type, 0) if options.declared else 0
    title = f"neuron-ls: {len(devices)} devices, {sum(device.cores for device in devices)} cores"
    raw = text.splitlines()
    lines = "\n".join(f"{device.line}: {raw[device.line - 1].strip()}" for device in devices if device.line)
    metrics = metrics_of(devices, expected, {})
    explained = CheckData(
        "neuron.devices", metrics, {name: lines for name in metrics if name != "devices"}, ""
    )
    return Reading(OutputKind.NEURON_LS, title, (explained,), _gaps(devices), understood=lines_of_json(text))


def _gaps(devices: tuple[NeuronDevice, ...]) -> tuple[str, ...]:
    """A device whose number is left out may be lost on the node or in the file: nobody can tell."""
    numbers = {device.neuron_device for device in devices}
    connected = {other for device in devices for other in device.connected}
    gone = sorted((set(range(max(numbers) + 1)) | connected) - numbers)
    return (f"not listed: device {', '.join(map(str, gone))}",) if gone else ()
