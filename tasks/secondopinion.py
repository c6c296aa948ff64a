"""The report of another tool, recognised by its shape: read as ours, with the tool's own word for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checks.decode import DecodeError, parse_json
from checks.facts.table import Facts
from checks.report import REPORT_BYTES
from checks.secondopinion.mark import TABLES, recognised
from tasks.policies import SHIPPED

if TYPE_CHECKING:
    from checks.secondopinion.read import Opinion, OwnVerdict

POLICY = SHIPPED / "seed-report.toml"
SHOWN = 8


@dataclass(frozen=True)
class Stated:
    """What the command line says of a report that does not declare itself; None where it says nothing."""

    instance_type: str | None = None
    nodes: int | None = None

    @property
    def anything(self) -> bool:
        """Whether it says anything at all."""
        return self.instance_type is not None or self.nodes is not None


NOTHING_STATED = Stated()


def opinion_of(data: bytes, facts: Facts, stated: Stated) -> Opinion | None:
    """The report as ours; None for what is no such report. Raises DecodeError for one that declares nothing."""
    if not all(f'"{key}"'.encode() in data for key in TABLES):
        return None
    try:
        value = parse_json(data, REPORT_BYTES)
    except DecodeError:
        return None  # said already, by the reader of our own
    if not recognised(value):
        return None
    from checks.secondopinion.read import (
        read,  # it brings the parsers of every family: for such a report alone
    )

    return read(value, facts, stated.instance_type, stated.nodes)


def headline_name(path: str, own: OwnVerdict) -> str:
    """Such as "health_check_metrics.json, which says PASS"."""
    return f"{Path(path).name}, which says {own.overall or 'nothing of itself'}"


def said(opinion: Opinion) -> tuple[str, ...]:
    """Lines for people: the tool's own word, and what was not judged."""
    by_word: dict[str, list[str]] = {}
    for name, word in opinion.own.nodes.items():
        by_word.setdefault(word or "nothing", []).append(name)
    words = [
        f"{'every node' if len(by_word) == 1 else _listed(names)} {word}" for word, names in by_word.items()
    ]
    lines = ["; ".join((f"what the tool itself says: {opinion.own.overall or 'nothing'}", *words))]
    if opinion.not_judged:
        lines.append(f"not judged: {_listed(list(opinion.not_judged))}")
    return tuple(lines)


def document(opinion: Opinion) -> Mapping[str, object]:
    """What the JSON document has beside the verdict's own keys."""
    own = {"overall": opinion.own.overall, "nodes": dict(opinion.own.nodes)}
    return {"own_verdict": own, "not_judged": list(opinion.not_judged)}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
