"""All built-in facts that apply to an instance type: each number with its source, conditions, date and kind (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from checks import facts as folder
from checks.documents.decode import parse_json
from checks.facts.durations import Devices, builtin_durations, devices_of
from checks.facts.failures import builtin_failures
from checks.facts.gpu_models import RooflinePart, of_model
from checks.facts.instances import Facts, Instance, is_of_model
from checks.facts.prices import builtin_prices
from checks.facts.provenance import KEYS, TABLE, Kind, Provenance, every_row
from checks.facts.rooflines import bus_gbps

FOLDER = Path(folder.__path__[0])
# Tables of what messages mean; they apply to every type with a GPU.
CODES = ("xid", "sxid", "nvlink5", "xid_overlays", "dcgm")
_UNITS = {
    "memory_gib": "GiB",
    "gpu_memory_mib": "MiB",
    "network_gbit_s": "Gbit/s",
    "network_burst_gbit_s": "Gbit/s",
}
_BUS = Provenance(
    "the parts' rates: a GPU and a node must each receive the sum once (2 (n - 1) / n of it without NVLS)",
    "all_reduce over all GPUs, as nccl-tests counts bus bandwidth; a bound, not an expectation",
    "2026-11",
    Kind.DERIVED,
)


@dataclass(frozen=True)
class InstanceFact:
    """One fact: a number, or a text where a code has a meaning. `section` is what people read it under."""

    section: str
    name: str
    value: float | str
    unit: str
    provenance: Provenance


def instance_facts(name: str, facts: Facts) -> tuple[InstanceFact, ...]:
    """All of an instance type that is in the table. Codes and their meanings come last."""
    instance = facts.instances[name]
    part = facts.expected.parts.find(instance.gpu) if instance.gpus else None
    return (
        *_instance(instance, facts),
        *(_part(instance, part) if part else ()),
        *_expected(name, instance, facts),
        *_prices(name),
        *_durations(devices_of(instance, instance.gpus)),
        *_lacking(instance, facts),
        *_failures(),
        *(_codes() if instance.gpus else ()),
    )


def _instance(instance: Instance, facts: Facts) -> Iterator[InstanceFact]:
    for column in (field.name for field in fields(Instance)):
        value = getattr(instance, column)
        if column not in ("provenance", "columns") and value not in (None, ""):
            yield InstanceFact(
                "the type", column, value, _UNITS.get(column, ""), facts.origin(instance, column)
            )


def _part(instance: Instance, part: RooflinePart) -> Iterator[InstanceFact]:
    section = f"the most that a {part.model} can do"
    for precision, tflops in part.tflops.items():
        yield InstanceFact(section, precision, tflops, "TFLOP/s", part.provenance)
    for column in ("memory_gbps", "pcie_gbps", "nvlink_gbps"):
        value = getattr(part, column)
        if value is not None:
            yield InstanceFact(section, column, value, "GB/s", part.provenance)
    for nodes in (1, 2):
        most = bus_gbps(instance, part, nodes) if instance.gpus * nodes > 1 else None
        if most is not None:
            said = "1 node" if nodes == 1 else "2 nodes"
            yield InstanceFact(section, f"all_reduce bus bandwidth, {said}", round(most, 2), "GB/s", _BUS)


def _expected(name: str, instance: Instance, facts: Facts) -> Iterator[InstanceFact]:
    tables, section = facts.expected, "measured bandwidth of such machines"
    for curve in tables.collectives:
        if name in curve.types:
            label = f"{curve.collective}, nodes {curve.nodes}, ranks {curve.ranks}, {curve.transport}"
            for size_bytes, gbps in curve.points:
                yield InstanceFact(
                    section, f"{label}, {size_bytes:,.0f} bytes", gbps, "GB/s", curve.provenance
                )
            yield from _low(section, label, curve.low_fraction, curve.provenance)
    if not instance.gpus:
        return
    for gemm in tables.gemm:
        if gemm.model == of_model(instance.gpu, [row.model for row in tables.gemm]):
            label = f"sustained product, {gemm.precision}"
            yield InstanceFact(section, label, gemm.tflops, "TFLOP/s", gemm.provenance)
            yield from _low(section, label, gemm.low_fraction, gemm.provenance)
    for memory in tables.memory:
        if memory.model == of_model(instance.gpu, [row.model for row in tables.memory]):
            label = f"GPU memory, {memory.test}"
            yield InstanceFact(section, label, memory.gbps, "GB/s", memory.provenance)
            yield from _low(section, label, memory.low_fraction, memory.provenance)
    for move in tables.transfer:
        if move.model == of_model(instance.gpu, [row.model for row in tables.transfer]):
            label = f"transfer, {move.way}"
            yield InstanceFact(section, label, move.gbps, "GB/s", move.provenance)
            yield from _low(section, label, move.low_fraction, move.provenance)


def _low(section: str, label: str, fraction: float, provenance: Provenance) -> Iterator[InstanceFact]:
    if fraction != 1:
        yield InstanceFact(section, f"{label}: the low end is this part of it", fraction, "", provenance)


def _prices(name: str) -> Iterator[InstanceFact]:
    for price in builtin_prices():
        if price.instance_type == name:
            label = f"{price.purchase.value}, on demand, {price.region}"
            yield InstanceFact(
                "prices", label, price.usd_per_node_hour, "USD per node and hour", price.provenance
            )


def _durations(devices: Devices) -> Iterator[InstanceFact]:
    for row in builtin_durations():
        if row.devices is devices:
            label = f"checks of profile {row.profile.value}{', at least' if row.is_least else ''}"
            yield InstanceFact("how long checks take", label, row.seconds, "s", row.provenance)


def _lacking(instance: Instance, facts: Facts) -> Iterator[InstanceFact]:
    for row in facts.not_applicable:
        if is_of_model(instance.gpu, row.model):
            yield InstanceFact(f"not available on {row.model}", row.check, row.metric, "", row.provenance)


def _failures() -> Iterator[InstanceFact]:
    table, section = builtin_failures(), "failure statistics, of any type"
    for system, rate in table.rates.items():
        yield InstanceFact(
            section, f"failures, {system}", rate.per_1000_node_days, "per 1,000 node-days", rate.provenance
        )
    for cause, row in table.causes.items():
        yield InstanceFact(
            section, f"interruptions by {cause} ({row.fault.value})", row.count, "", row.provenance
        )
    for start, share in table.defective.items():
        label = f"nodes that {start or 'any check'} finds defective"
        yield InstanceFact(section, label, share.share_of_nodes, "", share.provenance)
    for name, spread in table.ranges.items():
        yield InstanceFact(section, f"{name}, least", spread.low, "", spread.provenance)
        yield InstanceFact(section, f"{name}, most", spread.high, "", spread.provenance)


def _codes() -> Iterator[InstanceFact]:
    for file in CODES:
        document = parse_json((FOLDER / f"{file}.json").read_bytes(), 1 << 24)
        plain = document if isinstance(document, dict) else {}
        for path, provenance in every_row(plain):
            table, _, key = path.partition(".")
            rows = plain[table]
            row = rows[int(key)] if isinstance(rows, list) else rows[key]
            shown = {name: value for name, value in row.items() if name not in (*KEYS, TABLE)}
            label = f"{file}.{table}" if isinstance(rows, list) else f"{file}.{table}.{key}"
            text = ", ".join(f"{name} {_short(value)}" for name, value in shown.items())
            yield InstanceFact("codes and their meanings", label, text, "", provenance)


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
