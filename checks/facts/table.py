"""Facts about instance types and GPU models, each row with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from checks.decode import Range, decode, parse_json
from checks.model import Declared, Part, Skip
from checks.report import digest

Count = Annotated[int, Range(0, 1_000_000)]
NONE = b'{"not_applicable": []}'


@dataclass(frozen=True)
class Instance:
    """What an instance type is sold with; None where the source does not say. Counts are of one node.

    `nvlinks` and `pcie_*` are of one GPU, `gpu_memory_mib` as NVML prints it, within 3 %.
    """

    gpus: int
    gpu: str
    source: str
    efa_devices: int | None = None
    neuron_devices: int = 0
    vcpus: Count | None = None
    memory_gib: Count | None = None
    gpu_memory_mib: Count | None = None
    nvlinks: Count | None = None
    pcie_generation: Count | None = None
    pcie_width: Count | None = None
    network_gbit_s: Count | None = None
    neuron_cores_per_device: Count | None = None


@dataclass(frozen=True)
class NotApplicable:
    """A metric that a GPU model does not have, so that its absence is no gap in the evidence.

    `model` is the first words of the name that the instance table gives ("A10G", "H100"); `check` and `metric` as in the catalogue.
    """

    model: str
    check: str
    metric: str
    source: str


@dataclass(frozen=True)
class Facts:
    """Everything a verdict may know of the world, and the digest of the text that it was read from."""

    instances: Mapping[str, Instance]
    digest: str
    not_applicable: tuple[NotApplicable, ...] = ()

    def absent(self, instance_type: str, check: str) -> frozenset[str]:
        """The check's metrics that the type's GPU model does not have."""
        known = self.instances.get(instance_type)
        model = known.gpu if known else ""
        rows = (row for row in self.not_applicable if row.check == check)
        return frozenset(row.metric for row in rows if is_of_model(model, row.model))


def is_of_model(name: str, model: str) -> bool:
    """Whether the table's name is of the model: "A100-SXM4-40GB" is an A100, and an "L40S" is no L4."""
    return name.startswith(model) and not name[len(model) : len(model) + 1].isalnum()


@dataclass(frozen=True)
class _Instances:
    instances: Mapping[str, Instance]


@dataclass(frozen=True)
class _NotApplicable:
    not_applicable: tuple[NotApplicable, ...]


def lacks(part: Part, declared: Declared, instance: Instance | None) -> Skip | None:
    """Why a check of the part does not apply to what is declared; None if it does, or nobody knows."""
    gpus = declared.gpus_per_node > 0
    efa, neuron, nvlinks = (
        (instance.efa_devices, instance.neuron_devices, instance.nvlinks) if instance else (None, None, None)
    )
    reasons: dict[Part, Skip | None] = {
        Part.ANY: None,
        Part.GPU: None if gpus else Skip.NO_GPU_DECLARED,
        Part.NO_GPU: Skip.GPU_DECLARED if gpus else None,
        Part.NVLINK: Skip.NO_NVLINK_ON_TYPE if nvlinks == 0 else None,
        Part.EFA: Skip.NO_EFA_ON_TYPE if efa == 0 else None,
        Part.NEURON: Skip.NO_NEURON_ON_TYPE if neuron == 0 else None,
    }
    if part is Part.NVLINK and not gpus:
        return Skip.NO_GPU_DECLARED
    return reasons[part]


def load(data: bytes, not_applicable: bytes = NONE) -> Facts:
    """Facts from JSON texts. Raises DecodeError."""
    rows = decode(_NotApplicable, parse_json(not_applicable, 1 << 24)).not_applicable
    return Facts(decode(_Instances, parse_json(data, 1 << 24)).instances, digest(data + not_applicable), rows)
