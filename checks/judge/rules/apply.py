"""Applies a policy's rules to sound observations. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from checks.documents.columns import CheckTable
from checks.judge import cpu_contention, xid_overlay
from checks.judge.blame import Cell
from checks.judge.not_measured import not_measured
from checks.judge.rules import combined, each_peer, expected, prefilter, relative
from checks.judge.rules import values as bounds
from checks.judge.rules.noise import SharedNoise
from checks.judge.rules.values import NOTHING_KNOWN, RuleContext, cells_of, label_of
from checks.judge.rules.wording import figure, noun_of, quantity, show, unequal, unit_of
from checks.model import CLUSTER, EVIDENCE_BYTES, Action, Cause, Finding, Level, Observation, node_of, worst
from checks.model_details import Comparison, Relation, Unmeasured
from checks.policy import RELATIVE, CheckPolicy, Over, Rule
from checks.value_types import version_of

# A finding names at most this many elements in its field, however long the list is.
ELEMENTS = 256
DRIVER, JOINED_NODES = "driver", "GB"
# What a finding calls for if its rule does not say.
ACTIONS = {
    Cause.HARDWARE: Action.INSPECT,
    Cause.CONFIGURATION: Action.NONE,
    Cause.APPLICATION: Action.RESTART_APP,
    Cause.EVIDENCE: Action.NONE,
}


def apply(
    check: str,
    line: CheckPolicy,
    records: Sequence[Observation],
    subjects: int,
    context: RuleContext = NOTHING_KNOWN,
) -> Iterator[Finding]:
    """Every finding that the policy's entry makes of the check's observations.

    `subjects` is how many are declared: a subject is not compared with itself alone.
    """
    if check == xid_overlay.CHECK:
        return xid_overlay.judge(
            line, records, context, lambda r: _applied(check, line, r, subjects, context)
        )
    return _applied(check, line, records, subjects, context)


def _applied(
    check: str, line: CheckPolicy, records: Sequence[Observation], subjects: int, context: RuleContext
) -> Iterator[Finding]:
    judged = [(rule, _judgeable(rule, records, context)) for rule in line.rules]
    together, shared = _together(check, judged, context)
    slow = frozenset(finding.subject for finding in together)
    refused = frozenset(finding.subject for finding in together if finding.level is Level.FAIL)
    context = replace(context, slow=slow, refused=refused, shared=shared)
    by_subject: dict[str, set[Level]] = {}
    for rule, held in judged:
        blind = Level.FAIL if line.required else Level.WARN
        odd = prefilter.suspects(rule, held, context)
        if odd and rule.each == each_peer.PEERS:
            odd = held  # which end of a bad link is at fault, the good links say
        findings: Iterable[Finding] = _rule_findings(check, rule, odd, blind, subjects, context)
        if rule.needs_cpu or rule.over in RELATIVE:
            findings = _beside_other_work(check, rule, held, list(findings), blind, subjects, context)
        for finding in _naming(findings, rule, odd):
            if finding.level is Level.FAIL and finding.cause is Cause.EVIDENCE:
                # A value that cannot be compared is no worse than one that is missing.
                finding = replace(finding, level=blind)
            if rule.over in RELATIVE:
                by_subject.setdefault(finding.subject, set()).add(finding.level)
            yield _resting(finding, rule)
    levels = {subject: worst([*each]).rank for subject, each in by_subject.items()}
    ranks: dict[str, list[int]] = {}
    for subject, level in levels.items():
        if node_of(subject) != subject:
            ranks.setdefault(node_of(subject), []).append(level)
    half = (context.declared.ranks_per_node if context.declared else 2) / 2
    for finding in together:
        # The subject, or half of the node's ranks, may have a finding of this level or a worse one already.
        alike = sum(level >= finding.level.rank for level in ranks.get(finding.subject, ()))
        if levels.get(finding.subject, -1) < finding.level.rank and alike < half:
            yield finding


def _judgeable(rule: Rule, records: Sequence[Observation], context: RuleContext) -> Sequence[Observation]:
    """The rows without what the GPU model or the driver does not report."""
    held = records
    if rule.metric in context.absent and not prefilter.complete(records, rule.metric):
        held = [record for record in records if _has_value(record, rule.metric)]
    return _reported(held, rule.metric, context)


def _together(
    check: str, judged: Sequence[combined.Judged], context: RuleContext
) -> tuple[list[Finding], dict[Rule, SharedNoise]]:
    """The findings of the relative rules about medians of several values, and what is known of the noise of each rule's values."""
    together: list[Finding] = []
    shared: dict[Rule, SharedNoise] = {}
    for group in combined.groups(judged):
        rule, records = group[0]
        findings, noise = combined.examine(check, group, context)
        shared |= {member: noise for member, _ in group}
        if findings and rule.needs_cpu:
            loads = cpu_contention.RecordedLoads(records, context.hosts)
            slow = {node_of(finding.subject) for finding in findings}
            findings = [loads.weighed(finding, slow, metric=rule.metric) for finding in findings]
        together += [_resting(finding, rule) for finding in findings]
    return together, shared


