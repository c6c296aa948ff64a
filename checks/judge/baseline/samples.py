"""The numbers of a report that are compared with those of other reports. Pure.

These are speeds and latencies, whose unit says which side is bad, and the metrics that the policy compares between machines.
Capacities, versions and counters are not compared: rules and the trend examine those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from checks.documents.columns import CheckTable
from checks.judge.culprits.from_report import CHECKS
from checks.model import Outcome, Profile, Report, node_of
from checks.policy import CheckPolicy

# The ends of the names of metrics (their units) for which a higher value is better, and those for which a lower one is.
SPEEDS = ("gbps", "gbit_s", "flops", "iops", "tokens_per_s", "per_s_per_cpu")
LATENCIES = ("_us", "_ms", "_s")
# Seconds that are no latency: how far a log reaches back, how long a check listened or waited for a part to appear, how far a clock is
# off, how long a GPU was throttled since its boot, and how a file server answers, which is no property of the node. Rules judge those
# that matter.
NO_LATENCIES = (
    "covers_s", "window_s", "watched_s", "waited_s", "unchanged_s", "offset_s", "max_error_s", "thermal_s", "power_brake_s",
    "slowest_s",
)  # fmt: skip
# Arrays that say what each element was measured with. The index of a GPU and the name of a peer do not belong to these.
AXES = ("sizes_bytes", "precisions", "programs")
# Both are busbw_gbps, times a constant or as its greatest value: the same measurement again.
SAME_AGAIN = ("algbw_gbps", "busbw_peak_gbps")
RELATIVE = ("peers", "node", "fleet", "slowest", "expected")
SANE = 1e18
NUMBERS = {int, float}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

Key = tuple[str, str]


class Side(str, Enum):
    """Which side of the usual values is bad."""

    LOW = "low"
    HIGH = "high"
    EITHER = "either"


@dataclass(frozen=True)
class ComparisonGroup:
    """What has to be equal for numbers to be comparable. `nodes` is 0 for checks that a node or a rank does by itself."""

    instance_type: str
    gpus_per_node: int
    ranks_per_node: int
    profile: Profile
    nodes: int

    def __str__(self) -> str:
        size = {0: "any number of nodes", 1: "one node"}.get(self.nodes, f"{self.nodes} nodes")
        return f"{self.instance_type}, {size}, {self.ranks_per_node} ranks per node, {self.profile.value}"


@dataclass(frozen=True)
class Samples:
    """All values of one metric at one label, each with its subject. `holes` are subjects with an element that has no value."""

    side: Side
    values: Sequence[float]
    subjects: Sequence[str]
    holes: Sequence[str] = ()


def group_of(report: Report, line: CheckPolicy | None) -> ComparisonGroup:
    """The group of a check's numbers. It holds for any number of nodes only if the policy says that the check needs no peers."""
    is_alone = line is not None and line.min_nodes == 1 and line.min_ranks == 1
    declared = report.declared
    return ComparisonGroup(
        declared.instance_type,
        declared.gpus_per_node,
        declared.ranks_per_node,
        report.profile,
        0 if is_alone else declared.nodes,
    )


def side_of(metric: str, line: CheckPolicy | None) -> Side | None:
    """Which side is bad: by the policy's relative rules, else by the unit; None for metrics that are not compared."""
    low = high = False
    for rule in line.rules if line is not None else ():
        if rule.metric == metric and rule.over.value in RELATIVE:
            low = low or rule.warn_below is not None or rule.fail_below is not None
            high = high or rule.warn_above is not None or rule.fail_above is not None
    if low and high:
        return Side.EITHER
    if low or high:
        return Side.LOW if low else Side.HIGH
    if metric in SAME_AGAIN:
        return None
    if metric.endswith(SPEEDS):
        return Side.LOW
    return Side.HIGH if metric.endswith(LATENCIES) and metric not in NO_LATENCIES else None


def gather(records: CheckTable, line: CheckPolicy | None) -> dict[Key, Samples]:
    """(metric, label) of one check -> its values in all rows that were measured.

    The pair tests of the ranks have none: a row mixes pairs within a node with pairs between two nodes, and the decoder compares
    them.
    """
    samples: dict[Key, Samples] = {}
    if records.check in CHECKS:
        return samples
    records = measured(records)
    for metric in records.columns.metrics if records else ():
        side = side_of(metric, line)
        if side is not None:
            samples.update(_series(records, metric, side, line))
    return samples


def measured(records: CheckTable, but: frozenset[str] | set[str] = frozenset()) -> CheckTable:
    """The rows that were measured, without those of the nodes `but`."""
    c = records.columns
    if not but and set(c.outcomes) <= {Outcome.MEASURED}:
        return records
    pairs = enumerate(zip(c.subjects, c.outcomes, strict=True))
    return records.take([i for i, (s, o) in pairs if o is Outcome.MEASURED and node_of(s) not in but])


