"""One node's table, and what each section of it shows, in the metrics of a check. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from checks.facts.instances import Instance
from checks.model import Declared, Skip, Value
from checks.seed_report.shape import Unknown, taken

T = TypeVar("T")
RAW_BYTES = 256 << 10  # sixteen times the output of dcgmi -r 3 for eight GPUs


class Unread(Exception):
    """The report does not contain what the check measures; `skip` is set if the tool could not have measured it."""

    def __init__(self, why: str, evidence: str = "", skip: Skip | None = None) -> None:
        super().__init__(why)
        self.evidence, self.skip = evidence, skip


@dataclass(frozen=True)
class Extracted:
    """What a check would have measured, and the text that it comes from."""

    metrics: Mapping[str, Value]
    evidence: str = ""


def bounded(text: str) -> str:
    """Raw output, if it is not larger than what a tool prints. Raises Unread."""
    if len(text) > RAW_BYTES:
        raise Unread(f"raw_output has {len(text)} characters, more than the {RAW_BYTES} that are read")
    return text


@dataclass(frozen=True)
class DeclaredCluster:
    """The declaration, and the instance table's row for it."""

    declared: Declared
    instance: Instance | None


# Check -> what was read. A section that cannot be read at all raises an exception.
Readings = Mapping[str, Extracted | Unread]


@dataclass(frozen=True)
class NodeTable:
    """nodes.node_N; `unknown` collects the keys that are not known here."""

    name: str
    rank: int
    value: Mapping[str, object]
    unknown: Unknown = field(default_factory=list)

    def section(self, key: str) -> object:
        """The value of the key. Raises Unread if there is none."""
        if self.value.get(key) in (None, {}):
            raise Unread(f"{key} is missing or empty: the tool did not check it, or found nothing")
        return self.value[key]

    def taken(self, kind: type[T], key: str) -> T:
        """The section as `kind`. Raises Unread, DecodeError."""
        return taken(kind, self.section(key), f"nodes.{self.name}.{key}", self.unknown)
