"""Xids 144 to 150: what NVLink 5 reports, decoded by unit, interrupt and error status (pure).

<unit> <severity> XC<n> i<n> Link <n> (<intrInfo> <errorStatus> <debug>...)

Xid 74: what the bits of its registers say of an NVLink up to the fourth generation (pure).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from checks.facts.provenance import Provenance, shipped_rows
from checks.model import Action
from checks.probes.kernel.xid_catalogue import Need, registers
from checks.value_types import Range, Text

TABLE = Path(__file__).parents[2] / "facts" / "nvlink5.json"
CODES = range(144, 151)
# The status of 149 and 150 is a number. In that of the others each bit is an error.
NUMBERED = (149, 150)
V2_SINCE = 575
Pattern = Annotated[str, Text(r"[-01]{32}", 32)]
Status = Annotated[str, Text(r"0x[0-9A-F]{8}", 10)]
_NVLINK5_LINE = re.compile(
    r"\s*([A-Za-z]\w*)\s+(Nonfatal|Non-fatal|(?:Link )?Fatal)\b[^(]*?Link\s+(-?\d{1,3})\s*"
    r"\((0x[0-9a-fA-F]{1,8})\s+(0x[0-9a-fA-F]{1,8})\b"
)


@dataclass(frozen=True)
class NvlinkRule:
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
class NvlinkLine:
    """The content of the line itself."""

    unit: str
    severity: str
    link: int
    interrupt: int
    status: int


@lru_cache(maxsize=1)
def rules() -> tuple[NvlinkRule, ...]:
    """The rows of the sheet."""
    return shipped_rows(TABLE, "rules", NvlinkRule)


def parse_line(text: str) -> NvlinkLine | None:
    """The content of a line; None if it was cut, or has another form."""
    match = _NVLINK5_LINE.match(text)
    if match is None:
        return None
    return NvlinkLine(match[1], match[2], int(match[3]), int(match[4], 16), int(match[5], 16))


def decoded(code: int, line: NvlinkLine, driver: int | None) -> tuple[NvlinkRule, ...]:
    """The rows that fit; for both versions if the driver is unknown (`driver` is its branch, 570).

    The result is empty if a part of the status is in no row, so that an unlisted part is not hidden by a listed one.
    """
    versions = ["v1", "v2"]
    if driver is not None:
        versions = ["v2"] if driver >= V2_SINCE else ["v1"]
    fits: dict[int, NvlinkRule] = {}
    for version in versions:
        fitting = [rule for rule in rules() if rule.xid == code and _is_of(rule, line, version)]
        exact = [rule for rule in fitting if not rule.status or line.status in _numbers(rule)]
        if not exact and code not in NUMBERED:
            bits = [1 << bit for bit in range(32) if line.status >> bit & 1]
            rules_of_bits = [[rule for rule in fitting if bit in _numbers(rule)] for bit in bits]
            exact = [rule for some in rules_of_bits for rule in some] if all(rules_of_bits) else []
        fits.update((id(rule), rule) for rule in exact)
    return tuple(fits.values())


def _is_of(rule: NvlinkRule, line: NvlinkLine, version: str) -> bool:
    units = [unit.upper() for other in rules() if other.xid == rule.xid for unit in other.units]
    if line.unit.upper() in units and line.unit.upper() not in (unit.upper() for unit in rule.units):
        return False
    care, value = _mask(rule.v1 if version == "v1" else rule.v2)
    return line.interrupt & care == value


@lru_cache(maxsize=512)
def _mask(pattern: str) -> tuple[int, int]:
    care = int(pattern.replace("0", "1").replace("-", "0"), 2)
    return care, int(pattern.replace("-", "0"), 2)


def _numbers(rule: NvlinkRule) -> Iterator[int]:
    return (int(number, 16) for number in rule.status)


CODE = 74
# Xid catalogue: "seen more than 2 times on the same link".
OFTEN = 2
_NVLINK4_LINE = re.compile(r"on link (\d{1,3})\s*\(((?:0x[0-9a-fA-F]{1,8}(?:,\s*)?){1,7})\)")


@dataclass(frozen=True)
class XidLink:
    """The link, and what its set bits mean ("ecc", "link"); "unknown" for a bit that the catalogue does not list."""

    number: int
    means: frozenset[str]
    bits: str


def link_of(text: str) -> XidLink | None:
    """The link and bits that a line names; None if it was cut, or has another form."""
    match = _NVLINK4_LINE.search(text)
    if match is None:
        return None
    values = [int(value, 16) for value in re.findall(r"0x[0-9a-fA-F]+", match[2])]
    if len(values) != 7:
        return None
    meanings = {(entry.register, bit): entry.means for entry in registers() for bit in entry.bits}
    set_bits = [(n, bit) for n, value in enumerate(values, 1) for bit in range(32) if value >> bit & 1]
    means = frozenset(meanings.get(register_bit, "unknown") for register_bit in set_bits)
    return XidLink(int(match[1]), means, ", ".join(f"register {n} bit {bit}" for n, bit in set_bits))


# What a set bit means, the gravest first: what it calls for, and the reason.
ANSWERS: tuple[tuple[str, Need, Action, str], ...] = (
    ("unknown", Need.ACT, Action.CONTACT, "unexpected, report it to NVIDIA"),
    ("unexpected", Need.ACT, Action.CONTACT, "unexpected, report it to NVIDIA"),
    ("link", Need.ACT, Action.INSPECT, "check whether the link is seated, then run diagnostics"),
    ("signal", Need.ACT, Action.INSPECT, "check whether the link is seated, then run diagnostics"),
    ("ecc", Need.ACT, Action.INSPECT, "likely hardware (ECC or parity)"),
    ("repeated", Need.ACT, Action.INSPECT, "report it to NVIDIA if it occurs again"),
    ("fabric", Need.ACT, Action.RESET_GPU, "the fabric must be reset"),
    (
        "sympathetic",
        Need.ACT,
        Action.CONTACT,
        "another fault is expected with it, but was not seen; report it to NVIDIA",
    ),
    ("threshold", Need.SUPPORT, Action.INSPECT, "many corrected errors, but the GPU can still be used"),
)
HARMLESS = ("", Need.SUPPORT, Action.NONE, "the catalogue (for Hopper) says that it can be ignored")


def answer(link: XidLink | None, times: int, company: str) -> tuple[Need, Action, str]:
    """What to do: `times` it was seen on this link, with `company` ("Xid 48", an SXid; "" for none)."""
    if link is None:
        return Need.ACT, Action.INSPECT, "its link and registers cannot be read"
    if not link.means:
        return Need.ACT, Action.INSPECT, f"link {link.number}: no register bit is set"
    meaning, need, action, reason = next((entry for entry in ANSWERS if entry[0] in link.means), HARMLESS)
    if meaning in ("ecc", "repeated") and times > OFTEN:
        action, reason = Action.CONTACT, f"seen {times} times on this link, report it to NVIDIA"
    if meaning == "sympathetic" and company:
        need, action, reason = Need.SUPPORT, Action.NONE, f"follows from {company}"
    return need, action, f"link {link.number}: {link.bits}: {reason}"
