"""Facts about instance types and GPU models, each row with its source."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated

from checks.documents.decode import decode, parse_json
from checks.documents.nearest import nearest
from checks.documents.report import digest
from checks.facts.driver_fields import DriverTable
from checks.facts.expected_tables import ExpectedTables
from checks.facts.provenance import TABLE, NumberKind, Provenance, entries, resolved, rows_of
from checks.model import Declared, MachinePart, Skip
from checks.value_types import DecodeError, Range

Count = Annotated[int, Range(0, 1_000_000)]
DECLARED = Provenance("the gate file ([cluster.machine])", "as declared", "undated", NumberKind.DOCUMENTED)
NONE = b'{"not_applicable": []}'


@dataclass(frozen=True)
class Instance:
    """The hardware that an instance type is sold with; None if the source does not say. Counts are of one node.

    `nvlinks` and `pcie_*` are of one GPU, `gpu_memory_mib` is as NVML prints it, within 3 %. `network_burst_gbit_s` is what a type
    has for a limited time ("up to"): an upper limit, with which no node is compared. `provenance` is that of the row; `columns`
    names, for the columns from other sources, their entry in the file's table.
    """

    gpus: int
    gpu: str
    provenance: Provenance
    efa_devices: int | None = None
    neuron_devices: int = 0
    vcpus: Count | None = None
    memory_gib: Count | None = None
    gpu_memory_mib: Count | None = None
    nvlinks: Count | None = None
    pcie_generation: Count | None = None
    pcie_width: Count | None = None
    network_gbit_s: Count | None = None
    network_burst_gbit_s: Annotated[float, Range(0, 1e6)] | None = None
    neuron_cores_per_device: Count | None = None
    ib_ports: Count = 0
    ib_rate_gbit_s: Count | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NotApplicable:
    """A metric that a GPU model does not have, so that its absence is not missing evidence.

    `model` is the first words of the name in the instance table ("A10G", "H100"); `check` and `metric` are as in the catalogue.
    """

    model: str
    check: str
    metric: str
    provenance: Provenance


@dataclass(frozen=True)
class Facts:
    """All facts that a verdict may use, and the digest of the text from which they were read.

    `provenances` are the provenances that the instances' `columns` name; `expected` are the values that machines are known to reach,
    `drivers` says which driver first had each field of a GPU.
    """

    instances: Mapping[str, Instance]
    digest: str
    not_applicable: tuple[NotApplicable, ...] = ()
    provenances: Mapping[str, Provenance] = field(default_factory=dict)
    expected: ExpectedTables = field(default_factory=ExpectedTables)
    drivers: DriverTable = field(default_factory=DriverTable)

    def origin(self, instance: Instance, column: str) -> Provenance:
        """The provenance of the row's value in this column."""
        name = instance.columns.get(column)
        return self.provenances[name] if name else instance.provenance

    def merged(self, declared: Declared) -> Facts:
        """The returned facts have the declared machine as the row of its type. A description replaces nothing that the table has of a
        type.
        """
        machine = declared.machine
        if machine is None or declared.instance_type in self.instances:
            return self
        values = {column.name: getattr(machine, column.name) for column in fields(machine)}
        own = Instance(declared.gpus_per_node, provenance=DECLARED, **values)
        return replace(self, instances={**self.instances, declared.instance_type: own})

    def are_for(self, types: Collection[str], declared: Declared) -> bool:
        """Whether rules for these types hold for the declared machines: for an own type they do if they hold for one with its GPU."""
        own = self.merged(declared).instances.get(declared.instance_type)
        if own is None or own.provenance != DECLARED or declared.instance_type in types:
            return declared.instance_type in types
        machines = [
            machine
            for name, machine in self.instances.items()
            if name in types and not machine.neuron_devices
        ]
        return any(machine.gpu == own.gpu for machine in machines)

    def absent(self, instance_type: str, check: str) -> frozenset[str]:
        """The check's metrics that the type's GPU model does not have."""
        instance = self.instances.get(instance_type)
        model = instance.gpu if instance else ""
        absences = (entry for entry in self.not_applicable if entry.check == check)
        return frozenset(entry.metric for entry in absences if is_of_model(model, entry.model))


