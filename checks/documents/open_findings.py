"""The open findings of one machine: what they are, and the file on the node that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, dump_plain
from checks.model import SCHEMA_VERSION, Action, Cause, Level
from checks.value_types import SPARSE, Range

FILE_BYTES = 16 << 20
# Beyond these the gravest and oldest are kept, and the others are counted. Of texts as long as this all of them fit into the file.
MOST_OPEN = 1000
MOST_CLOSED = 100
TEXT_CHARACTERS, PART_CHARACTERS = 500, 200
# What a node's report carries of them.
MOST_CARRIED, CARRIED_BYTES = 100, 64 << 10

Moment = Annotated[float, Range(0.0, 1e11)]
Number = Annotated[int, Range(0, 1 << 62)]


class Closer(str, Enum):
    """What closed a finding: a gate that measured its check after a remedy, a named person, or a measurement that came back."""

    GATE = "gate"
    PERSON = "person"
    MEASURED = "measured"


@dataclass(frozen=True)
class FindingKey:
    """What makes two findings of one machine the same. `part` is "" for the machine itself, or "GPU 5 (0000:b9:00.0)" or "rank-3"."""

    check: str
    part: str
    metric: str
    cause: Cause

    @property
    def name(self) -> str:
        """The key as one word for command lines: "kernel.xid/act/GPU 5 (0000:b9:00.0)"."""
        return "/".join(filter(None, (self.check, self.metric, self.part))) + (
            "" if self.cause is not Cause.EVIDENCE else "/EVIDENCE"
        )


@dataclass(frozen=True)
class OpenFinding:
    """A finding that nothing has answered yet.

    `message` is the finding's sentence and `remedy` what to do; `is_predicate` as in Finding. `by` is who found it first: "watch", or
    a gate's id. `opened_at` and `seen_at` are Unix times: when it was found first, and last with its level; `since` is the earliest
    time at which it can have happened, 0.0 for what is a state and no event. `boot_id` is the boot in which it was last found. A gate
    has to compare at least `compared_nodes` nodes to find it again; 0 if it was found without others.
    """

    key: FindingKey
    level: Level
    action: Action
    message: str
    remedy: str
    is_predicate: bool
    by: str
    opened_at: Moment
    seen_at: Moment
    since: Moment
    boot_id: str
    compared_nodes: Number = field(default=0, metadata=SPARSE)


@dataclass(frozen=True)
class ClosedFinding:
    """A finding that was answered: when (Unix time), by what, and by which gate or person ("" for a measurement)."""

    finding: OpenFinding
    closed_at: Moment
    closer: Closer
    who: str


@dataclass(frozen=True)
class OpenFindings:
    """All open findings of one machine, the latest closed ones, and how many there have been.

    `omitted` counts open findings that are not listed because of MOST_OPEN. Nothing but a person closes them, since nobody can tell
    which they are.
    """

    schema_version: Version = SCHEMA_VERSION
    open: tuple[OpenFinding, ...] = ()
    closed: tuple[ClosedFinding, ...] = ()
    omitted: Number = 0
    opened_total: Number = 0
    closed_total: Mapping[str, Number] = field(default_factory=dict)


def load(data: bytes | str) -> OpenFindings:
    """The findings in the file. Raises DecodeError."""
    return decode(OpenFindings, parse_json(data, FILE_BYTES))


def dump(findings: OpenFindings) -> bytes:
    """Canonical JSON."""
    return dump_plain(findings)
