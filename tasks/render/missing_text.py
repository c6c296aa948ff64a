"""Missing evidence in a terminal: one line per cause, because a list of every check that was not measured hides the cause (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from checks.model import Cause, Level
from tasks.render.findings import Group, followed, in_number, independent
from tasks.render.headline import sentence
from tasks.render.views.nodes import CheckLine, State
from tasks.text.inert import one_line
from tasks.text.tables import counted

# As many causes are shown like other findings: in the table, with remedy and evidence.
MOST_WHOLE = 3
# So many checks without evidence have a row of their own in the table of checks.
MOST_ROWS = 8
MOST_LINES, REMEDIES = 12, 4
LINE = 240


def parted(groups: Sequence[Group]) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """The groups to show whole, and those of missing evidence that have one line each: () unless there are many.

    The first group is always whole: it is what the headline says. What follows from a silent node never is.
    """
    missing = tuple(
        item for item in groups[1:] if item.cause is Cause.EVIDENCE and item.level is not Level.PASS
    )
    if sum(not item.follows for item in missing) < MOST_WHOLE:
        missing = tuple(item for item in missing if item.follows)
    return tuple(item for item in groups if item not in missing), missing


def missing_lines(groups: Sequence[Group]) -> list[str]:
    """A line per cause, then what to do about them, each remedy once; then what follows from silent nodes, whose remedy is theirs; and
    where the complete list is.
    """
    own, caused = independent(groups)
    lines = [f"Evidence is also missing for {len(own)} other reasons:", *_listed(own)] if own else []
    remedies: dict[str, list[str]] = {}
    for item in own:
        remedies.setdefault(item.remedy, []).extend(item.subjects)
    remedies.pop("", None)
    lines += [
        f"  do: {one_line(in_number(remedy, subjects), LINE)}"
        for remedy, subjects in list(remedies.items())[:REMEDIES]
    ]
    lines += [f"{followed(caused)}, and need no remedy of their own:", *_listed(caused)] if caused else []
    return [*lines, "  The complete list, with the evidence: --html FILE, or --format json."]


def _listed(groups: Sequence[Group]) -> list[str]:
    more = len(groups) - MOST_LINES
    return [
        *(f"  {one_line(_line(item), LINE)}" for item in groups[:MOST_LINES]),
        *([f"  and {more} more"] if more > 0 else []),
    ]


def _line(item: Group) -> str:
    """Such as "41 checks on node-1 were not measured: its process exited 7"."""
    if item.unmeasured and item.also:
        reasons = "; ".join(dict.fromkeys(each.reason for each in item.unmeasured))
        return f"{counted(len(item.checks), 'check')} on {item.who} were not measured: {reasons}"
    return sentence(item, names=True)


def missing_rows(lines: Sequence[CheckLine]) -> tuple[str, ...]:
    """The checks that lack evidence, gathered by how much of each was observed; () where they are few."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.state is State.UNKNOWN:
            found.setdefault(line.seen, []).append(line.planned.check)
    if sum(map(len, found.values())) <= MOST_ROWS:
        return ()
    return tuple(
        f"cannot tell, {seen} observed, {counted(len(names), 'check')}: {', '.join(names)}"
        for seen, names in found.items()
    )
