"""The fleet, and one machine, for a terminal and as JSON. Pure. Names and messages are data: whatever is shown was made inert."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checks.documents.report import plain
from checks.exit_codes import Exit
from checks.judge.trend.degradation import FALSE_NAMES_A_MONTH
from checks.judge.trend.model import IdentityChange
from checks.model import ANSWER_WORDS, Answer, Cause, Profile
from tasks.remediation.model import Act
from tasks.render.findings import CONFIGURATION
from tasks.render.headline import time_before
from tasks.render.trend_text import course_text, fleet_course_text, growth_text, spark
from tasks.reports.fleet.model import Fleet, FleetNode, GateMark, NodeState, StillOpen
from tasks.reports.machines.table import age_text, time_text
from tasks.store.history import moment
from tasks.store.node_rows import Standing
from tasks.store.records import finding_sentence, is_missing, missing_count
from tasks.text.inert import clean, one_line

# One sign per gate of the strip, so that it can be read without colours.
SIGNS = {
    Standing.PROVEN: "+", Standing.DOUBTFUL: "!", Standing.CONDEMNED: "X", Standing.CANNOT_TELL: "?", Standing.CERTIFIED: "c",
}  # fmt: skip
LEGEND = "last gates, oldest first: + proven, ! doubtful, X condemned, ? cannot tell, c certified"
STRIP, NAMED = 30, 20
NONE = "-"
MISSING = ANSWER_WORDS[Answer.CANNOT_TELL]
COLUMNS = (
    "node",
    "cluster",
    "state",
    "last proof",
    "last gates",
    "open",
    "gets worse",
    "changed",
    "scheduler",
)


def answer_line(fleet: Fleet) -> str:
    """The answer: "62 of 64 nodes proven within 24 h; 1 condemned; 1 unproven (the last proof is 9 d old)"."""
    many = len(fleet.nodes)
    gone = (
        f"; {len(fleet.unseen)} more not named by any gate for {span(fleet.seen_s)}" if fleet.unseen else ""
    )
    if not many:
        return "No node is known" + gone + _incomplete(fleet)
    parts = [
        f"{fleet.count(NodeState.PROVEN)} of {many} node{'' if many == 1 else 's'} proven within {span(fleet.fresh_s)}"
    ]
    for state in (NodeState.CONDEMNED, NodeState.CANNOT_TELL, NodeState.DOUBTFUL):
        if fleet.count(state):
            parts.append(f"{fleet.count(state)} {state.value}")
    parts += _unproven(fleet)
    worse = sum(node.worse for node in fleet.nodes)
    parts += [f"{worse} get{'s' if worse == 1 else ''} worse"] if worse else []
    differ = sum(node.differs is not None for node in fleet.nodes)
    parts += [f"{differ} differ{'s' if differ == 1 else ''} from the scheduler"] if differ else []
    return "; ".join(parts) + gone + _incomplete(fleet)


def moved_line(fleet: Fleet) -> str:
    """What all machines do, or reach together; "" if nothing moved."""
    parts = [fleet_course_text(one) for one in fleet.moved[:1]]
    more = len(fleet.moved) - 1
    parts += [f"{more} more number{'' if more == 1 else 's'}"] if more > 0 else []
    said = f"The fleet moved: {', and '.join(parts)}. No machine is named for that." if parts else ""
    groups = [f"{name}: {course.check} {course.what} {course_text(course)}" for name, courses in fleet.groups.items()
              for course in courses[:1]]  # fmt: skip
    return " ".join([*([said] if said else []), *(f"{line}." for line in groups[:3])])


def budget_line(fleet: Fleet) -> str:
    """How often a healthy machine is named; "" where no number has enough gates to be compared."""
    if not fleet.series:
        return ""
    return (
        f"Of what is said to get worse, at most {FALSE_NAMES_A_MONTH:g} machine a month is expected to be healthy "
        f"({fleet.series:,} numbers compared, {fleet.gates_a_month:.0f} gates a month)."
    )


def doubt_line(nodes: Sequence[FleetNode]) -> str:
    """Why findings about the configuration make nodes doubtful, and what ends that; "" where they make none so."""
    found = [one_line(node.name, 60) for node in nodes if Cause.CONFIGURATION in node.doubts]
    if not found:
        return ""
    several = len(found) > 1
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    who = f"{', '.join(found[:NAMED])}{more} {'are' if several else 'is'} doubtful"
    where = "nodes" if several else "node"
    return (
        f"{who} because of a finding with cause CONFIGURATION. {CONFIGURATION} Set right what it names (the report of its gate has "
        f"the remedy), and run the gate: the first one that measures the check on the {where} without finding it again closes it."
    )


def fleet_code(fleet: Fleet) -> int:
    """1 where a machine is condemned or gets worse; else 3 unless every machine is proven and everything could be read; else 0."""
    moved = fleet.groups or any(one.worse for one in fleet.moved)
    if fleet.count(NodeState.CONDEMNED) or moved or any(node.worse for node in fleet.nodes):
        return int(Exit.NO_GO)
    whole = fleet.nodes and fleet.count(NodeState.PROVEN) == len(fleet.nodes)
    return int(Exit.GO if whole and not fleet.problems and fleet.asked is not False else Exit.CANNOT_TELL)


def fleet_text(fleet: Fleet) -> str:
    """The answer first, then one line per machine, the worst first."""
    lines = [answer_line(fleet)]
    lines += [moved] if (moved := moved_line(fleet)) else []
    if fleet.nodes:
        cells = [COLUMNS, *(_cells(node, fleet) for node in fleet.nodes)]
        shown = [
            place
            for place, name in enumerate(COLUMNS)
            if place in (0, 2) or any(row[place] != NONE for row in cells[1:])
        ]
        widths = {place: max(len(row[place]) for row in cells) for place in shown}
        lines += [
            "",
            *("  ".join(row[place].ljust(widths[place]) for place in shown).rstrip() for row in cells),
        ]
        lines += ["", LEGEND]
        lines += [why] if (why := doubt_line(fleet.nodes)) else []
    lines += [budget_line(fleet)] if fleet.series else []
    if fleet.unseen:
        named = ", ".join(one_line(node.name, 60) for node in fleet.unseen[:NAMED])
        more = f" and {len(fleet.unseen) - NAMED} more" if len(fleet.unseen) > NAMED else ""
        lines.append(f"Not named by any gate for {span(fleet.seen_s)}: {named}{more}")
    gone = len(fleet.replaced)
    lines += (
        [f"{gone} machine{' was' if gone == 1 else 's were'} replaced: another one has the name now."]
        if gone
        else []
    )
    return "\n".join(map(clean, lines)) + "\n"


def node_text(node: FleetNode, fleet: Fleet) -> str:
    """One machine with everything that is kept of it."""
    of_cluster = f" of {one_line(node.cluster, 63)}" if node.cluster else ""
    lines = [f"{one_line(node.name, 120)}{of_cluster}: {state_words(node)}"]
    lines.append(
        f"{node.count} gate{'' if node.count == 1 else 's'}, known by {node.known_by}; {strip(node)}"
    )
    for title, some in node_parts(node, fleet):
        lines += ["", f"{title}:", *(f"  {one_line(line, 500)}" for line in some)]
    return "\n".join([*lines, "", LEGEND]) + "\n"


def node_parts(node: FleetNode, fleet: Fleet) -> Iterator[tuple[str, list[str]]]:
    """The parts of a machine's page that are lists of lines."""
    if node.open:
        yield "Open findings", open_words(node)
    if why := doubt_line([node]):
        yield "Why it is doubtful", [why]
    worse = worse_words(node)
    if worse:
        more = [f"and {len(worse) - NAMED} more"] if len(worse) > NAMED else []
        yield "Gets worse", [*worse[:NAMED], *more]
    if node.changes:
        yield "Changed", [change_words(one) for one in reversed(node.changes[-NAMED:])]
    if node.acts:
        yield "Acts", [act_words(one) for one in reversed(node.acts)]
    if node.engine is not None or node.differs is not None:
        yield "Scheduler", [scheduler_words(node)]
    yield "Gates", [mark_words(mark, fleet.now) for mark in reversed(node.gates[-NAMED:])]
    yield (
        "Numbers",
        [f"{node.steady} steady, {len(node.moves)} worse; of {node.unknown} more nobody can tell yet"],
    )


