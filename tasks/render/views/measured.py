"""The nodes one by one: what each says of itself, and what each check measured on it, in a line (pure).

The lines are the evidence behind a cell of the table of nodes and checks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.documents.columns import by_check
from checks.judge.rules.wording import figure
from checks.model import Observation, Outcome, Report, Value, node_of
from checks.value_types import listed_names
from tasks.text.inert import one_line

# Characters of all nodes together, and of one line: a page is opened on a phone; the report has the rest.
ROOM, LINE = 250_000, 300
TEXTS = 3


@dataclass(frozen=True)
class MeasuredLine:
    """One check on one node: MEASURED with its values, or why it was not; over all its ranks."""

    check: str
    text: str
    seconds: float


@dataclass(frozen=True)
class MeasuredNode:
    """One node with its identity (driver, GPUs ...), and one line per check that it reported."""

    name: str
    identity: tuple[tuple[str, str], ...]
    lines: tuple[MeasuredLine, ...]


def measured(report: Report, names: Sequence[str]) -> tuple[MeasuredNode, ...]:
    """The nodes of these that reported, as many as there is room for."""
    identities = {node.name: node.identity for node in report.nodes}
    wanted = set(names) & set(identities)
    by_node: dict[str, dict[str, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    for check, table in by_check(report.observations).items():
        mine = [index for index, subject in enumerate(table.columns.subjects) if node_of(subject) in wanted]
        for index in mine:
            result = table[index]
            by_node[node_of(result.subject)][check].append(result)
    nodes, room = [], ROOM
    for name in (name for name in names if name in wanted):
        identity = tuple(
            (one_line(key, 60), one_line(value, 400))
            for key, value in sorted(identities[name].items())
            if value
        )
        lines = tuple(_line(check, results) for check, results in by_node.get(name, {}).items())
        room -= sum(len(line.text) + 150 for line in lines) + sum(len(value) + 50 for _, value in identity)
        if room < 0:
            break
        nodes.append(MeasuredNode(name, identity, lines))
    return tuple(nodes)


def _line(check: str, results: Sequence[Observation]) -> MeasuredLine:
    well = [result for result in results if result.outcome is Outcome.MEASURED]
    lacking = (r.reason or r.outcome.value.lower() for r in results if r.outcome is not Outcome.MEASURED)
    texts = [f"not measured: {one_line(reason, 160)}" for reason in dict.fromkeys(lacking)]
    texts += [f"{name} {text}" for name, text in _values(well)]
    over = f"{len(results)} ranks: " if len(results) > 1 else ""
    line = one_line(f"{over}{'; '.join(texts) or 'no values'}", LINE)
    return MeasuredLine(check, line, max(result.seconds for result in results))


def _values(results: Sequence[Observation]) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys(name for result in results for name in result.metrics):
        values = [value for result in results if (value := result.metrics.get(name)) is not None]
        yield one_line(name, 60), _range_text(values)


def _range_text(values: Sequence[Value]) -> str:
    """The only value, or from the least to the greatest; of texts the first ones."""
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    numbers = [item for item in flat if isinstance(item, (int, float)) and not isinstance(item, bool)]
    if numbers and len(numbers) == len(flat):
        low, high = figure(min(numbers)), figure(max(numbers))
        return low if low == high else f"{low} to {high}"
    texts = list(dict.fromkeys("none" if item is None else one_line(str(item), 60) for item in flat))
    return listed_names(texts, TEXTS) if texts else "none"
