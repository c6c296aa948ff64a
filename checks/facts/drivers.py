"""Which NVIDIA driver first had each field that is read of a GPU, through NVML and in nvidia-smi's document.

A driver's version is compared as a tuple of whole numbers: 550.163.01 is older than 565.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from checks.decode import DecodeError, decode, parse_json
from checks.facts.provenance import Provenance, resolved

PATH = Path(__file__).with_name("drivers.json")
VERSION = re.compile(r"[1-9]\d{0,4}(?:\.\d{1,4}){0,3}")
Version = tuple[int, ...]


class Reader(str, Enum):
    """Who read the field of the driver."""

    NVML = "nvml"
    NVIDIA_SMI = "nvidia_smi"


@dataclass(frozen=True)
class Field:
    """A field of a GPU's record, the metric of the same name in `checks`, and the first driver that has it.

    `read_by` names the calls, fields or elements.
    """

    field: str
    driver: str
    read_by: str
    provenance: Provenance
    checks: tuple[str, ...] = ()

    @property
    def version(self) -> Version:
        """The driver's version, to be compared."""
        return require_version(self.driver)


@dataclass(frozen=True)
class DriverTable:
    """Every field that is read, by who reads it."""

    nvml: tuple[Field, ...] = ()
    nvidia_smi: tuple[Field, ...] = ()

    def unknown_to(self, driver: Version | None, check: str, reader: Reader) -> Mapping[str, Field]:
        """The check's metrics that came with a later driver; none where the driver is not known.

        Neither is there any for a driver below every row: of its generation nothing is known.
        """
        rows: tuple[Field, ...] = getattr(self, reader.value)
        if driver is None or driver < min((row.version for row in rows), default=()):
            return {}
        return {row.field: row for row in rows if check in row.checks and driver < row.version}


def version_of(text: object) -> Version | None:
    """ "550.163.01" -> (550, 163, 1); None for what is no version."""
    if not isinstance(text, str) or not VERSION.fullmatch(text):
        return None
    return tuple(map(int, text.split(".")))


def require_version(text: str) -> Version:
    """The version. Raises DecodeError."""
    found = version_of(text)
    if found is None:
        raise DecodeError(f"{text!r:.40} is no version of a driver, as 570 or 550.163.01")
    return found


@lru_cache(maxsize=1)
def builtin() -> DriverTable:
    """The table of this version. Raises DecodeError."""
    tables = resolved(parse_json(PATH.read_bytes(), 1 << 20), *(reader.value for reader in Reader))
    made = decode(DriverTable, tables)
    for row in (*made.nvml, *made.nvidia_smi):
        require_version(row.driver)
    return made
