"""Arrays of sound rows that leave something out: shorter than their labels, or without a declared GPU (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from checks.columns import Rows
from checks.model import Cause, Declared, Finding, Level, Planned, Scope
from checks.policy import RELATIVE, CheckPolicy

GPUS = "gpus"  # the array that labels what a check says of each GPU
FAMILIES = ("gpu.", "dcgm.")
REMEDY = "Run the gate again; if it stays, look at this node's log."


def judge(planned: Planned, rows: Rows, declared: Declared, line: CheckPolicy) -> Iterator[Finding]:
    """A finding, cause EVIDENCE, for each row of which something was not measured."""
    return chain(_about_lengths(rows, line), _about_gpus(planned, rows, declared, line))


def _about_lengths(rows: Rows, line: CheckPolicy) -> Iterator[Finding]:
    """Arrays that are not as long as the one that says what their elements are: something was not measured."""
    level = Level.FAIL if line.required else Level.WARN
    for metric, names in _labelled(line):
        columns = rows.column(metric), rows.column(names)
        whole = all(set(map(type, column)) == {tuple} for column in columns)
        if whole and [*map(len, columns[0])] == [*map(len, columns[1])]:  # type: ignore[arg-type]
            continue
        for place, (values, labels) in enumerate(zip(*columns, strict=True)):
            if type(values) is tuple and type(labels) is tuple and len(values) != len(labels):
                said = f"not measured: {metric} has {len(values)} values for {len(labels)} {names}"
                yield _missing(rows, place, said, level)


def _labelled(line: CheckPolicy) -> list[tuple[str, str]]:
    """Metric and labels. What is compared place by place has no labels of its own: those of the check are its, if one."""
    found = {(rule.metric, name) for rule in line.rules for name in (rule.each, rule.at) if name}
    labels = {name for _, name in found}
    if len(labels) == 1:
        bare = (rule for rule in line.rules if rule.over in RELATIVE and not (rule.each or rule.at))
        found |= {(rule.metric, label) for rule in bare for label in labels}
    return sorted(found)


def _about_gpus(planned: Planned, rows: Rows, declared: Declared, line: CheckPolicy) -> Iterator[Finding]:
    """Lists of a node's GPUs that leave declared ones out, and are shorter throughout: these were not looked at."""
    listed = planned.check.startswith(FAMILIES) and any(rule.each == GPUS for rule in line.rules)
    if planned.scope is not Scope.NODE or not listed:
        return
    level, wanted = Level.FAIL if line.required else Level.WARN, declared.gpus_per_node
    counted: dict[object, int] = {}
    for place, labels in enumerate(rows.column(GPUS)):
        if labels not in counted:  # thousands of nodes list alike
            names = map(str, labels if isinstance(labels, tuple) else ())
            counted[labels] = len({name for name in names if name.startswith("GPU ")})
        if counted[labels] < wanted:
            yield _missing(rows, place, f"not measured: it lists {counted[labels]} of {wanted} GPUs", level)


def _missing(rows: Rows, place: int, said: str, level: Level) -> Finding:
    return Finding(level, Cause.EVIDENCE, rows.check, rows.columns.subjects[place], said, "", REMEDY)
