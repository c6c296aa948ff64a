"""efa.devices: whether libfabric offers every EFA device, and whether the kernel reports each device's port as active.

The module also reads the EFA devices as the kernel shows them under /sys/class/infiniband: ports, driver, hardware counters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.check import Body, Check, Context, Measurement, check, lists_efa_devices
from checks.model import MachinePart, Scope, Value
from checks.probes.efa import fi_info
from checks.probes.efa.libfabric import provider
from checks.probes.sysfs import text_of
from checks.process import tool

INFINIBAND = Path("/sys/class/infiniband")
AMAZON = "0x1d0f"  # PCI vendor of EFA
ACTIVE = 4  # enum ib_port_state, IB_PORT_ACTIVE
NONE = ("none",)
RETRY_S = 1.0


def efa_check(name: str, metrics: tuple[str, ...], **more: Any) -> Callable[[Body], Check]:
    """Makes a function a check of a node's EFA devices; as a rule its lists have an element for each of them."""
    return check(
        name, Scope.NODE, metrics=metrics, part=MachinePart.EFA, **{"holds": lists_efa_devices, **more}
    )


@dataclass(frozen=True)
class EfaDevice:
    """One device; `port_states` are the kernel's numbers (4 is ACTIVE), None if it says nothing."""

    name: str
    driver: str
    port_states: tuple[int | None, ...]

    @property
    def state(self) -> int | None:
        """Its worst port: one that is unknown before one that is not active; None without a port."""
        if not self.port_states or None in self.port_states:
            return None
        return next((state for state in self.port_states if state != ACTIVE), ACTIVE)


def kernel_devices(root: Path) -> tuple[EfaDevice, ...]:
    """Amazon's devices below `root`; none if there is no such folder."""
    names = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    return tuple(_device(root / name) for name in names if text_of(root / name / "device/vendor") == AMAZON)


def counters(root: Path, device: str) -> dict[str, int]:
    """The device's hardware counters since boot, summed over its ports; what cannot be read is left out."""
    values: dict[str, int] = {}
    for path in sorted((root / device / "ports").glob("*/hw_counters/*")):
        value = text_of(path)
        if value.isdigit():
            values[path.name] = values.get(path.name, 0) + int(value)
    return values


def parse_state(text: str) -> int | None:
    """4 of "4: ACTIVE"."""
    number = text.partition(":")[0].strip()
    return int(number) if number.isdigit() else None


def _device(path: Path) -> EfaDevice:
    states = tuple(parse_state(text_of(port / "state")) for port in sorted((path / "ports").glob("*")))
    return EfaDevice(path.name, text_of(path / "device/driver/module/version") or "unknown", states)


@efa_check(
    "efa.devices",
    (
        "provider",
        "failure",
        "rdm_domains",
        "unlike_devices",
        "devices",
        "port_states",
        "unoffered",
        "driver",
        "waited_s",
    ),
    timeout_s=90,
    needs="fi_info, /sys/class/infiniband",
    beside_job=True,
)
def devices(context: Context) -> Measurement:
    """Counts the EFA devices that libfabric offers, and reads their ports' states.

    `rdm_domains` counts distinct domains (one a device), whatever the generation of libfabric, and the kernel's devices without
    one, so that one device is one finding; `failure` is "ok" or what fi_getinfo's error means. `port_states` has the kernel's
    number (4: active) for each of `devices`, null where it shows none. `unoffered` counts devices of the kernel's that libfabric
    does not offer although their ports are not down, `unlike_devices` those whose endpoints are others than most have. Devices
    may appear minutes after the boot: while fewer are there than the type has, it looks again for `settle_s`; `waited_s` says
    how long.
    """
    name = provider()
    begun = time.monotonic()
    settle_s = min(context.options.get("settle_s", 0.0), context.timeout_s * 0.7)
    expected = (context.instance.efa_devices if context.instance else None) or 1
    while True:
        result = tool.run(("fi_info", "-p", name), context.timeout_s * 0.25)
        waited_s = time.monotonic() - begun
        metrics = measured(result, name, kernel_devices(INFINIBAND))
        usable = int(str(metrics["rdm_domains"])) - int(str(metrics["unoffered"]))
        if usable >= expected or waited_s + RETRY_S > settle_s:
            return Measurement({**metrics, "waited_s": round(waited_s, 1)}, result.account())
        time.sleep(RETRY_S)


def measured(result: tool.ToolResult, name: str, kernel_list: tuple[EfaDevice, ...]) -> dict[str, Value]:
    """The metrics but waited_s, from fi_info's output and what the kernel shows. Raises CheckError."""
    number = fi_info.failure(result.stdout + result.stderr)
    if number is None and (not result.whole or result.code):
        raise tool.ToolError(f"fi_info failed or did not end in time: {result.account()[:500]}")
    endpoints = () if number is not None else fi_info.parse(result.stdout)
    offered = [fi_info.device_of(domain) for domain in fi_info.domains(endpoints, name)]
    states = {device.name: device.state for device in kernel_list}
    names = (*offered, *(device for device in states if device not in offered))
    withheld = [device for device in states if name == "efa" and device not in offered]
    others = sorted({e.provider for e in endpoints if not fi_info.of_provider(e, name)})
    return {
        "provider": "+".join((name, *others)),
        "failure": "ok" if number is None else fi_info.meaning(number, name),
        "rdm_domains": len(offered) + len(withheld),
        "unlike_devices": len(fi_info.unlike(endpoints, name)),
        "devices": names or NONE,
        "port_states": tuple(states.get(device) for device in names) or (None,),
        "unoffered": sum(states[device] in (ACTIVE, None) for device in withheld) if number is None else 0,
        "driver": "+".join(sorted({device.driver for device in kernel_list})) or "none",
    }
