"""What the rows of sound observations list and cover. Pure.

`judge_lists` finds arrays that are shorter than their labels or leave out declared GPUs. `coverage` counts what was observed.
`is_whole`, `with_holes` and `unfit` say of whole columns whether anything is missing, or cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import lt
from typing import Any

from checks import model
from checks.documents.columns import CheckTable
from checks.facts.plausibility import COUNTED, range_of
from checks.judge.not_measured import not_measured
from checks.model_details import Contents, Unmeasured
from checks.policy import RELATIVE, CheckPolicy, Over
from checks.value_types import Range

FAILURES, FINE = "failures", frozenset(("ok", "", None))
PEERS = ("network.", "efa.")  # the checks that have an outcome for each peer
NO_NUMBERS = frozenset((str, bool, type(None)))
GPUS = "gpus"  # the array with the labels of the GPUs
NO_GPUS = frozenset(("no GPU", "the node", "a GPU that NVML does not name"))  # labels in it that are no GPU
NOUNS = {GPUS: "GPUs"}  # for people
MOST_NAMED = 8
FAMILIES = ("gpu.", "dcgm.")
LIST_REMEDY = "Run the gate again. If the finding returns, read this node's log."


def judge_lists(
    planned: model.Planned, records: CheckTable, declared: model.Declared, line: CheckPolicy
) -> Iterator[model.Finding]:
    """A finding, cause EVIDENCE, for each row in which something was not measured."""
    level = model.Level.FAIL if line.required else model.Level.WARN
    held = planned.holds or _gpus_of(planned, declared)
    short = (finding for contents in held for finding in _about_contents(contents, planned, records, level))
    return chain(_about_lengths(planned, records, line, level), short)


def _about_lengths(
    planned: model.Planned, table: CheckTable, line: CheckPolicy, level: model.Level
) -> Iterator[model.Finding]:
    """Arrays that are not as long as the array of their labels, so that something was not measured; a value alone that had to be a
    list has the length 1.
    """
    lists = {rule.metric for rule in line.rules if (rule.each or rule.at) and rule.over is not Over.EXPECTED}
    for metric, names in sorted(_labelled(line) | _along(planned.holds, table)):
        columns = table.column(metric), table.column(names)
        kinds = table.kinds(metric), table.kinds(names)
        if tuple not in kinds[1] or (tuple not in kinds[0] and metric not in lists):
            continue
        if kinds[0] == kinds[1] == {tuple} and [*map(len, columns[0])] == [*map(len, columns[1])]:  # type: ignore[arg-type]
            continue
        for index, (values, labels) in enumerate(zip(*columns, strict=True)):
            is_list = isinstance(values, tuple) or (metric in lists and values is not None)
            count = len(values) if isinstance(values, tuple) else 1
            if is_list and isinstance(labels, tuple) and count != len(labels):
                fault = Unmeasured(metric, f"has {count} values for {len(labels)} {names}")
                yield _finding(table, index, fault, level)


def _along(held: Sequence[Contents], records: CheckTable) -> set[tuple[str, str]]:
    """Pairs of a list and the one that says what its elements are. A first measurement may have had another length."""
    names = {name for contents in held for name in (contents.metric, *contents.along)}
    metrics = records.columns.metrics if held else ()
    others = {name for name in metrics if name not in names and not name.startswith(model.FIRST)}
    pairs = {(name, contents.metric) for contents in held for name in contents.along}
    return pairs | {(name, held[0].metric) for name in others}


def _labelled(line: CheckPolicy) -> set[tuple[str, str]]:
    """Pairs of a metric and its labels. A metric that is compared element by element and names no labels has those of the check, if
    there is only one array of labels.
    """
    pairs = {(rule.metric, name) for rule in line.rules for name in (rule.each, rule.at) if name}
    labels = {name for _, name in pairs}
    if len(labels) == 1:
        bare = (rule for rule in line.rules if rule.over in RELATIVE and not (rule.each or rule.at))
        pairs |= {(rule.metric, label) for rule in bare for label in labels}
    return pairs


def _gpus_of(planned: model.Planned, declared: model.Declared) -> tuple[Contents, ...]:
    """What the lists of a node's GPUs hold, for plans that do not say so."""
    listed = planned.scope is model.Scope.NODE and planned.check.startswith(FAMILIES)
    return (Contents(GPUS, declared.gpus_per_node),) if listed else ()


