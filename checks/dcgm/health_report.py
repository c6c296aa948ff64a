"""What `dcgmi health` prints: the watches that are set (-f), and what they saw (-c), as JSON or as a table (pure).

Shapes, from dcgmi/Health.cpp and DcgmiOutput.cpp: JSON is {"header": [...], "body": {"GPU": {"children": {"3": {...
"Errors": {"children": {"NVLINK system": {"value": "Failure", "overflow": [message, broken at 54 characters]}}}}}}}};
the table is the same tree, each level set in by three characters. Only entities with incidents are in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checks.dcgm.diag_json import document
from checks.dcgm.diagnosis import DiagnosisError

TITLE = "Health Monitor Report"
OVERALL = "Overall Health"
HEALTHY, WARNING, FAILURE = "Healthy", "Warning", "Failure"
WORDS = (HEALTHY, WARNING, FAILURE)
_ROW = re.compile(r"^\s*\|(?P<left>.{26,27})\|(?P<right>.*?)\|?\s*$")
_RULE = re.compile(r"^\s*\+[-=]+\+[-=]+\+\s*$")


@dataclass(frozen=True)
class Incident:
    """One system of one entity that is not well. `value` is Warning or Failure."""

    group: str
    entity: int
    system: str
    value: str
    message: str
    line: int = 0


@dataclass(frozen=True)
class Health:
    """The report; `broken` says where it was cut, "" if it is whole."""

    overall: str
    incidents: tuple[Incident, ...]
    form: str
    broken: str = ""


@dataclass
class _Node:
    """A node of the tree: its value, the lines under it, and its children."""

    value: str = ""
    overflow: list[str] = field(default_factory=list)
    children: dict[str, _Node] = field(default_factory=dict)
    line: int = 0


def watches(text: str) -> dict[str, bool]:
    """Which systems are watched, from `dcgmi health -f -j`. Raises DiagnosisError."""
    body = document(text).get("body")
    if not isinstance(body, dict) or not body:
        raise DiagnosisError(f"dcgmi health -f lists no system: {text[:200]!r}")
    made: dict[str, bool] = {}
    for name, said in body.items():
        value = said.get("value") if isinstance(said, dict) else None
        if value not in ("On", "Off"):
            raise DiagnosisError(f"the watch of {name} is neither On nor Off: {value!r}")
        made[name] = value == "On"
    return made


def parse(text: str) -> Health:
    """The report. Raises DiagnosisError for output that is none, or contradicts itself."""
    if "{" in text:
        whole = document(text)
        body = whole.get("body")
        if not isinstance(body, dict) or TITLE not in str(whole.get("header")):
            raise DiagnosisError(f"no {TITLE!r} in it: {text[:200]!r}")
        made = _health({name: _from_json(value) for name, value in body.items()}, "JSON", "")
        return _with_lines(made, text)
    if TITLE not in text:
        raise DiagnosisError(f"no {TITLE!r} in it: {' '.join(text.split())[:200]!r}")
    tree, broken = _from_table(text.splitlines())
    return _health(tree, "text", broken)


def _from_json(value: object) -> _Node:
    if not isinstance(value, dict):
        raise DiagnosisError(f"{value!r:.80} is no part of a health report")
    children = value.get("children", {})
    overflow = value.get("overflow", [])
    if not isinstance(children, dict) or not isinstance(overflow, list):
        raise DiagnosisError("a part of the health report has another shape")
    made = {name: _from_json(child) for name, child in children.items()}
    return _Node(str(value.get("value", "")), [str(_text(part)) for part in overflow], made)


def _text(part: object) -> object:
    return part.get("value", part) if isinstance(part, dict) else part


def _from_table(lines: Sequence[str]) -> tuple[dict[str, _Node], str]:
    start = next(index for index, line in enumerate(lines) if TITLE in line)
    root = _Node()
    path = [root]
    for index in range(start + 1, len(lines)):
        if _RULE.match(lines[index]):
            if "=" in lines[index]:
                continue
            more = next((at for at in range(index, len(lines)) if _ROW.match(lines[at])), None)
            return root.children, "" if more is None else f"line {more + 1} is a row after its end"
        row = _ROW.match(lines[index])
        if row is None:
            return root.children, f"line {index + 1} is no row of the table"
        left, value = row["left"][1:].rstrip(), row["right"].strip()
        if not left:
            path[-1].overflow.append(value)
            continue
        level = (len(left) - len(left.lstrip(" ->"))) // 3
        if level >= len(path):
            raise DiagnosisError(f"line {index + 1} is set in under a row that is not there")
        node = _Node(value, line=index + 1)
        path[level].children[left.lstrip(" ->")] = node
        path = [*path[: level + 1], node]
    return root.children, "its last line is missing"


def _health(tree: Mapping[str, _Node], form: str, broken: str) -> Health:
    overall = tree[OVERALL].value if OVERALL in tree else ""
    incidents = tuple(_incidents(tree))
    for value in (overall, *(incident.value for incident in incidents)):
        if value not in WORDS:
            raise DiagnosisError(f"{value!r} is none of {', '.join(WORDS)}")
    worst = max((WORDS.index(incident.value) for incident in incidents), default=0)
    if worst != WORDS.index(overall) and not broken:
        raise DiagnosisError(f"the overall health is {overall}, its parts say {WORDS[worst]}")
    return Health(overall, incidents, form, broken)


def _incidents(tree: Mapping[str, _Node]) -> Iterator[Incident]:
    for group, node in tree.items():
        if group == OVERALL:
            continue
        for entity, found in node.children.items():
            if not entity.isdigit():
                raise DiagnosisError(f"{group} {entity!r} is no number of an entity")
            errors = found.children.get("Errors", _Node()).children
            for system, said in errors.items():
                message = " ".join(" ".join(said.overflow).split()) or "no message"
                yield Incident(group, int(entity), system, said.value, message, said.line)
            if found.value != HEALTHY and not errors:
                yield Incident(group, int(entity), "", found.value, "no system is named", found.line)


def _with_lines(health: Health, text: str) -> Health:
    lines = text.splitlines()
    made = []
    for incident in health.incidents:
        words = incident.message[:40]
        line = next((index for index, said in enumerate(lines, 1) if words in said), 0)
        made.append(
            Incident(incident.group, incident.entity, incident.system, incident.value, incident.message, line)
        )
    return Health(health.overall, tuple(made), health.form, health.broken)
