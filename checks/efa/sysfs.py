"""EFA devices as the kernel shows them under /sys/class/infiniband: ports, driver, hardware counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

INFINIBAND = Path("/sys/class/infiniband")
AMAZON = "0x1d0f"  # PCI vendor of EFA
ACTIVE = 4  # enum ib_port_state, IB_PORT_ACTIVE


@dataclass(frozen=True)
class Device:
    """One device; `port_states` are the kernel's numbers (4 is ACTIVE), None where it says nothing."""

    name: str
    driver: str
    port_states: tuple[int | None, ...]

    @property
    def state(self) -> int | None:
        """Its worst port: one that is unknown before one that is not active; None without a port."""
        if not self.port_states or None in self.port_states:
            return None
        return next((state for state in self.port_states if state != ACTIVE), ACTIVE)


def devices(root: Path) -> tuple[Device, ...]:
    """Amazon's devices below `root`; none where there is no such folder."""
    names = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    return tuple(_device(root / name) for name in names if _read(root / name / "device/vendor") == AMAZON)


def counters(root: Path, device: str) -> dict[str, int]:
    """The device's hardware counters since boot, summed over its ports; what cannot be read is left out."""
    found: dict[str, int] = {}
    for path in sorted((root / device / "ports").glob("*/hw_counters/*")):
        value = _read(path)
        if value.isdigit():
            found[path.name] = found.get(path.name, 0) + int(value)
    return found


def all_counters(root: Path) -> dict[str, Mapping[str, int]]:
    """The hardware counters of every EFA device."""
    return {device.name: counters(root, device.name) for device in devices(root)}


def parse_state(text: str) -> int | None:
    """4 of "4: ACTIVE"."""
    number = text.partition(":")[0].strip()
    return int(number) if number.isdigit() else None


def _device(path: Path) -> Device:
    states = tuple(parse_state(_read(port / "state")) for port in sorted((path / "ports").glob("*")))
    return Device(path.name, _read(path / "device/driver/module/version") or "unknown", states)


def _read(path: Path) -> str:
    """The file's text, or "": an unreadable file is an unknown value, never a zero."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