def is_of_model(name: str, model: str) -> bool:
    """Whether the name in the table is of the model: "A100-SXM4-40GB" is an A100, and an "L40S" is not an L4."""
    return name.startswith(model) and not name[len(model) : len(model) + 1].isalnum()


def unknown_type(name: str, types: Sequence[str]) -> tuple[str, str | None]:
    """What to say of an instance type that is none of these, without a full stop, and the nearest of them."""
    near = next((entry for entry in types if name and entry.startswith(name)), nearest(name, types))
    problem, hint = f"{name!r:.64} is not a known instance type.", f"`prelaunch facts` lists all {len(types)}"
    if near:
        return f"{problem} {hint}", near
    families = dict.fromkeys(f"{entry.partition('.')[0]}.*" if "." in entry else entry for entry in types)
    own = "A machine of your own is described in [cluster.machine] of a gate file, which `prelaunch init --machine` writes; "
    own += "`prelaunch node machine GATE_FILE` makes of it a file that --instance-type takes"
    return f"{problem} Known are {', '.join(families)}; {hint}. {own}", None


def types_text(types: Sequence[str], declared: str) -> str:
    """The instance types of a policy for people, those most like the declared one first: "p5.48xlarge, p5.4xlarge and 58 more"."""
    alike = difflib.get_close_matches(declared, types, n=3, cutoff=0.6)
    nearest_types = sorted(types, key=lambda entry: alike.index(entry) if entry in alike else len(alike))[:5]
    more = len(types) - len(nearest_types)
    return ", ".join(nearest_types) + (f" and {more} more" if more else "")


def not_for(types: Sequence[str], declared: str) -> str:
    """What is wrong with a policy for these types: "is not for instance type cpu, but for p5.48xlarge"."""
    return f"is not for instance type {declared}, but for {types_text(types, declared)}"


@dataclass(frozen=True)
class _Instances:
    instances: Mapping[str, Instance]
    columns: Mapping[str, str] = field(default_factory=dict)


def lacks(hardware: MachinePart, declared: Declared, instance: Instance | None) -> Skip | None:
    """Why a check of the part does not apply to the declaration; None if it applies, or that is unknown."""
    gpus = declared.gpus_per_node > 0
    counts = vars(instance) if instance else {}
    reasons: dict[MachinePart, Skip | None] = {
        MachinePart.ANY: None,
        MachinePart.GPU: None if gpus else Skip.NO_GPU_DECLARED,
        MachinePart.NO_GPU: Skip.GPU_DECLARED if gpus else None,
        MachinePart.NVLINK: Skip.NO_NVLINK_ON_TYPE if counts.get("nvlinks") == 0 else None,
        MachinePart.EFA: Skip.NO_EFA_ON_TYPE if counts.get("efa_devices") == 0 else None,
        MachinePart.NEURON: Skip.NO_NEURON_ON_TYPE if counts.get("neuron_devices") == 0 else None,
        MachinePart.INFINIBAND: Skip.NO_INFINIBAND_ON_TYPE if counts.get("ib_ports") == 0 else None,
    }
    return Skip.NO_GPU_DECLARED if hardware is MachinePart.NVLINK and not gpus else reasons[hardware]


def load(data: bytes, not_applicable: bytes = NONE) -> Facts:
    """Facts from JSON texts. Raises DecodeError."""
    document = parse_json(data, 1 << 24)
    file = decode(_Instances, resolved(document, "instances"))
    provenances = entries(document.get(TABLE, {}) if isinstance(document, Mapping) else {})
    instances = {
        name: replace(instance, columns={**file.columns, **instance.columns})
        for name, instance in file.instances.items()
    }
    for name, instance in instances.items():
        _require_columns(instance, provenances, f"instances.{name}.columns")
    absences = rows_of(parse_json(not_applicable, 1 << 24), "not_applicable", NotApplicable)
    return Facts(instances, digest(data + not_applicable), absences, provenances)


def _require_columns(instance: Instance, provenances: Mapping[str, Provenance], path: str) -> None:
    column_names = {column.name for column in fields(Instance)}
    for column, name in instance.columns.items():
        if column not in column_names:
            raise DecodeError("unknown column", f"{path}.{column}", nearest(column, sorted(column_names)))
        if name not in provenances:
            raise DecodeError(
                f"{name!r:.80} is not in the file's own table", f"{path}.{column}", nearest(name, provenances)
            )
