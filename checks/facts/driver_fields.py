"""Which NVIDIA driver first had each field that is read of a GPU, through NVML and in nvidia-smi's document.

A driver's version is compared as a tuple of whole numbers: 550.163.01 is older than 565.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from checks.documents.decode import decode, parse_json
from checks.facts.provenance import Provenance, resolved, table_bytes
from checks.value_types import Version, require_version

PATH = Path(__file__).with_name("drivers.json")


class FieldReader(str, Enum):
    """What reads a field from the driver."""

    NVML = "nvml"
    NVIDIA_SMI = "nvidia_smi"


@dataclass(frozen=True)
class Field:
    """A field of a GPU's record, the metric with the same name in `checks`, and the first driver that has it.

    `read_by` names the calls, fields or elements.
    """

    field: str
    driver: str
    read_by: str
    provenance: Provenance
    checks: tuple[str, ...] = ()

    @property
    def version(self) -> Version:
        """The driver's version in a form that can be compared."""
        return require_version(self.driver)


@dataclass(frozen=True)
class DriverTable:
    """Every field that is read, by its reader."""

    nvml: tuple[Field, ...] = ()
    nvidia_smi: tuple[Field, ...] = ()

    def unknown_to(self, driver: Version | None, check: str, reader: FieldReader) -> Mapping[str, Field]:
        """The check's metrics that came with a later driver; none if the driver is unknown, or is older than every row."""
        entries: tuple[Field, ...] = getattr(self, reader.value)
        if driver is None or driver < min((entry.version for entry in entries), default=()):
            return {}
        return {entry.field: entry for entry in entries if check in entry.checks and driver < entry.version}


@lru_cache(maxsize=1)
def builtin() -> DriverTable:
    """The table of this version. Raises DecodeError."""
    tables = resolved(parse_json(table_bytes(PATH), 1 << 20), *(reader.value for reader in FieldReader))
    table = decode(DriverTable, tables)
    for entry in (*table.nvml, *table.nvidia_smi):
        require_version(entry.driver)
    return table
