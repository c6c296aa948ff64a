"""What one report says of each node in numbers: small enough to be kept for every gate, and all that a trend is made of. Pure.

Of each number that is compared (checks.judge.baseline.samples) a node has its worst value, and every number has the median of the
gate's nodes, which ran at the same time under the same software.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from checks.documents.columns import CheckTable, by_check
from checks.judge.baseline import samples
from checks.judge.machine_identity import gpu_uuids, keys_of
from checks.judge.robust_statistics import median_of
from checks.model import CLUSTER, Node, Report, node_of
from checks.policy import Policy

# Fewer nodes than these have no median that says what the others reach: two of three may be slow.
LEAST_PEERS = 5
# More digits than a measurement repeats.
DIGITS = 6
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
_COUNTER_NAMES = tuple((check, metric) for check, metrics in COUNTERS.items() for metric in metrics)


@dataclass(frozen=True)
class Number:
    """One number that is compared between gates; `bad` is the side on which it gets worse."""

    check: str
    metric: str
    label: str
    group: str
    bad: samples.Side

    @property
    def title(self) -> str:
        """The metric at its label: "busbw_gbps at 64 MiB"."""
        return samples.label_text(self.metric, self.label)

    @property
    def sort_key(self) -> tuple[object, ...]:
        """The sort key of numbers."""
        return self.check, self.metric, samples.label_sort_key(self.label), self.group, self.bad


@dataclass(frozen=True)
class NodeIdentity:
    """The identity of a machine: `keys` recognise it, and `gpus` and `versions` may change. Keys that two nodes of a gate share are
    left out. `versions` has its driver and VBIOS, as far as they could be read.
    """

    keys: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def changes_to(self, other: NodeIdentity) -> dict[str, tuple[str, str]]:
        """What differs in `other`, with both values. What one of them could not read is no change."""
        mine = {"GPUs": ", ".join(self.gpus), **self.versions}
        theirs = {"GPUs": ", ".join(other.gpus), **other.versions}
        both = {name: (mine[name], theirs[name]) for name in mine if mine[name] and theirs.get(name)}
        return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


@dataclass(frozen=True)
class NodeNumbers:
    """One node: its worst value of each number of the gate, and of each counter the sum over its parts and how many parts there are.

    None stands for what was not measured.
    """

    name: str
    identity: NodeIdentity
    values: tuple[float | None, ...]
    sums: tuple[float | None, ...] = ()
    parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class GateNumbers:
    """The numbers of one gate. `report` is the digest of its report, `alone` the group of what a node measures by itself.

    `medians` and `together` have one entry per number: the median over the nodes (None for fewer than LEAST_PEERS), and what the nodes
    measured with each other. `cluster` is "" where nobody says it. `counters` are names, "check metric".
    """

    gate_id: str
    report: str
    measured_at: str
    alone: str
    numbers: tuple[Number, ...]
    nodes: tuple[NodeNumbers, ...]
    medians: tuple[float | None, ...] = ()
    together: tuple[float | None, ...] = ()
    counters: tuple[str, ...] = ()
    cluster: str = ""


def gate_numbers(report: Report, digest: str, policy: Policy, cluster: str = "") -> GateNumbers:
    """The numbers of one report. `digest` is the SHA-256 of its file, and `policy` says how its numbers are compared."""
    records = {check: samples.measured(_once(mine)) for check, mine in by_check(report.observations).items()}
    table = _table(records, report, policy)
    numbers = tuple(sorted(table, key=lambda number: number.sort_key))
    columns = [table[number] for number in numbers]
    sums = _sums(records)
    counters = tuple(name for name in _COUNTER_NAMES if any(name in mine for mine in sums.values()))
    shared = Counter(key for node in report.nodes for key in set(keys_of(node)))
    vbios = _vbios(records)
    nodes = tuple(
        NodeNumbers(
            node.name,
            _identity(node, shared, vbios.get(node.name, "")),
            tuple(column.get(node.name) for column in columns),
            tuple(_rounded(sum(sums[node.name][name])) if name in sums.get(node.name, {}) else None for name in counters),
            tuple(len(sums.get(node.name, {}).get(name, ())) for name in counters),
        )
        for node in report.nodes
    )  # fmt: skip
    medians = tuple(_median([value for whose, value in column.items() if whose]) for column in columns)
    return GateNumbers(
        report.gate_id, digest, report.measured_at, _only_report(report), numbers, nodes, medians,
        tuple(column.get("") for column in columns), tuple(" ".join(name) for name in counters), cluster,
    )  # fmt: skip


def seconds(text: str) -> float | None:
    """An ISO 8601 time with an offset, in Unix seconds; None for any other text."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return moment.astimezone(timezone.utc).timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _table(data: Mapping[str, CheckTable], report: Report, policy: Policy) -> dict[Number, dict[str, float]]:
    """The worst value of each node, by number. A check between nodes belongs to all of them together, whose name is ""."""
    table: dict[Number, dict[str, float]] = {}
    for check, mine in data.items():
        line = policy.checks.get(check)
        group = samples.group_of(report, line)
        subjects = mine.columns.subjects
        owners = ["" if group.nodes or subject == CLUSTER else node_of(subject) for subject in subjects]
        runs = samples.OwnerRuns(dict(zip(subjects, owners, strict=True)).__getitem__)
        for (metric, label), series in samples.gather(mine, line).items():
            at = table[Number(check, metric, label, str(group), series.side)] = {}
            worst = max if series.side is samples.Side.HIGH else min
            for whose, begin, end in runs.by_owner(series.subjects):
                value = _rounded(worst(series.values[begin:end]))
                at[whose] = worst(at[whose], value) if whose in at else value
    return table