def _beside_other_work(
    check: str,
    rule: Rule,
    records: Sequence[Observation],
    findings: list[Finding],
    blind: Level,
    subjects: int,
    context: RuleContext,
) -> Iterator[Finding]:
    """The findings of a rule about speed with their causes corrected for the CPU load, and those about values that were slow only in
    the first measurement.
    """
    first = cpu_contention.first_rows(records, rule.metric)
    if first and rule.over in RELATIVE:
        again = {record.subject: record for record in first}
        first = [again.get(record.subject, record) for record in records]
    if not rule.needs_cpu:
        yield from findings
    elif findings:
        loads, slow = (
            cpu_contention.RecordedLoads(records, context.hosts),
            {node_of(finding.subject) for finding in findings},
        )
        for finding in findings:
            yield loads.weighed(finding, slow, metric=rule.metric)
    if first:
        before = list(_rule_findings(check, rule, first, blind, subjects, context))
        yield from cpu_contention.intermittent(
            findings, before, cpu_contention.RecordedLoads(first, context.hosts)
        )


def _rule_findings(
    check: str, rule: Rule, records: Sequence[Observation], blind: Level, subjects: int, context: RuleContext
) -> Iterator[Finding]:
    if rule.equals is not None:
        return _equals(check, rule, records, blind)
    if rule.same:
        return _same(check, rule, records, blind, context)
    if rule.uniform:
        return _uniform(check, rule, records, blind)
    if rule.fact:
        return _facts(check, rule, records, blind, context)
    if rule.min_version:
        return _versions(check, rule, records, blind)
    if rule.over in RELATIVE:
        return relative.judge(check, rule, records, blind, subjects, context)
    if rule.over is Over.EXPECTED:
        return expected.judge(check, rule, records, context, blind)
    return bounds.judge(check, rule, records, blind)


def _naming(findings: Iterable[Finding], rule: Rule, records: Sequence[Observation]) -> Iterator[Finding]:
    """The findings with the parts that the check names beside a count, such as the memory modules that had the errors."""
    name, listed = f"{rule.metric}_parts", list(findings)
    table = CheckTable.collect("", records if listed else ())
    texts = dict(pair for pair in zip(table.columns.subjects, table.column(name), strict=True) if pair[1])
    for finding in listed:
        text = finding.is_predicate and texts.get(finding.subject)
        yield replace(finding, message=f"{finding.message}: {text}") if text else finding


def _resting(finding: Finding, rule: Rule) -> Finding:
    """The finding with what the rule calls for and the source of its threshold. A finding about a value that could not be read has
    crossed none.
    """
    if finding.cause is Cause.EVIDENCE and rule.cause is not Cause.EVIDENCE:
        return finding
    action = finding.action
    if action is Action.NONE:
        action = rule.action or ACTIONS[finding.cause]
    return replace(finding, action=action, source=finding.source or rule.source, metric=rule.metric)


def _has_value(record: Observation, metric: str) -> bool:
    """Whether the row has a value of the metric, even if the facts list it as absent: then a null beside it was not measured."""
    value = record.metrics.get(metric)
    return any(item is not None for item in (value if isinstance(value, tuple) else (value,)))


def _reported(records: Sequence[Observation], metric: str, context: RuleContext) -> Sequence[Observation]:
    """The rows without those whose driver is too old to report the metric."""
    too_old = {subject for subject, names in context.unreported.items() if metric in names}
    if not too_old:
        return records
    if isinstance(records, CheckTable):
        subjects = records.columns.subjects
        return records.take([index for index, subject in enumerate(subjects) if subject not in too_old])
    return [record for record in records if record.subject not in too_old]