def _about_contents(
    held: Contents, planned: model.Planned, records: CheckTable, level: model.Level
) -> Iterator[model.Finding]:
    """Rows whose list, or count of work, is less than the plan says. All lists of a row may be too short alike, so that lengths do
    not show it.
    """
    if held.metric not in planned.metrics and held.metric not in records.columns.metrics:
        return
    lacking: dict[object, Unmeasured | None] = {}  # thousands of nodes have the same list
    objects = records.objects(held.metric), records.objects(held.less)
    if len(objects[0]) == len(objects[1]) == 1 and _lack_of(held, objects[0][0], objects[1][0]) is None:
        return
    for index, both in enumerate(zip(records.column(held.metric), records.column(held.less), strict=True)):
        if both not in lacking:
            lacking[both] = _lack_of(held, *both)
        if (fault := lacking[both]) is not None:
            yield _finding(records, index, fault, level)


def _lack_of(held: Contents, value: object, left_out: object) -> Unmeasured | None:
    """What is missing from the list, or from the count."""
    wanted = held.count - held.each * (left_out if type(left_out) is int else 0)
    if isinstance(value, (int, float)):
        few = f"is {value:g}, and at least {wanted} are needed"
        return Unmeasured(held.metric, few) if value < wanted else None
    items = value if isinstance(value, tuple) else ()
    texts = {item for item in items if isinstance(item, str)}
    missing = [label for label in held.labels if label not in texts]
    count = len(texts - NO_GPUS.union(held.labels)) if texts else len(items)
    clauses = [f"lists {count} of {wanted} {NOUNS.get(held.metric, held.metric)}"] if count < wanted else []
    clauses += [f"leaves {', '.join(missing[:MOST_NAMED])} out of {held.metric}"] if missing else []
    return Unmeasured("", f"the check {' and '.join(clauses)}") if clauses else None


def _finding(records: CheckTable, index: int, fault: Unmeasured, level: model.Level) -> model.Finding:
    return not_measured(records.check, records.columns.subjects[index], fault, level, remedy=LIST_REMEDY)


def coverage(report: model.Report, sound: Mapping[str, CheckTable], checks: model.Count) -> model.Coverage:
    """How many of the required nodes, GPUs, ranks and checks have sound observations."""
    declared = report.declared
    subjects = set().union(*(table.columns.subjects for table in sound.values()))
    nodes = {model.node_of(subject) for subject in subjects} - {model.CLUSTER}
    counted = sound["gpu.inventory"].column("gpus_found") if "gpu.inventory" in sound else ()
    gpus = sum(min(count, declared.gpus_per_node) for count in counted if type(count) is int)
    return model.Coverage(
        nodes=model.Count(len(nodes), declared.nodes),
        gpus=model.Count(gpus, declared.nodes * declared.gpus_per_node),
        ranks=model.Count(sum("/" in subject for subject in subjects), declared.ranks),
        checks=checks,
    )


def subjects_of(scope: model.Scope, report: model.Report) -> frozenset[str]:
    """The subjects that a check of this scope observes: the cluster, its nodes, or the ranks of the nodes that reported."""
    if scope is model.Scope.CLUSTER:
        return frozenset([model.CLUSTER])
    if scope is model.Scope.NODE:
        return frozenset(node.name for node in report.nodes)
    per_node = report.declared.ranks_per_node
    return frozenset(
        model.rank_subject(node.name, node.rank * per_node + local)
        for node in report.nodes
        for local in range(per_node)
    )


def declared_count(scope: model.Scope, declared: model.Declared) -> int:
    """How many subjects of this scope the gate file declares."""
    return {model.Scope.NODE: declared.nodes, model.Scope.RANK: declared.ranks, model.Scope.CLUSTER: 1}[scope]


def is_whole(subjects: Sequence[str], expected: frozenset[str]) -> bool:
    """Whether exactly the expected subjects are there, each once and in order."""
    return (
        len(subjects) == len(expected)
        and expected.issuperset(subjects)
        and all(map(lt, subjects, subjects[1:]))
    )