def fleet_document(fleet: Fleet) -> dict[str, object]:
    """The fleet as JSON; no key is ever absent. Times are Unix seconds, ages seconds."""
    return {
        "said": answer_line(fleet),
        "moved_said": moved_line(fleet),
        "now": fleet.now,
        "fresh_s": fleet.fresh_s,
        "counts": {state.name.lower(): fleet.count(state) for state in NodeState},
        "nodes": [node_document(node) for node in fleet.nodes],
        "replaced": [node_document(node) for node in fleet.replaced],
        "unseen": [node_document(node) for node in fleet.unseen],
        "moved": [{**_table(one), "worse": one.worse} for one in fleet.moved],
        "groups": {name: plain(courses) for name, courses in fleet.groups.items()},
        "series": fleet.series,
        "gates": fleet.gates,
        "gates_a_month": round(fleet.gates_a_month, 3),
        "false_names_a_month": FALSE_NAMES_A_MONTH,
        "scheduler_answered": fleet.asked,
        "problems": list(fleet.problems),
    }


def node_document(node: FleetNode, whole: bool = False) -> dict[str, object]:
    """One machine as JSON; `whole` adds all its gates and the course of every number."""
    return {
        "name": node.name,
        "cluster": node.cluster,
        "known_by": node.known_by,
        "state": node.state.name.lower(),
        "last_proof": plain(node.last_proof),
        "proof_age_s": None if node.proof_age_s is None else round(node.proof_age_s, 1),
        "looked_at": node.looked_at,
        "gates": node.count,
        "strip": strip(node),
        "open": plain(node.open),
        "doubts": plain(node.doubts),
        "moves": [_table(one) for one in (node.courses if whole else node.moves)],
        "growing": plain(node.growing),
        "gone": list(node.gone),
        "steady": node.steady,
        "unknown": node.unknown,
        "changes": plain(node.changes),
        "acts": plain(node.acts),
        "ours": node.ours.name.lower() if node.ours else None,
        "scheduler": None
        if node.engine is None
        else {"service": node.engine.service.value, "words": node.engine.words, "who": node.engine.who},
        "differs": node.differs.value if node.differs else None,
        **({"marks": plain(node.gates)} if whole else {}),
    }


