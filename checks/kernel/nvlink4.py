"""Xid 74: what the bits of its registers say of an NVLink up to the fourth generation (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.kernel.catalogue import Need, registers
from checks.model import Action

CODE = 74
# Xid catalogue: "seen more than 2 times on the same link".
OFTEN = 2
_LINE = re.compile(r"on link (\d{1,3})\s*\(((?:0x[0-9a-fA-F]{1,8}(?:,\s*)?){1,7})\)")


@dataclass(frozen=True)
class Link:
    """The link, and what its set bits mean ("ecc", "link"); "unknown" for a bit that the catalogue does not list."""

    number: int
    means: frozenset[str]
    bits: str


def link_of(text: str) -> Link | None:
    """The link and bits that a line names; None where it was cut, or has another form."""
    found = _LINE.search(text)
    if found is None:
        return None
    values = [int(word, 16) for word in re.findall(r"0x[0-9a-fA-F]+", found[2])]
    if len(values) != 7:
        return None
    known = {(row.register, bit): row.means for row in registers() for bit in row.bits}
    set_bits = [(n, bit) for n, value in enumerate(values, 1) for bit in range(32) if value >> bit & 1]
    means = frozenset(known.get(place, "unknown") for place in set_bits)
    return Link(int(found[1]), means, ", ".join(f"register {n} bit {bit}" for n, bit in set_bits))


def answer(link: Link | None, times: int, company: str) -> tuple[Need, Action, str]:
    """What to do about it: `times` it was seen on this link, with `company` ("Xid 48", an SXid; "" for none)."""
    if link is None:
        return Need.ACT, Action.INSPECT, "its link and registers cannot be read"
    said = f"link {link.number}: "
    if not link.means:
        return Need.ACT, Action.INSPECT, f"{said}no bit says why"
    said += link.bits
    if "unknown" in link.means or "unexpected" in link.means:
        return Need.ACT, Action.CONTACT, f"{said}: not expected, report it"
    if "link" in link.means or "signal" in link.means:
        return Need.ACT, Action.INSPECT, f"{said}: see whether the link is seated, then run diagnostics"
    if link.means & {"ecc", "repeated"}:
        if times > OFTEN:
            return Need.ACT, Action.CONTACT, f"{said}: {times} times on this link, report it"
        kind = "likely hardware (ECC or parity)" if "ecc" in link.means else "report it if it returns"
        return Need.ACT, Action.INSPECT, f"{said}: {kind}"
    if "fabric" in link.means:
        return Need.ACT, Action.RESET_GPU, f"{said}: the fabric must be reset"
    if "sympathetic" in link.means:
        if company:
            return Need.SUPPORT, Action.NONE, f"{said}: follows from {company}"
        return Need.ACT, Action.CONTACT, f"{said}: alone, where another fault is expected; report it"
    if "threshold" in link.means:
        return Need.SUPPORT, Action.INSPECT, f"{said}: many corrected errors; it may go on"
    return Need.SUPPORT, Action.NONE, f"{said}: may be ignored, says the catalogue (of Hopper)"
