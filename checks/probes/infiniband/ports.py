"""ib.ports: whether the declared ports of InfiniBand or RoCE are active, at their declared rate.

The module also reads the devices as the kernel shows them under /sys/class/infiniband. Formats: linux
Documentation/ABI/stable/sysfs-class-infiniband and drivers/infiniband/core/sysfs.c.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.check import Basis, Body, Check, CheckError, Context, Measurement, check
from checks.model import MachinePart, Scope, Value
from checks.model_details import Contents
from checks.probes.efa.devices import ACTIVE, AMAZON, INFINIBAND, parse_state
from checks.probes.sysfs import text_of

LINK_UP = 5  # enum ib_port_phys_state, IB_PORT_PHYS_STATE_LINK_UP
# "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)"; a port that is down may say a rate as well.
RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) Gb/sec \(([0-9]+)X\b")
NONE = "none"


def port_check(name: str, metrics: tuple[str, ...], **more: Any) -> Callable[[Body], Check]:
    """Makes a function a check of a node's InfiniBand or RoCE ports, which only reads what the kernel shows of them."""
    usual: dict[str, Any] = {"timeout_s": 20, "needs": "/sys/class/infiniband", "beside_job": True}
    return check(name, Scope.NODE, metrics=metrics, part=MachinePart.INFINIBAND, **usual, **more)


@dataclass(frozen=True)
class Port:
    """One port, "mlx5_0:1". None and "" are what the kernel does not say. `rate_gbit_s` and `width` (lanes) are those of the link."""

    device: str
    number: int
    state: int | None
    phys_state: int | None
    rate_gbit_s: float | None
    width: int | None
    link_layer: str
    board: str
    firmware: str
    mtus: tuple[str, ...]
    folder: Path

    @property
    def name(self) -> str:
        """As NCCL_IB_HCA and NCCL's log spell it."""
        return f"{self.device}:{self.number}"

    def carries(self, rate_gbit_s: float) -> bool:
        """Whether it is active and has at least this rate."""
        up = self.state == ACTIVE and self.phys_state in (LINK_UP, None)
        return up and self.rate_gbit_s is not None and self.rate_gbit_s >= rate_gbit_s


def counted(ports: Sequence[Port], declared: int, rate_gbit_s: float) -> tuple[Port, ...]:
    """The ports of which the declared number consists: those that carry the rate, then those on boards of the same kind, then others.

    A node may have more ports than the training uses, for storage or management: these are not looked at.
    """
    boards = Counter(port.board for port in ports if port.carries(rate_gbit_s))
    usual = boards.most_common(1)[0][0] if boards else ""

    def order(port: Port) -> tuple[object, ...]:
        return (not port.carries(rate_gbit_s), port.board != usual, -(port.rate_gbit_s or 0.0), _order(port))

    return tuple(sorted(sorted(ports, key=order)[:declared], key=_order))


def here() -> tuple[Port, ...]:
    """The ports of every device of this machine but EFA's, in natural order; none if there is no such folder."""
    if not INFINIBAND.is_dir():
        return ()
    devices = [path for path in INFINIBAND.iterdir() if text_of(path / "device/vendor") != AMAZON]
    all_ports = [_port(device, folder) for device in devices for folder in (device / "ports").glob("[0-9]*")]
    return tuple(sorted(all_ports, key=_order))


def declared_ports(context: Context) -> tuple[Port, ...]:
    """The ports that are judged on this node. Raises CheckError if nothing is declared, or there is no port."""
    instance = context.instance
    if instance is None or not instance.ib_ports or instance.ib_rate_gbit_s is None:
        raise CheckError("no port of InfiniBand is declared for this machine ([cluster.machine] ib_ports)")
    ports_here = here()
    if not ports_here:
        raise CheckError(
            f"no device of InfiniBand or RoCE under {INFINIBAND}: pass the host's /sys, and load the driver"
        )
    return counted(ports_here, instance.ib_ports, instance.ib_rate_gbit_s)


def holds(basis: Basis) -> tuple[Contents, ...]:
    """Every declared port."""
    return (Contents("ports", basis.instance.ib_ports if basis.instance else 1, less="ports_missing"),)


@port_check(
    "ib.ports",
    (
        "ports",
        "ports_missing",
        "states",
        "phys_states",
        "rates_gbit_s",
        "widths",
        "link_layer",
        "firmware",
        "mtu",
    ),
    holds=holds,
)
def ports(context: Context) -> Measurement:
    """Reads state, rate, width, firmware and MTU of the declared InfiniBand or RoCE ports.

    `ports` are as many as are declared, those that carry the declared rate first; a node may have more, which are not looked at.
    `ports_missing` is how many are declared and not there. For each of `ports`, `states` has the kernel's number (4: active) and
    `phys_states` that of the physical link (5: up), `rates_gbit_s` and `widths` (lanes) those of its link, null where the kernel shows
    none. `link_layer`, `firmware` (with the board) and `mtu` (of the port's network interfaces) are what these ports have, joined
    where they differ.
    """
    judged = declared_ports(context)
    return measured(judged, context.instance.ib_ports - len(judged) if context.instance else 0)


def measured(judged: Sequence[Port], missing: int) -> Measurement:
    """The metrics of these ports (pure)."""
    metrics: dict[str, Value] = {
        "ports": tuple(port.name for port in judged),
        "ports_missing": missing,
        "states": tuple(port.state for port in judged),
        "phys_states": tuple(port.phys_state for port in judged),
        "rates_gbit_s": tuple(port.rate_gbit_s for port in judged),
        "widths": tuple(port.width for port in judged),
        "link_layer": _joined(port.link_layer for port in judged),
        "firmware": _joined(f"{port.board} {port.firmware}".strip() for port in judged),
        "mtu": _joined(mtu for port in judged for mtu in port.mtus),
    }
    return Measurement(metrics, "\n".join(map(_line, judged)))


def _line(port: Port) -> str:
    return (
        f"{port.name}: state {port.state}, physical state {port.phys_state}, {port.rate_gbit_s} Gbit/s ({port.width} lanes), "
        f"{port.link_layer or 'unknown'}, {port.board or 'unknown board'}, firmware {port.firmware or 'unknown'}"
    )


def _joined(texts: Iterable[str]) -> str:
    return "+".join(sorted({text for text in texts if text})) or NONE


def _order(port: Port) -> tuple[tuple[tuple[int, object], ...], int]:
    pieces = re.split(r"([0-9]+)", port.device)
    return tuple(
        (int(piece.isdigit()), int(piece) if piece.isdigit() else piece) for piece in pieces
    ), port.number


def _port(device: Path, folder: Path) -> Port:
    rate = RATE.match(text_of(folder / "rate"))
    interfaces = sorted((device / "device/net").glob("*/mtu"))
    return Port(
        device.name,
        int(folder.name),
        parse_state(text_of(folder / "state")),
        parse_state(text_of(folder / "phys_state")),
        float(rate[1]) if rate else None,
        int(rate[2]) if rate else None,
        text_of(folder / "link_layer"),
        text_of(device / "board_id") or text_of(device / "hca_type"),
        text_of(device / "fw_ver"),
        tuple(dict.fromkeys(text_of(path) for path in interfaces)),
        folder,
    )