def _uniform(check: str, rule: Rule, records: Sequence[Observation], blind: Level) -> Iterator[Finding]:
    for record in records:
        value = record.metrics.get(rule.metric)
        if not isinstance(value, tuple) or None in value or not value:
            yield _unmeasured(check, rule, record, "is missing, or some elements have no value", blind)
            continue
        ranked = sorted(Counter(map(str, value)).items(), key=lambda pair: (-pair[1], pair[0]))
        usual = ranked[0][0]
        odd = [index for index, item in enumerate(value) if str(item) != usual]
        if odd:
            text = ", ".join(f"{label_of(rule, record, index)} is {show(value[index])}" for index in odd[:8])
            message = f"{noun_of(check, rule.metric)} differs within the node: {text}; the other "
            message += f"{len(value) - len(odd)} are {show(usual)}"
            yield Finding(
                Level(rule.level), rule.cause, check, record.subject, message, record.evidence, rule.remedy,
                elements=_labels(rule, record, odd),
            )  # fmt: skip


def _labels(rule: Rule, record: Observation, places: Sequence[int]) -> tuple[str, ...]:
    return tuple(label_of(rule, record, index) for index in places[:ELEMENTS])


def _facts(
    check: str, rule: Rule, records: Sequence[Observation], blind: Level, context: RuleContext
) -> Iterator[Finding]:
    expected = getattr(context.instance, rule.fact, None)
    for record in records:
        cells, fault = cells_of(rule, record)
        if fault:
            yield not_measured(check, record.subject, fault, blind, record.evidence)
        if type(expected) is not int and rule.accept_unknown and context.instance is not None:
            continue
        if type(expected) is not int:
            text = f"{noun_of(check, rule.metric)} was not compared: the instance table has no {rule.fact} for this type"
            yield Finding(Level.WARN, Cause.EVIDENCE, check, record.subject, text, record.evidence, "")
            continue
        for cell in cells:
            if cell.value < expected * (1 - rule.tolerance):
                text = f"{_of_cell(check, cell)}, but the instance type has {figure(expected)}"
                yield Finding(
                    Level(rule.level), rule.cause, check, record.subject, text, record.evidence, rule.remedy,
                    elements=(cell.element,) if cell.element else (),
                )  # fmt: skip
            elif cell.value > expected * (1 + rule.tolerance):
                text = f"{_of_cell(check, cell)}, but the instance table has {figure(expected)}"
                remedy = "Correct the declared instance type, or the instance table."
                warning = Level.WARN, Cause.CONFIGURATION
                yield Finding(*warning, check, record.subject, text, record.evidence, remedy)


def _of_cell(check: str, cell: bounds.Cell) -> str:
    label = f"{cell.element}: {noun_of(check, cell.metric)}" if cell.element else noun_of(check, cell.metric)
    return f"{label} is {quantity(cell.value, unit_of(cell.metric))}"


def _equals(check: str, rule: Rule, records: Sequence[Observation], blind: Level) -> Iterator[Finding]:
    cells: dict[Cell, each_peer.Towards] = {}
    for record in records:
        value = record.metrics.get(rule.metric)
        if value is None:
            yield _unmeasured(check, rule, record, "is missing", blind)
            continue
        items = value if isinstance(value, tuple) else (value,)
        present = [item for item in items if item is not None]
        if len(present) < len(items) or not items:
            yield _unmeasured(check, rule, record, "has elements without a value", blind)
        strange = [item for item in present if not _is_comparable(item, rule.equals)]
        if strange:
            text = f"is {show(strange[0])!r}, which cannot be compared with {rule.equals!r}"
            yield _unmeasured(check, rule, record, text, blind)
        odd = [
            (index, item)
            for index, item in enumerate(items)
            if _is_comparable(item, rule.equals) and item != rule.equals
        ]
        if each_peer.are_judged(rule, record):
            cells |= each_peer.cells_of(rule, record, [index for index, _ in odd])
        elif odd:
            listed = isinstance(value, tuple)
            labelled = [(label_of(rule, record, index) if listed else "", item) for index, item in odd]
            text, is_predicate = unequal(check, rule.metric, labelled, rule.equals)
            elements = _labels(rule, record, [index for index, _ in odd]) if listed else ()
            yield Finding(
                Level(rule.level), rule.cause, check, record.subject, text, record.evidence, rule.remedy,
                elements=elements, is_predicate=is_predicate, compared=_unequal_number(rule, odd),
            )  # fmt: skip
    yield from each_peer.judge(check, rule, cells)


