"""Ways to take something from a report, or to make it invalid: of rows, of values, of whole parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from checks.facts.builtin import builtin
from checks.policy import RELATIVE, CheckPolicy

Document = dict[str, Any]


def _columns(check: Document) -> Iterator[list[Any]]:
    for name, column in check.items():
        yield from column.values() if name == "metrics" else [column]


def without(check: Document, place: int) -> None:
    """One observation less."""
    for column in _columns(check):
        del column[place]


def errored(check: Document, place: int) -> None:
    """An observation that says that nothing was measured."""
    check["outcomes"][place] = "ERRORED"
    for column in check["metrics"].values():
        column[place] = None


def errored_with_numbers(check: Document, place: int) -> None:
    """An observation that says so beside its numbers."""
    check["outcomes"][place] = "ERRORED"


def skipped(check: Document, place: int) -> None:
    """An observation that was left out on the node, for a reason that a policy may accept."""
    check["outcomes"][place], check["skips"][place] = "SKIPPED", "not permitted on this node"


def twice(check: Document, place: int) -> None:
    """A second observation of the same subject."""
    for column in _columns(check):
        column.append(column[place])


def renamed(check: Document, place: int) -> None:
    """An observation of nobody."""
    check["subjects"][place] += "x"


def without_numbers(check: Document, place: int) -> None:
    """An observation that claims to be measured and has no values."""
    for column in check["metrics"].values():
        column[place] = None


ROW_SPOILS: tuple[Callable[[Document, int], None], ...] = (
    without, errored, errored_with_numbers, skipped, twice, renamed, without_numbers,
)  # fmt: skip
# What stands in a metric's place afterwards, given what stood there.
VALUE_SPOILS: dict[str, Callable[[Any], Any]] = {
    "null": lambda value: None,
    "empty": lambda value: [],
    "a table": lambda value: {},
    "nested": lambda value: [[value]],
    "a null in front": lambda value: [None, *value[1:]] if isinstance(value, list) else None,
    "cut": lambda value: value[:-1] if isinstance(value, list) else None,
    "past every range": lambda value: 10**400,
    "not JSON's": lambda value: float("nan"),
}


def _other(item: Any) -> Any:
    return 5 if isinstance(item, str) else "n/a"


# Where a rule looks at the metric by itself, another type in its place is seen too.
RULED_SPOILS: dict[str, Callable[[Any], Any]] = {
    "another type": lambda value: [*map(_other, value)] if isinstance(value, list) else _other(value),
    "truth": lambda value: True if not isinstance(value, bool) else "True",
}


Draw = Callable[[st.SearchStrategy[Any]], Any]


def lose_value(
    draw: Draw, document: Document, lines: Mapping[str, CheckPolicy], kind: str
) -> tuple[str, str]:
    """Spoil a value of a report of machines of this type: the name of its check, and what was done to which metric."""
    name = draw(st.sampled_from(sorted(name for name, one in document["checks"].items() if one["metrics"])))
    planned = next(line for line in document["plan"] if line["check"] == name)
    metric = draw(st.sampled_from(sorted(planned["metrics"])))
    metrics, line = document["checks"][name]["metrics"], lines[name]
    place = draw(st.integers(0, len(metrics[metric]) - 1))
    ruled = any(rule.metric == metric and not (rule.same or rule.uniform) for rule in line.rules)
    spoils = {**VALUE_SPOILS, **(RULED_SPOILS if ruled else {})}
    spoil = draw(st.sampled_from(sorted(spoils)))
    held = metrics[metric][place]
    # Elements that nothing names may be as many as there are: events of a log, ports of a host.
    many = isinstance(held, list) and len(held) > 1
    assume(spoil != "cut" or not many or is_named(line, metric, metrics, place))
    # What the model does not have cannot be lost.
    assume(spoil != "a null in front" or metric not in builtin().absent(kind, name))
    metrics[metric][place] = spoils[spoil](held)
    return name, f"{metric}: {spoil}"


def without_subjects(document: Document, gone: Callable[[str], bool]) -> None:
    """No observation of these subjects in any check."""
    for check in document["checks"].values():
        for place in reversed(range(len(check["subjects"]))):
            if gone(check["subjects"][place]):
                without(check, place)


def bad(value: Any) -> Any:
    """The value, or its last element, far below every bound."""
    if isinstance(value, list):
        return [*value[:-1], bad(value[-1])] if value else value
    return -1e9 if type(value) in (int, float) else value


def mixed(document: Document, chance: Any) -> None:
    """Nodes, checks, columns and the rows of a check in another order."""
    chance.shuffle(document["nodes"])
    document["checks"] = dict(chance.sample(sorted(document["checks"].items()), len(document["checks"])))
    for check in document["checks"].values():
        order = chance.sample(range(len(check["subjects"])), len(check["subjects"]))
        for name, column in check.items():
            if name != "metrics":
                check[name] = [column[i] for i in order]
                continue
            keys = chance.sample(sorted(column), len(column))
            check[name] = {key: [column[key][i] for i in order] for key in keys}


def is_named(line: CheckPolicy, metric: str, metrics: dict[str, Any], place: int) -> bool:
    """Whether a list has as many elements as its labels, or is itself what names those of another."""
    pairs = {(rule.metric, name) for rule in line.rules for name in (rule.each, rule.at) if name}
    labels = {name for _, name in pairs}
    if len(labels) == 1:
        pairs |= {(rule.metric, label) for rule in line.rules if rule.over in RELATIVE for label in labels}
    both = (pair for pair in pairs if metric in pair)
    return any(all(isinstance(metrics.get(name, [None] * 99)[place], list) for name in pair) for pair in both)