def state_words(node: FleetNode) -> str:
    """ "condemned; proven 9 d ago by gate g (deep)"."""
    if node.last_proof is None:
        return f"{node.state.value}; never proven"
    return f"{node.state.value}; {proof_words(node)} by {one_line(node.last_proof.gate_id, 120)}"


def proof_words(node: FleetNode) -> str:
    """ "proven 3 h ago (quick)"."""
    if node.last_proof is None or node.proof_age_s is None:
        return "never"
    profile = f" ({node.last_proof.profile.value})" if isinstance(node.last_proof.profile, Profile) else ""
    ago = (
        "in the future, so that its age is not known"
        if node.proof_age_s < -1
        else f"{span(node.proof_age_s)} ago"
    )
    return f"proven {ago}{profile}"


def strip(node: FleetNode) -> str:
    """One sign per gate, oldest first."""
    return "".join(SIGNS[mark.standing] for mark in node.gates[-STRIP:])


def finding_words(one: StillOpen) -> str:
    """A finding as a sentence, with the first gate of the unbroken row that found it, and the last one."""
    return f"{_head(one)}: {finding_sentence(one.finding)} ({_since(one)})"


def open_words(node: FleetNode) -> list[str]:
    """The open findings, one line each; what one gate could not measure of the machine is one line."""
    return [finding_words(some[0]) if len(some) == 1 else _missing_words(some) for some in _open(node)]


def _open(node: FleetNode) -> list[tuple[StillOpen, ...]]:
    """The open findings in their order. Those that one gate has for want of evidence are together, where the first of them is."""
    found: dict[object, list[StillOpen]] = {}
    for place, one in enumerate(node.open):
        found.setdefault(one.gate_id if is_missing(one.finding) else place, []).append(one)
    return [tuple(some) for some in found.values()]


def _missing_words(some: Sequence[StillOpen]) -> str:
    """ "CANNOT TELL 10 checks (20 results), first collective.all_gather: node-1, rank 2: not measured (since ...)"."""
    first = min(some, key=lambda one: (one.since, not one.at_least))
    return f"{MISSING} {_count_words(some)}, first {some[0].finding.check}: {finding_sentence(some[0].finding)} ({_since(first)})"


def _count_words(some: Sequence[StillOpen]) -> str:
    return missing_count(len({one.finding.check for one in some}), len(some))


def _head(one: StillOpen) -> str:
    finding = one.finding
    word = MISSING if is_missing(finding) else f"{finding.level.value} {finding.cause.value}"
    return f"{word} {finding.check}"


def _since(one: StillOpen) -> str:
    since = f"{'at least since' if one.at_least else 'since'} {one.since}, {one.since_gate_id}"
    return since + ("" if one.gate_id == one.since_gate_id else f"; last seen {one.last_seen}, {one.gate_id}")


