"""Xids 144 to 150: what NVLink 5 reports, decoded by unit, interrupt and error status (pure).

<unit> <severity> XC<n> i<n> Link <n> (<intrInfo> <errorStatus> <debug>...)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from checks.decode import Range, Text, decode, parse_json
from checks.facts.provenance import Provenance, resolved

TABLE = Path(__file__).parents[1] / "facts" / "nvlink5.json"
CODES = range(144, 151)
# Of 149 and 150 the status is a number, of the others one bit an error.
NUMBERED = (149, 150)
V2_SINCE = 575
Pattern = Annotated[str, Text(r"[-01]{32}", 32)]
Status = Annotated[str, Text(r"0x[0-9A-F]{8}", 10)]
_LINE = re.compile(
    r"\s*([A-Za-z]\w*)\s+(Nonfatal|Non-fatal|(?:Link )?Fatal)\b[^(]*?Link\s+(-?\d{1,3})\s*"
    r"\((0x[0-9a-fA-F]{1,8})\s+(0x[0-9a-fA-F]{1,8})\b"
)


@dataclass(frozen=True)
class Rule:
    """One row of the sheet. `v1` and `v2` are patterns of intrInfo, before and since R575; no status: any."""

    row: int
    xid: Annotated[int, Range(144, 150)]
    units: tuple[str, ...]
    v1: Pattern
    v2: Pattern
    immediate: str
    investigatory: str
    severity: str
    provenance: Provenance
    status: tuple[Status, ...] = ()


@dataclass(frozen=True)
class _Table:
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Said:
    """What the line itself holds."""

    unit: str
    severity: str
    link: int
    interrupt: int
    status: int


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """The sheet's rows."""
    return decode(_Table, resolved(parse_json(TABLE.read_bytes(), 1 << 20), "rules")).rules


def said(text: str) -> Said | None:
    """What a line holds; None where it was cut, or has another form."""
    found = _LINE.match(text)
    if found is None:
        return None
    return Said(found[1], found[2], int(found[3]), int(found[4], 16), int(found[5], 16))


def decoded(code: int, line: Said, driver: int | None) -> tuple[Rule, ...]:
    """The rows that fit; by both versions for a driver that nobody knows (`driver` is its branch, 570).

    Nothing where a part of the status is in no row: what is not listed must not hide behind what is.
    """
    versions = ("v1", "v2") if driver is None else ("v2",) if driver >= V2_SINCE else ("v1",)
    fits: dict[int, Rule] = {}
    for version in versions:
        rows = [rule for rule in rules() if rule.xid == code and _is_of(rule, line, version)]
        exact = [rule for rule in rows if not rule.status or line.status in _numbers(rule)]
        if not exact and code not in NUMBERED:
            exact = _by_bits(rows, line.status)
        fits.update((id(rule), rule) for rule in exact)
    return tuple(fits.values())


def _by_bits(rows: list[Rule], status: int) -> list[Rule]:
    bits = [1 << place for place in range(32) if status >> place & 1]
    found = [[rule for rule in rows if bit in _numbers(rule)] for bit in bits]
    return [rule for some in found for rule in some] if all(found) else []


def _is_of(rule: Rule, line: Said, version: str) -> bool:
    named = [unit.upper() for other in rules() if other.xid == rule.xid for unit in other.units]
    if line.unit.upper() in named and line.unit.upper() not in (unit.upper() for unit in rule.units):
        return False
    pattern = rule.v1 if version == "v1" else rule.v2
    care, value = _mask(pattern)
    return line.interrupt & care == value


@lru_cache(maxsize=512)
def _mask(pattern: str) -> tuple[int, int]:
    care = int(pattern.replace("0", "1").replace("-", "0"), 2)
    return care, int(pattern.replace("-", "0"), 2)


def _numbers(rule: Rule) -> Iterator[int]:
    return (int(word, 16) for word in rule.status)