def _once(table: CheckTable) -> CheckTable:
    """The rows without the subjects that occur twice, because neither of their rows can be trusted."""
    times = Counter(table.columns.subjects)
    if len(times) == len(table):
        return table
    return table.take([index for index, subject in enumerate(table.columns.subjects) if times[subject] == 1])


def _sums(records: Mapping[str, CheckTable]) -> dict[str, dict[tuple[str, str], list[float]]]:
    """Node -> counter -> the values of its parts."""
    sums: dict[str, dict[tuple[str, str], list[float]]] = {}
    for check, metric in _COUNTER_NAMES:
        of_check = records.get(check) or CheckTable.collect(check, ())
        for value, subject in zip(of_check.column(metric), of_check.columns.subjects, strict=True):
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, (int, float)) and not isinstance(item, bool):
                    sums.setdefault(node_of(subject), {}).setdefault((check, metric), []).append(float(item))
    return sums


def _vbios(records: Mapping[str, CheckTable]) -> dict[str, str]:
    """Node -> the versions of its GPUs' VBIOS, each once."""
    inventory = records.get("gpu.inventory") or CheckTable.collect("gpu.inventory", ())
    pairs = zip(inventory.columns.subjects, inventory.column("vbios"), strict=True)
    return {
        node_of(subject): ", ".join(sorted({version for version in value if isinstance(version, str)}))
        for subject, value in pairs
        if isinstance(value, tuple)
    }


def _identity(node: Node, shared: Mapping[str, int], vbios: str) -> NodeIdentity:
    keys = tuple(key for key in keys_of(node) if shared[key] == 1)
    versions = {"driver": node.identity.get("driver", ""), "VBIOS": vbios}
    present = {name: text for name, text in versions.items() if text}
    return NodeIdentity(keys, tuple(sorted(gpu_uuids(node))), present)


def _median(values: Sequence[float]) -> float | None:
    return median_of(values) if len(values) >= LEAST_PEERS else None


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _only_report(report: Report) -> str:
    declared = report.declared
    group = samples.ComparisonGroup(
        declared.instance_type, declared.gpus_per_node, declared.ranks_per_node, report.profile, 0
    )
    return str(group)


def in_order(gates: Sequence[GateNumbers]) -> list[tuple[float, GateNumbers]]:
    """The gates with their times in Unix seconds, oldest first; without a report that was given before, or that has no time."""
    once = {gate.report: gate for gate in sorted(gates, key=lambda gate: gate.gate_id, reverse=True)}
    dated = ((seconds(gate.measured_at), gate) for gate in once.values())
    pairs = [(at, gate) for at, gate in dated if at is not None]
    return sorted(pairs, key=lambda pair: (pair[0], pair[1].report))
