"""Certificates: what an earlier gate measured on a machine, and what the machine itself knows of the time since then.

Times named `boot_s` are seconds since the machine's boot (CLOCK_BOOTTIME), which nobody can set; within one boot they can be compared
whatever was done to the machine's clock. The other times are Unix times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, dump_plain
from checks.model import SCHEMA_VERSION
from checks.value_types import Range, Seconds, Text

T = TypeVar("T")
STATE_BYTES, CERTIFICATES_BYTES = 1 << 16, 1 << 26
# The newest gates that a machine remembers. A certificate of a gate that it has forgotten is none.
MOST_GATES = 50

Moment = Annotated[float, Range(0.0, 1e11)]
Sha256 = Annotated[str, Text(r"[0-9a-f]{64}", 64)]
GateName = Annotated[str, Text(r"[A-Za-z0-9_][A-Za-z0-9._-]*", 253)]


@dataclass(frozen=True)
class WatchRecord:
    """Unbroken rounds of a machine's watch, each of which measured everything and found nothing.

    `since_boot_s` is the end of the first round and `until_boot_s` that of the last one, `since` and `until` the same by the machine's
    clock. `rounds` counts them. The next round begins at `due_boot_s` or later. The rounds were judged for this instance type, by this
    policy, these facts (SHA-256) and this engine, every `interval_s`.
    """

    boot_id: str
    instance_type: str
    policy: Sha256
    facts: Sha256
    engine: str
    interval_s: Annotated[float, Range(0.0, 1e6)]
    rounds: Annotated[int, Range(1, 1 << 62)]
    since: Moment
    since_boot_s: Moment
    until: Moment
    until_boot_s: Moment
    due_boot_s: Moment


@dataclass(frozen=True)
class Gates:
    """The gates and node checks that began on this machine, the newest last."""

    schema_version: Version = SCHEMA_VERSION
    gates: tuple[GateName, ...] = ()


@dataclass(frozen=True)
class MachineState:
    """What a machine knows at the start of a gate: the record of its watch (None without one), the gates before this one, and when
    that was read.
    """

    at: Moment
    boot_s: Moment
    record: WatchRecord | None = None
    gates: tuple[GateName, ...] = ()


@dataclass(frozen=True)
class Certificate:
    """The checks that one gate measured on one machine, and in which it found nothing.

    `machine` and `conditions` are the digests of checks.judge.certificates.decision, `report` is the SHA-256 of the gate's report.
    `at` and `boot_s` are when the gate began on the machine; `checks` say how many seconds each check took. `later` are the gates
    since then that have seen the machine and found nothing on it, in any order.
    """

    machine: Sha256
    gate_id: GateName
    report: Sha256
    conditions: Sha256
    at: Moment
    boot_s: Moment
    checks: Mapping[str, Seconds]
    later: tuple[GateName, ...] = ()


@dataclass(frozen=True)
class Certificates:
    """The certificates that a gate offers to its nodes."""

    schema_version: Version = SCHEMA_VERSION
    certificates: tuple[Certificate, ...] = ()


NO_CERTIFICATES = Certificates()


def load(document: type[T], data: bytes | str) -> T:
    """The state that a node's report carries, the record in a watch's file, or the gates in a machine's. Raises DecodeError."""
    return decode(document, parse_json(data, STATE_BYTES))


def load_certificates(data: bytes | str) -> Certificates:
    """What a gate offered. Raises DecodeError."""
    return decode(Certificates, parse_json(data, CERTIFICATES_BYTES))


def dump(value: MachineState | WatchRecord | Gates | Certificates) -> str:
    """Canonical JSON."""
    return dump_plain(value).decode()
