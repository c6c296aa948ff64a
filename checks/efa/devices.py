"""efa.devices: does libfabric offer every EFA device, and does the kernel hold its port active?"""

from __future__ import annotations

import time

from checks import tool
from checks.check import Context, Measurement, Skipped, check
from checks.efa import fi_info, sysfs
from checks.efa.fabric import provider
from checks.model import Part, Scope, Skip, Value

NONE = ("none",)
RETRY_S = 1.0


@check(
    "efa.devices",
    Scope.NODE,
    timeout_s=90,
    metrics=(
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
    needs="fi_info, /sys/class/infiniband",
    part=Part.EFA,
)
def devices(context: Context) -> Measurement | Skipped:
    """Counts the EFA devices that libfabric offers, and reads their ports' states.

    `rdm_domains` counts distinct domains (one a device), whatever the generation of libfabric; `failure` is "ok" or
    what fi_getinfo's error means. `port_states` has the kernel's number (4: active) for each of `devices`, null where
    it shows none. `unoffered` counts devices of the kernel's that libfabric does not offer, `unlike_devices` those
    whose endpoints are others than most have. Devices may appear minutes after the boot: while fewer are there than the
    type has, it looks again for `settle_s`; `waited_s` says how long.
    """
    name = provider()
    begun = time.monotonic()
    settle_s = min(context.options.get("settle_s", 0.0), context.timeout_s * 0.7)
    expected = (context.instance.efa_devices if context.instance else None) or 1
    while True:
        try:
            said = tool.run(("fi_info", "-p", name), context.timeout_s * 0.25)
        except tool.ToolMissing as error:
            return Skipped(Skip.TOOL_MISSING, str(error))
        waited_s = time.monotonic() - begun
        metrics = measured(said, name, sysfs.devices(sysfs.INFINIBAND))
        found = metrics["rdm_domains"]
        if not isinstance(found, int) or found >= expected or waited_s + RETRY_S > settle_s:
            return Measurement({**metrics, "waited_s": round(waited_s, 1)}, said.account())
        time.sleep(RETRY_S)


def measured(said: tool.Said, name: str, seen: tuple[sysfs.Device, ...]) -> dict[str, Value]:
    """The metrics but waited_s, from fi_info's output and what the kernel shows. Raises CheckError."""
    number = fi_info.failure(said.stdout + said.stderr)
    if number is None and (not said.whole or said.code):
        raise tool.ToolError(f"fi_info did not end as it should: {said.account()[:500]}")
    endpoints = () if number is not None else fi_info.parse(said.stdout)
    offered = [fi_info.device_of(domain) for domain in fi_info.domains(endpoints, name)]
    states = {device.name: device.state for device in seen}
    names = (*offered, *(device for device in states if device not in offered))
    others = sorted({e.provider for e in endpoints if not fi_info.of_provider(e, name)})
    return {
        "provider": "+".join((name, *others)),
        "failure": "ok" if number is None else fi_info.meaning(number, name),
        "rdm_domains": len(offered),
        "unlike_devices": len(fi_info.unlike(endpoints, name)),
        "devices": names or NONE,
        "port_states": tuple(states.get(device) for device in names) or (None,),
        "unoffered": sum(device not in offered for device in states) if name == "efa" else 0,
        "driver": "+".join(sorted({device.driver for device in seen})) or "none",
    }