def with_holes(records: CheckTable, ruled: frozenset[str]) -> frozenset[int]:
    """The indices of the rows with a null in an array that no rule reads."""
    odd: set[int] = set()
    for name, column in records.columns.metrics.items():
        kinds = frozenset[type]() if name in ruled else records.kinds(name)
        if tuple not in kinds:
            continue
        if None in chain.from_iterable(value for value in records.objects(name) if type(value) is tuple):
            odd |= {i for i, value in enumerate(column) if type(value) is tuple and None in value}
    return frozenset(odd)


def unfit(planned: model.Planned, table: CheckTable) -> frozenset[int]:
    """The indices of the rows for which `defect_of` gives a reason, and of those that were not measured."""
    columns = table.columns
    odd = other_than(columns.outcomes, model.Outcome.MEASURED) | other_than(columns.skips, None)
    for name in planned.metrics:
        if type(None) in table.kinds(name):
            odd |= {index for index, value in enumerate(table.column(name)) if value is None}
    for name, column in columns.metrics.items():
        if tuple in table.kinds(name) and () in column:
            odd |= {index for index, value in enumerate(column) if value == ()}
        if not _all_possible(table.objects(name), range_of(table.check, name)):
            odd |= {i for i, value in enumerate(column) if _impossible(table.check, name, value) is not None}
    failed = (
        i for i, texts in enumerate(table.column(FAILURES)) if isinstance(texts, tuple) and set(texts) - FINE
    )
    odd |= {index for index in failed if _contradiction(table[index])}
    return frozenset(odd)


def _contradiction(record: model.Observation) -> str:
    """The element that has a number although its own outcome says that it was not measured, "" if there is none. Where ranks are
    tested, checks.judge.culprits.from_report reads the outcomes; nccom-test measures also what it finds wrong.
    """
    failures = record.metrics.get(FAILURES)
    if not isinstance(failures, tuple) or not record.check.startswith(PEERS):
        return ""
    for name, values in sorted(record.metrics.items()):
        if (
            isinstance(values, tuple)
            and len(values) == len(failures)
            and range_of(record.check, name) is not COUNTED
        ):
            for index, (outcome, value) in enumerate(zip(failures, values, strict=True)):
                if outcome not in FINE and type(value) in (int, float):
                    return f"{name}[{index}]"
    return ""


def _all_possible(column: Sequence[object], bounds: Range) -> bool:
    """Whether all of them are no numbers, or numbers within the bounds, each alone or in a list; False says nothing."""
    try:
        numbers: Any = [*chain.from_iterable(column)] if type(column[0]) is tuple else column  # type: ignore[arg-type]
        if type(numbers[0]) in NO_NUMBERS:
            return NO_NUMBERS.issuperset(map(type, numbers))
        return bool(bounds.least <= min(numbers) and max(numbers) <= bounds.most)
    except (TypeError, IndexError):
        return False


def _impossible(check: str, name: str, value: object) -> float | None:
    """The first number that the metric cannot have, of a list or alone; None if there is none."""
    bounds = range_of(check, name)
    for number in value if type(value) is tuple else (value,):
        if type(number) in (int, float) and not bounds.least <= number <= bounds.most:
            return float(number)
    return None


def other_than(column: Sequence[object], usual: object) -> set[int]:
    """The indices of the values that are not the usual one."""
    if column.count(usual) == len(column):
        return set()
    return {index for index, value in enumerate(column) if value is not usual}


def defect_of(record: model.Observation, planned: model.Planned) -> Unmeasured:
    """What a measurement lacks, or has that cannot be."""
    lacking = [name for name in planned.metrics if name not in record.metrics]
    empty = [name for name, value in sorted(record.metrics.items()) if value == ()]
    if lacking:
        return Unmeasured(lacking[0], "is missing from the measurement")
    for name, value in sorted(record.metrics.items()):
        if (number := _impossible(record.check, name, value)) is not None:
            bounds = range_of(record.check, name)
            return Unmeasured(
                name, f"is {number:g}, which cannot be: it is between {bounds.least:,g} and {bounds.most:,g}"
            )
    if element := _contradiction(record):
        return Unmeasured(element, "has a number, but its outcome says that it was not measured")
    return Unmeasured(empty[0] if empty else "", "is an empty list" if empty else "")
