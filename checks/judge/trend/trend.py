"""Compares the reports of the same machines over time: what gets worse, which counters grow, and what is missing now. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise

from checks.documents.columns import Rows, by_check
from checks.judge.baseline.samples import (
    Group,
    Runs,
    Side,
    gather,
    group_of,
    label_text,
    label_turn,
    measured,
)
from checks.judge.machine_identity import MachineHistory, gpu_uuids, machines
from checks.judge.robust_statistics import mann_kendall, median_of, theil_sen
from checks.judge.trend.model import CHANCE, LEAST_REPORTS, Course, Growth, Machine, Point, Trend
from checks.model import CLUSTER, Node, Report, node_of
from checks.policy import Policy

DAY_S = 86400.0
# Counters that a part keeps of its own faults. Pending and completed repairs are judged by rules.
COUNTERS = {
    "gpu.ecc": (
        "sram_corrected_aggregate", "sram_uncorrected_aggregate", "dram_corrected_aggregate", "dram_uncorrected_aggregate",
    ),
    "gpu.row_remap": ("remapped_corrected", "remapped_uncorrected"),
    "gpu.retired_pages": ("retired_double_bit", "retired_pages"),
    "gpu.nvlink": ("link_recoveries", "link_replays"),
    "gpu.pcie": ("replays",),
    "kernel.xid": ("act", "support", "unknown"),
    "kernel.sxid": ("fatal", "non_fatal"),
    "kernel.hardware": ("edac_ue", "edac_ce", "mce", "mce_uncorrected", "pcie_uncorrected", "io_error"),
}  # fmt: skip


@dataclass(frozen=True)
class DatedReport:
    """A report, the SHA-256 of its file, and the policy that says how its numbers are compared."""

    report: Report
    digest: str
    policy: Policy


def trend(dated: Sequence[DatedReport]) -> Trend:
    """The trend, which does not depend on the order of the reports. Each report counts once; one without a readable time is left
    out.
    """
    ordered, left_out = _ordered(dated)
    reports = [one.report for _, one in ordered]
    start = ordered[0][0] if ordered else 0.0
    days = [(time - start) / DAY_S for time, _ in ordered]
    tables = [_table(one) for _, one in ordered]
    found = [_machine(seen, reports, days, tables) for seen in machines(reports)]
    together = _together(reports, days, tables)
    first, last = (reports[0].measured_at, reports[-1].measured_at) if reports else ("", "")
    return Trend(len(reports), first, last, (*together, *found), left_out)


def _ordered(dated: Sequence[DatedReport]) -> tuple[list[tuple[float, DatedReport]], tuple[str, ...]]:
    kept: list[tuple[float, DatedReport]] = []
    left_out: list[str] = []
    known: set[str] = set()
    for one in sorted(dated, key=lambda one: one.digest):
        at, named = _seconds(one.report.measured_at), f"{one.report.gate_id} ({one.digest:.12})"
        if one.digest in known:
            left_out.append(f"{named}: the same report was given twice")
        elif at is None:
            left_out.append(f"{named}: {one.report.measured_at!r:.40} is no time with an offset (ISO 8601)")
        else:
            kept.append((at, one))
        known.add(one.digest)
    return sorted(kept, key=lambda pair: (pair[0], pair[1].digest)), tuple(left_out)


def _seconds(text: str) -> float | None:
    try:
        made = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return made.astimezone(timezone.utc).timestamp() if made.tzinfo else None
    except (ValueError, OverflowError):
        return None


# Check, metric, label, group, bad side.
Name = tuple[str, str, str, str, str]
# The worst value of each metric in one report, by node ("" for all together).
Table = dict[Name, dict[str, float]]
# Node -> (check, metric) -> the values of its parts.
Sums = dict[str, dict[tuple[str, str], list[float]]]


def _table(one: DatedReport) -> tuple[Table, Sums]:
    """The worst values of each node of one report, and the sums of its counters. A check between nodes belongs to all of them
    together.
    """
    rows = {check: measured(_once(mine)) for check, mine in by_check(one.report.observations).items()}
    table: Table = {}
    for check, mine in rows.items():
        line = one.policy.checks.get(check)
        group = group_of(one.report, line)
        owners = [
            "" if group.nodes or subject == CLUSTER else node_of(subject) for subject in mine.columns.subjects
        ]
        known = Runs(dict(zip(mine.columns.subjects, owners, strict=True)).__getitem__)
        for (metric, label), series in gather(mine, line).items():
            at = table[check, metric, label, str(group), series.side.value] = {}
            worst = max if series.side is Side.HIGH else min
            for whose, begin, end in known.of(series.subjects):
                value = worst(series.values[begin:end])
                at[whose] = worst(at[whose], value) if whose in at else value
    return table, _sums(rows)


def _once(rows: Rows) -> Rows:
    """The rows without the subjects that occur twice, because neither of their rows can be trusted."""
    times = Counter(rows.columns.subjects)
    if len(times) == len(rows):
        return rows
    return rows.take([place for place, subject in enumerate(rows.columns.subjects) if times[subject] == 1])


def _sums(rows: Mapping[str, Rows]) -> Sums:
    sums: Sums = {}
    for check, metrics in COUNTERS.items():
        of_check = rows.get(check) or Rows.of(check, ())
        for metric in metrics:
            for value, subject in zip(of_check.column(metric), of_check.columns.subjects, strict=True):
                for item in value if isinstance(value, tuple) else (value,):
                    if isinstance(item, (int, float)) and not isinstance(item, bool):
                        sums.setdefault(node_of(subject), {}).setdefault((check, metric), []).append(
                            float(item)
                        )
    return sums


Tables = Sequence[tuple[Table, Sums]]


def _machine(
    seen: MachineHistory, reports: Sequence[Report], days: Sequence[float], tables: Tables
) -> Machine:
    mine = [(days[index], tables[index][0], node.name) for index, node in seen.nodes]
    courses = _courses(mine)
    sums: dict[tuple[str, str], list[Point]] = {}
    for index, node in seen.nodes:
        for key, parts in tables[index][1].get(node.name, {}).items():
            sums.setdefault(key, []).append(Point(days[index], sum(parts), len(parts)))
    counters = tuple(_growth(key, points) for key, points in sorted(sums.items()))
    newest = days[seen.nodes[-1][0]]
    gone = (
        *_gpus_gone([node for _, node in seen.nodes]),
        *_unmeasured(courses, counters, reports, days, seen, newest),
    )
    first, last = (reports[seen.nodes[place][0]].measured_at for place in (0, -1))
    return Machine(seen.name, seen.known_by, len(seen.nodes), first, last, courses, counters, gone)


def _together(reports: Sequence[Report], days: Sequence[float], tables: Tables) -> Iterator[Machine]:
    """What nodes measure with each other belongs to the group, not to a single machine."""
    groups: dict[str, list[int]] = {}
    for index, (table, _) in enumerate(tables):
        for group in {name[3] for name, values in table.items() if "" in values}:
            groups.setdefault(group, []).append(index)
    for group, mine in sorted(groups.items()):
        parts = [
            {name: values for name, values in tables[index][0].items() if name[3] == group} for index in mine
        ]
        courses = _courses([(days[index], part, "") for index, part in zip(mine, parts, strict=True)])
        gone = tuple(
            f"{course.check} {course.what} is no longer measured"
            for course in courses
            if course.points[-1].day < days[mine[-1]]
        )
        first, last = reports[mine[0]].measured_at, reports[mine[-1]].measured_at
        yield Machine(f"all together ({group})", "its group", len(mine), first, last, courses, (), gone)


def _courses(tables: Sequence[tuple[float, Table, str]]) -> tuple[Course, ...]:
    """The course of every metric of one owner, from (day, table, the owner's name at that time)."""
    made = []
    for name in dict.fromkeys(name for _, table, _ in tables for name in table):
        found = [(day, table[name].get(whose)) for day, table, whose in tables if name in table]
        points = [Point(day, value) for day, value in found if value is not None]
        if points:
            made.append((name, _course(name, points)))
    return tuple(course for _, course in sorted(made, key=_turn))


def _course(name: Name, points: Sequence[Point]) -> Course:
    check, metric, label, group, side = name
    change = chance = None
    if len({point.day for point in points}) >= LEAST_REPORTS:  # times that do not differ give no order
        change, chance = _tendency([p.day for p in points], [p.value for p in points])
    return Course(check, label_text(metric, label), group, Side(side), tuple(points), change, chance)


def _tendency(days: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """The change from start to end on Theil and Sen's line, as a fraction of its start, and its p."""
    _, chance = mann_kendall(values)
    if chance > CHANCE:
        return 0.0, chance
    slope = theil_sen(days, values)
    start = median_of([value - slope * (day - days[0]) for day, value in zip(days, values, strict=True)])
    moved = slope * (days[-1] - days[0])
    return (moved / abs(start) if start else 0.0), chance


def _turn(item: tuple[Name, Course]) -> tuple[object, ...]:
    check, metric, label, group, side = item[0]
    return check, metric, label_turn(label), group, side


def _growth(key: tuple[str, str], points: Sequence[Point]) -> Growth:
    steps = [(one, other) for one, other in pairwise(points) if one.parts == other.parts]
    grown = sum(max(0.0, later.value - earlier.value) for earlier, later in steps)
    return Growth(*key, tuple(points), grown)


def _gpus_gone(nodes: Sequence[Node]) -> Iterator[str]:
    """GPUs that an earlier report has and the newest one lacks. If no GPU could be read, a note says so."""
    known = [gpu_uuids(node) for node in nodes if gpu_uuids(node)]
    if known and not gpu_uuids(nodes[-1]):
        yield "its GPUs' UUIDs can no longer be read"
        return
    for uuid in sorted(known[-2] - known[-1]) if len(known) > 1 else ():
        yield f"{uuid} is no longer there"


def _unmeasured(
    courses: Sequence[Course],
    counters: Sequence[Growth],
    reports: Sequence[Report],
    days: Sequence[float],
    seen: MachineHistory,
    newest: float,
) -> Iterator[str]:
    """Metrics that an earlier report of the same kind has and the newest one of that kind lacks."""
    latest: dict[str, float] = {}
    for index, _ in seen.nodes:
        report = reports[index]
        latest[_alone(report)] = days[index]
    for course in courses:
        if course.points[-1].day < latest.get(course.group, newest):
            yield f"{course.check} {course.what} is no longer measured"
    for counter in counters:
        if counter.points[-1].day < newest:
            yield f"{counter.check} {counter.metric} is no longer measured"


def _alone(report: Report) -> str:
    declared = report.declared
    return str(
        Group(declared.instance_type, declared.gpus_per_node, declared.ranks_per_node, report.profile, 0)
    )