def _unequal_number(rule: Rule, odd: Sequence[tuple[int, object]]) -> Comparison | None:
    """The number that is farthest from the one that it must be; None for texts and truth values."""
    wanted = rule.equals
    if not isinstance(wanted, (int, float)) or isinstance(wanted, bool):
        return None
    numbers = [float(item) for _, item in odd if isinstance(item, (int, float)) and abs(item) < 1e300]
    if not numbers:
        return None
    far = max(numbers, key=lambda number: abs(number - wanted))
    return Comparison(far, unit_of(rule.metric), Relation.UNEQUAL, float(wanted))


def _is_comparable(value: object, wanted: object) -> bool:
    """Whether both are of one type; 1 and 1.0 are numbers, True is none."""
    return {type(value), type(wanted)} <= {int, float} or type(value) is type(wanted)


def _versions(check: str, rule: Rule, records: Sequence[Observation], blind: Level) -> Iterator[Finding]:
    least = version_of(rule.min_version)
    for record in records:
        value = record.metrics.get(rule.metric)
        for text in value if isinstance(value, tuple) else (value,):
            version = version_of(text)
            if version is None or least is None:
                reason = f"is {show(text)!r}, which is not a driver version"
                yield _unmeasured(check, rule, record, reason, blind)
            elif version < least:
                reason = f"{noun_of(check, rule.metric)} is {show(text)}, older than {rule.min_version}"
                yield Finding(
                    Level(rule.level), rule.cause, check, record.subject, reason, record.evidence, rule.remedy
                )


def _same(
    check: str, rule: Rule, records: Sequence[Observation], blind: Level, context: RuleContext
) -> Iterator[Finding]:
    values: dict[str, str] = {}
    table = CheckTable.collect(check, records)
    for index, (subject, value) in enumerate(
        zip(table.columns.subjects, table.column(rule.metric), strict=True)
    ):
        if value is None or (isinstance(value, tuple) and None in value):
            message = "is missing, or some elements have no value"
            yield _unmeasured(check, rule, table[index], message, blind)
        else:
            values[subject] = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    ranked = sorted(Counter(values.values()).items(), key=lambda pair: (-pair[1], pair[0]))
    if len(ranked) < 2:
        return
    usual, most = ranked[0]
    voters = {node_of(subject) for subject, value in values.items() if value == usual}
    is_alone = len(voters) == 1 and len({node_of(subject) for subject in values}) > 1
    # There is no majority, or it consists of one node's own ranks: no node is blamed.
    if 2 * most <= len(values) or is_alone:
        message = (
            f"{noun_of(check, rule.metric)} differs, and no value has a majority: {_who_has(values, ranked)}"
        )
        text = "\n".join(f"{subject}: {show(value)}" for subject, value in sorted(values.items()))
        level = _level_of(rule, values.values(), context)
        yield Finding(level, rule.cause, check, CLUSTER, message, text[:EVIDENCE_BYTES], rule.remedy)
        return
    for subject, value in values.items():
        if value != usual:
            level = _level_of(rule, (usual, value), context)
            message = f"{noun_of(check, rule.metric)} is {show(value)}, but on {most} of {len(values)} it is {show(usual)}"
            yield Finding(level, rule.cause, check, subject, message, "", rule.remedy)


def _level_of(rule: Rule, values: Iterable[str], context: RuleContext) -> Level:
    """The rule's level; at most WARN for drivers of one branch (550, 570), which are rolled out node by node and run together.

    Machines whose NVLinks join several nodes (GB200) are an exception: the drivers of one such fabric have to be equal.
    """
    versions = [*map(version_of, values)] if rule.metric == DRIVER else []
    branches = {version[0] if version else None for version in versions}
    joined = context.instance is not None and context.instance.gpu.startswith(JOINED_NODES)
    alike = len(branches) == 1 and None not in branches and not joined
    return Level.WARN if alike else Level(rule.level)


def _who_has(values: Mapping[str, str], ranked: Sequence[tuple[str, int]]) -> str:
    """The most frequent values with the subjects that have them, all of which may be at fault."""
    texts = list[str]()
    for value, many in ranked[:4]:
        names = [subject for subject, other in values.items() if other == value]
        texts.append(f"{show(value)} on {', '.join(names[:4])}{f' and {many - 4} more' if many > 4 else ''}")
    return "; ".join(texts) + ("; ..." if len(ranked) > 4 else "")


def _unmeasured(check: str, rule: Rule, record: Observation, reason: str, blind: Level) -> Finding:
    return not_measured(check, record.subject, Unmeasured(rule.metric, reason), blind, record.evidence)