class OwnerRuns:
    """Where in a series the values of each owner are. Series of one check share their subjects, so that it is found once for all."""

    def __init__(self, owner: Callable[[str], str]) -> None:
        self._owner = owner
        self._found: dict[int, tuple[Sequence[str], list[tuple[str, int, int]]]] = {}

    def by_owner(self, subjects: Sequence[str]) -> list[tuple[str, int, int]]:
        """Each run of one owner, and where it begins and ends. An owner may have several."""
        if id(subjects) not in self._found:  # the subjects are kept, so that no other object gets their id
            runs: list[tuple[str, int, int]] = []
            begin = 0
            for subject, same in groupby(subjects):  # one value per peer is a long run of one subject
                owner, end = self._owner(subject), begin + len(list(same))
                first = runs.pop()[1] if runs and runs[-1][0] == owner else begin
                runs.append((owner, first, end))
                begin = end
            self._found[id(subjects)] = subjects, runs
        return self._found[id(subjects)][1]


def label_text(metric: str, label: str) -> str:
    """A metric at its label: "busbw_gbps at 64 MiB", "tflops of bf16"."""
    if not label:
        return metric
    if not label.isdecimal():
        return f"{metric} of {label}"
    size, power = int(label[:24]), 0
    while size >= 1024 and size % 1024 == 0 and power < len(_UNITS) - 1:
        size, power = size // 1024, power + 1
    return f"{metric} at {size} {_UNITS[power]}"


def label_sort_key(label: str) -> tuple[int, str]:
    """The sort key of a label: sizes from small to large, then texts."""
    return (int(label[:24]), "") if label.isdecimal() else (-1, label)


def _series(records: CheckTable, metric: str, side: Side, line: CheckPolicy | None) -> dict[Key, Samples]:
    """A metric's series: whole columns at once if all rows have the same labels, else element by element."""
    column, subjects = records.column(metric), records.columns.subjects
    kinds = set(map(type, column))
    if kinds <= NUMBERS and _sane(column):
        return {(metric, ""): Samples(side, column, subjects)}  # type: ignore[arg-type]
    if kinds == {tuple}:
        columns = _axes(records, metric, line)
        axes = {_axis(value, index, columns) for index, value in enumerate(column)}
        axis = axes.pop() if len(axes) == 1 else None
        if axis is not None and len(set(axis)) == len(axis):
            transposed = [tuple(values) for values in zip(*column, strict=True)]
            if all(set(map(type, values)) <= NUMBERS and _sane(values) for values in transposed):
                return {
                    (metric, str(at)): Samples(side, values, subjects)
                    for at, values in zip(axis, transposed, strict=True)
                }
    return _one_by_one(records, metric, side, line)


def _one_by_one(table: CheckTable, metric: str, side: Side, line: CheckPolicy | None) -> dict[Key, Samples]:
    values: dict[Key, list[float]] = {}
    subjects: dict[Key, list[str]] = {}
    holes: dict[Key, list[str]] = {}
    columns = _axes(table, metric, line)
    for index, (value, subject) in enumerate(zip(table.column(metric), table.columns.subjects, strict=True)):
        if value is None:  # the row has no such metric; checks/judge/evidence.py finds out whether it had to
            continue
        items = value if isinstance(value, tuple) else (value,)
        axis = _axis(value, index, columns)
        if axis is None and set(map(type, items)) <= NUMBERS and _sane(items):  # such as one value per peer
            values.setdefault((metric, ""), []).extend(items)  # type: ignore[arg-type]
            subjects.setdefault((metric, ""), []).extend([subject] * len(items))
            continue
        axis = axis or ("",) * len(items)
        for label, item in zip(axis, items, strict=True):
            key = (metric, str(label))
            if type(item) in NUMBERS and _sane((item,)):
                values.setdefault(key, []).append(item)  # type: ignore[arg-type]
                subjects.setdefault(key, []).append(subject)
            else:
                holes.setdefault(key, []).append(subject)
    return {
        key: Samples(
            side, tuple(values.get(key, ())), tuple(subjects.get(key, ())), tuple(holes.get(key, ()))
        )
        for key in {**values, **holes}
    }


def _sane(values: Sequence[object]) -> bool:
    return not values or (-SANE <= min(values) and max(values) <= SANE)  # type: ignore[type-var,operator]


def _axes(records: CheckTable, metric: str, line: CheckPolicy | None) -> list[Sequence[object]]:
    """The columns that may say what each element of the metric was measured with; the first that fits a row does."""
    names = [rule.at for rule in line.rules if rule.metric == metric] if line is not None else []
    metrics = records.columns.metrics
    return [metrics[name] for name in dict.fromkeys((*names, *AXES)) if name in metrics and name != metric]


def _axis(value: object, index: int, axes: Sequence[Sequence[object]]) -> tuple[object, ...] | None:
    """What each element of the row's array was measured with; None for an array of parts or of peers."""
    if not isinstance(value, tuple):
        return None
    for column in axes:
        axis = column[index]
        if isinstance(axis, tuple) and len(axis) == len(value):
            return axis
    return None
