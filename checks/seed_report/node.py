"""One node's table, and what a section of it shows in the metrics of a check (pure).

Unread              it does not show what the check measures: nobody can tell
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from checks.facts.instances import Instance
from checks.model import Declared, Skip, Value
from checks.seed_report.shape import Unknown, taken

T = TypeVar("T")
RAW_BYTES = 256 << 10  # sixteen times what dcgmi -r 3 prints of eight GPUs


class Unread(Exception):
    """What the check would have measured is not in the report; `skip` is set where the tool could not have measured it."""

    def __init__(self, why: str, evidence: str = "", skip: Skip | None = None) -> None:
        super().__init__(why)
        self.evidence, self.skip = evidence, skip


@dataclass(frozen=True)
class Shown:
    """What a check would have measured, and the text that it rests on."""

    metrics: Mapping[str, Value]
    evidence: str = ""


def bounded(text: str) -> str:
    """Raw output, if it is of a size that a tool prints. Raises Unread."""
    if len(text) > RAW_BYTES:
        raise Unread(f"raw_output has {len(text)} characters, more than the {RAW_BYTES} that are read")
    return text


@dataclass(frozen=True)
class Asked:
    """What is declared, and the instance table's row of it."""

    declared: Declared
    instance: Instance | None


# Check -> what was read of it. A section that cannot be read at all raises.
Readings = Mapping[str, Shown | Unread]


@dataclass(frozen=True)
class NodeTable:
    """nodes.node_N; `unknown` gathers what nobody here knows."""

    name: str
    rank: int
    value: Mapping[str, object]
    unknown: Unknown = field(default_factory=list)

    def section(self, key: str) -> object:
        """What stands at the key. Raises Unread if nothing does."""
        if self.value.get(key) in (None, {}):
            raise Unread(
                f"{key} is missing or empty: the tool did not look, or found nothing and does not say so"
            )
        return self.value[key]

    def taken(self, kind: type[T], key: str) -> T:
        """The section as `kind`. Raises Unread, DecodeError."""
        return taken(kind, self.section(key), f"nodes.{self.name}.{key}", self.unknown)
