"""A folder like /sys/class/infiniband with adapters of InfiniBand or RoCE, in the formats of linux drivers/infiniband/core/sysfs.c."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# As mlx5_core has them: those of the port, then those of the driver.
COUNTERS: Mapping[str, int] = {
    "excessive_buffer_overrun_errors": 0, "link_downed": 1, "link_error_recovery": 0, "local_link_integrity_errors": 0,
    "port_rcv_data": 81_000_000, "port_rcv_errors": 2, "port_rcv_remote_physical_errors": 0, "port_xmit_data": 80_000_000,
    "port_xmit_discards": 5, "port_xmit_wait": 700, "symbol_error": 3, "unicast_rcv_packets": 900_000,
}  # fmt: skip
HW_COUNTERS: Mapping[str, int] = {"local_ack_timeout_err": 0, "out_of_sequence": 12, "lifespan": 10}


@dataclass(frozen=True)
class Adapter:
    """An adapter with one port. `counters` are added to, or replace, those above; None takes the counter away."""

    name: str
    state: str = "4: ACTIVE"
    phys_state: str = "5: LinkUp"
    rate: str = "400 Gb/sec (4X NDR)"
    link_layer: str = "InfiniBand"
    board: str = "MT_0000000838"
    firmware: str = "28.39.1002"
    vendor: str = "0x15b3"
    mtu: str = "2044"
    counters: Mapping[str, int | str | None] = field(default_factory=dict)


def adapters(count: int = 8) -> list[Adapter]:
    """Healthy ones of NDR."""
    return [Adapter(f"mlx5_{number}") for number in range(count)]


def make_sysfs(root: Path, made: Sequence[Adapter]) -> Path:
    """The folder."""
    root.mkdir(parents=True, exist_ok=True)
    for one in made:
        files: dict[str, str] = {
            "device/vendor": one.vendor, "fw_ver": one.firmware, "board_id": one.board, "hca_type": "MT4129",
            "ports/1/state": one.state, "ports/1/phys_state": one.phys_state, "ports/1/rate": one.rate,
            "ports/1/link_layer": one.link_layer,
        }  # fmt: skip
        if one.mtu:
            files[f"device/net/ib{one.name[-1]}/mtu"] = one.mtu
        for folder, known in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
            for name, value in known.items():
                files[f"ports/1/{folder}/{name}"] = _text(one.counters.get(name, value))
        for name, text in files.items():
            if text:
                (root / one.name / name).parent.mkdir(parents=True, exist_ok=True)
                (root / one.name / name).write_text(text + "\n")
    return root


def _text(value: int | str | None) -> str:
    return "" if value is None else str(value)
