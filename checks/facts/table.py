"""Facts about instance types, each row with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checks.decode import decode, parse_json
from checks.report import digest


@dataclass(frozen=True)
class Instance:
    """What an instance type is sold with. `efa_devices` is None where the source does not say."""

    gpus: int
    gpu: str
    source: str
    efa_devices: int | None = None
    neuron_devices: int = 0


@dataclass(frozen=True)
class Facts:
    """Everything a verdict may know of the world, and the digest of the text that it was read from."""

    instances: Mapping[str, Instance]
    digest: str


@dataclass(frozen=True)
class _File:
    instances: Mapping[str, Instance]


def load(data: bytes) -> Facts:
    """Facts from JSON text. Raises DecodeError."""
    return Facts(decode(_File, parse_json(data, 1 << 24)).instances, digest(data))