def worse_words(node: FleetNode) -> list[str]:
    """What gets worse of the machine."""
    return [
        *(f"{c.check} {c.what} {spark(c.points)} {course_text(c)}" for c in node.moves),
        *(f"{g.check} {g.metric} {spark(g.points)} {growth_text(g)}" for g in node.growing),
        *node.gone,
    ]


def change_words(one: IdentityChange) -> str:
    """ "driver 570 -> 580, since gate g"."""
    return f"{one.what} {one.before} -> {one.after}, since {one.gate_id}"


def act_words(act: Act) -> str:
    """One act in a line."""
    return f"{time_text(act.intended_at)} {act.rung.value} {act.number}: {act.state.value} (for {act.gate_id}, {act.finding})"


def scheduler_words(node: FleetNode) -> str:
    """The scheduler's word beside ours."""
    said = "does not know the node" if node.engine is None else node.engine.service.value
    words = f" ({node.engine.words})" if node.engine is not None and node.engine.words else ""
    differs = f"; DIFFERS: {node.differs.value}" if node.differs else ""
    return f"{said}{words}{differs}"


def mark_words(mark: GateMark, now: float) -> str:
    """One gate of a machine, by the time of its verdict; when it measured is said where that was at another time: a proof's age counts
    from there.
    """
    profile = f", {mark.profile.value}" if mark.profile else ""
    apart = time_before(moment(mark.judged_at), mark.measured_at or None)
    measured = f", measured at {time_text(mark.measured_at)}" if apart else ""
    said = f"{SIGNS[mark.standing]} {mark.judged_at} {mark.standing.value.replace('_', ' ')} as {mark.node} by {mark.gate_id}"
    why = f": {mark.finding}" if mark.finding else ""
    failed = f"; {mark.failure}" if mark.failure else ""
    return f"{said}{profile}{measured}{why}{failed}"


def span(seconds: float) -> str:
    """A duration in its largest unit; a day and less in hours."""
    return f"{seconds / 3600:.0f} h" if 3600 <= seconds < 2 * 86_400 else age_text(seconds)


def _unproven(fleet: Fleet) -> list[str]:
    found = [node for node in fleet.nodes if node.state is NodeState.UNPROVEN]
    if not found:
        return []
    never = sum(node.proof_age_s is None for node in found)
    ages = [node.proof_age_s for node in found if node.proof_age_s is not None]
    oldest = [f"the oldest proof is {span(max(ages))} old"] if ages else []
    said = ", ".join([*oldest, *([f"{never} never proven"] if never else [])])
    return [f"{len(found)} unproven ({said})"]


def _incomplete(fleet: Fleet) -> str:
    silent = fleet.asked is False
    many = len(fleet.problems) - silent
    parts = ["the scheduler did not answer"] if silent else []
    parts += [f"{many} thing{'' if many == 1 else 's'} could not be read"] if many else []
    return f"; NOT COMPLETE: {' and '.join(parts)}" if parts else ""


def _cells(node: FleetNode, fleet: Fleet) -> tuple[str, ...]:
    found = _open(node)
    worst = sorted(found, key=lambda some: (-some[0].finding.level.rank, is_missing(some[0].finding)))[:1]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    worse = worse_words(node)
    return (
        one_line(node.name, 60),
        one_line(node.cluster, 40) or NONE,
        node.state.value,
        proof_words(node),
        strip(node) or NONE,
        _short([f"{_open_cell(some)}{more}" for some in worst]),
        _short(
            [one_line(worse[0], 100) + (f" and {len(worse) - 1} more" if len(worse) > 1 else "")]
            if worse
            else []
        ),
        _short([one_line(change_words(one), 80) for one in node.changes[-1:]]),
        one_line(scheduler_words(node), 100) if fleet.asked else NONE,
    )


def _open_cell(some: Sequence[StillOpen]) -> str:
    """Such as "FAIL collective.all_reduce", or "CANNOT TELL 10 checks"."""
    finding = some[0].finding
    if not is_missing(finding):
        return f"{finding.level.value} {finding.check}"
    checks = len({one.finding.check for one in some})
    return f"{MISSING} {finding.check if checks == 1 else f'{checks} checks'}"


def _short(texts: Sequence[str]) -> str:
    return texts[0] if texts else NONE


def _table(value: object) -> dict[str, object]:
    table = plain(value)
    return table if isinstance(table, dict) else {}
