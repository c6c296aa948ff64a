"""The fleet, and one machine, for a terminal and as JSON. Pure. Names and messages are data: whatever is shown was made inert."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from checks.documents.report import plain, plain_table
from checks.exit_codes import Exit
from checks.judge.clocks import seconds_of
from checks.judge.trend.degradation import FALSE_NAMES_A_MONTH
from checks.judge.trend.time_series import IdentityChange
from checks.model import ANSWER_WORDS, Answer, Cause, Profile
from checks.value_types import age_text, listed_names
from tasks.machines.base import Holder
from tasks.remediation.model import Act
from tasks.render import trend_text
from tasks.render.findings import CONFIGURATION
from tasks.render.headline import time_before
from tasks.reports.fleet.fleet import SEEN_S, Fleet, FleetNode, GateMark, NodeState, StillOpen
from tasks.store.node_rows import Standing
from tasks.store.records import finding_sentence, findings_line, is_missing
from tasks.text.inert import clean, one_line
from tasks.text.tables import aligned, counted, few

# One sign per gate of the strip, so that it can be read without colours.
SIGNS = {
    Standing.PROVEN: "+", Standing.DOUBTFUL: "!", Standing.CONDEMNED: "X", Standing.CANNOT_TELL: "?", Standing.CERTIFIED: "c",
}  # fmt: skip
LEGEND = (
    "last gates, oldest first: + passed, ! a warning or another failure, X its hardware failed, ? evidence is missing, "
    "c an earlier gate stands for a check"
)
STRIP, LIMIT = 30, 20
NONE = "-"
# What the first line about an act has, and what a person cannot read.
IN_HEAD = (
    "node", "rung", "number", "state", "intended_at", "changed_at", "measured_at", "finding", "gate_id",
)  # fmt: skip
MISSING = ANSWER_WORDS[Answer.CANNOT_TELL]
COLUMNS = (
    "node", "cluster", "state", "last proof", "last gates", "open", "gets worse", "changed", "engine",
)  # fmt: skip
# What a state means, and what ends it.
ADVICE = {
    NodeState.CONDEMNED: "a check of its hardware failed, and no later gate has passed it. Repair or replace the machine, "
    "then run the gate: if the check passes, the finding is closed.",
    NodeState.CANNOT_TELL: "its last gate lacks evidence about it. Run the gate again. Its report says what is missing.",
    NodeState.DOUBTFUL: "a warning, or a failure that is not of its hardware, is open. Correct what the finding names "
    "(prelaunch judge and the gate's id print the remedy), then run the gate: if the check passes, the finding is closed.",
    NodeState.UNPROVEN: "no gate passed it recently enough (--fresh). Run a gate on the machine.",
}  # fmt: skip


def answer_line(fleet: Fleet) -> str:
    """The answer: "62 of 64 nodes proven within 24 h; 1 condemned; 1 unproven (the last proof is 9 days old)"."""
    gone = f"; {len(fleet.unseen)} more not named by any gate for {age_text(SEEN_S)}" if fleet.unseen else ""
    if not fleet.nodes:
        return f"No gate has tested a node{' lately' if fleet.unseen else ' yet'}{gone}{_incomplete(fleet)}"
    nodes = counted(len(fleet.nodes), "node")
    texts = [f"{fleet.count(NodeState.PROVEN)} of {nodes} proven within {age_text(fleet.fresh_s)}"]
    states = (NodeState.CONDEMNED, NodeState.CANNOT_TELL, NodeState.DOUBTFUL)
    texts += [f"{fleet.count(state)} {state.value}" for state in states if fleet.count(state)]
    texts += _unproven(fleet)
    counts = {
        "get{} worse": sum(node.trend.worse for node in fleet.nodes),
        "differ{} from the engine": sum(node.differs is not None for node in (*fleet.nodes, *fleet.untested)),
    }
    texts += [f"{count} {verb.format('s' if count == 1 else '')}" for verb, count in counts.items() if count]
    return "; ".join(texts) + gone + _incomplete(fleet)


def moved_line(fleet: Fleet) -> str:
    """What all machines do, or reach together; "" if nothing moved."""
    groups = [
        f"{name}: {courses[0].check} {courses[0].what} {trend_text.course_text(courses[0])}."
        for name, courses in fleet.groups.items()
    ]
    return " ".join([*filter(None, [trend_text.moved_text(fleet.trend)]), *groups[:3]])


def advice_lines(nodes: Sequence[FleetNode]) -> list[str]:
    """What to do about the machines that are not proven, one line for each state."""
    lines = []
    for state, advice in ADVICE.items():
        mine = [node for node in nodes if node.state is state]
        causes = sorted({cause for node in mine for cause in node.doubts})
        because = f" ({listed_names([f'cause {cause.value}' for cause in causes], LIMIT)})" if causes else ""
        means = f" {CONFIGURATION}" if Cause.CONFIGURATION in causes else ""
        lines += [f"{state.value}{because}: {advice}{means}"] if mine else []
    return lines


def fleet_code(fleet: Fleet) -> int:
    """1 where a machine is condemned or gets worse; else 3 unless every machine is proven and everything could be read; else 0."""
    moved = fleet.groups or any(course.worse for course in fleet.trend.fleet)
    if fleet.count(NodeState.CONDEMNED) or moved or any(node.trend.worse for node in fleet.nodes):
        return int(Exit.NO_GO)
    whole = fleet.nodes and fleet.count(NodeState.PROVEN) == len(fleet.nodes)
    return int(Exit.GO if whole and not fleet.problems and fleet.has_reply is not False else Exit.CANNOT_TELL)


def fleet_text(fleet: Fleet) -> str:
    """The answer first, then one line per machine, the worst first."""
    lines = [answer_line(fleet), *filter(None, [moved_line(fleet)])]
    if fleet.nodes:
        columns = list(zip(COLUMNS, *(_cells(node, fleet) for node in fleet.nodes), strict=True))
        filled = [column for column in columns if column[0] in ("node", "state") or set(column[1:]) != {NONE}]
        lines += ["", *aligned(list(zip(*filled, strict=True))), "", LEGEND, *advice_lines(fleet.nodes)]
    if fleet.unseen:
        names = listed_names([one_line(node.name, 60) for node in fleet.unseen], LIMIT)
        lines.append(f"Not named by any gate for {age_text(SEEN_S)}: {names}")
    lines += filter(None, [untested_line(fleet)])
    if gone := len(fleet.replaced):
        were = "machine was" if gone == 1 else "machines were"
        lines.append(f"{gone} {were} replaced: another one has the name now.")
    return "\n".join(map(clean, lines)) + "\n"


def node_text(node: FleetNode, fleet: Fleet) -> str:
    """One machine with everything that is kept of it."""
    of_cluster = f" of cluster {one_line(node.cluster, 63)}" if node.cluster else ""
    signs = f" (last results: {strip(node)})" if node.gates else ""
    lines = [
        f"{one_line(node.name, 120)}{of_cluster} is {state_words(node)}.",
        f"{counted(node.count, 'gate')} tested it{signs}. Prelaunch recognises it by {node.trend.known_by}.",
    ]
    for title, some in node_parts(node, fleet):
        lines += ["", f"{title}:", *(f"  {one_line(line, 500)}" for line in some)]
    return "\n".join([*lines, "", LEGEND]) + "\n"


def node_parts(node: FleetNode, fleet: Fleet) -> Iterator[tuple[str, list[str]]]:
    """The parts of a machine's page that are lists of lines; one without a line is left out."""
    trend = node.trend
    engine = node.engine is not None or node.differs is not None
    sections = {
        "Open findings": open_words(node),
        "What to do": advice_lines([node]),
        "Gets worse": few(trend_text.worse_words(trend)),
        "Changed": [change_words(change) for change in reversed(trend.changes[-LIMIT:])],
        "Acts": [line for act in reversed(node.acts) for line in (act_words(act), *_act_details(act))],
        "Engine": [engine_text(node), *_engine_details(node)] if engine else [],
        "Gates": [mark_words(mark, fleet.now) for mark in reversed(node.gates[-LIMIT:])],
        "Numbers": [
            f"{trend.steady} steady, {len(trend.degrading)} worse, {trend.unknown} without a trend",
            *trend_text.unknown_lines(trend),
            *few([trend_text.course_line(course) for course in trend_text.still(trend.courses)]),
        ],
    }
    yield from ((title, lines) for title, lines in sections.items() if lines)


def fleet_document(fleet: Fleet, whole: bool = False) -> dict[str, object]:
    """The fleet as JSON; no key is ever absent. Times are Unix seconds, ages seconds. `whole` as in `node_document`."""
    return {
        "said": answer_line(fleet),
        "moved_said": moved_line(fleet),
        "now": fleet.now,
        "fresh_s": fleet.fresh_s,
        "counts": {state.name.lower(): fleet.count(state) for state in NodeState},
        "nodes": [node_document(node, whole) for node in fleet.nodes],
        "replaced": [node_document(node, whole) for node in fleet.replaced],
        "unseen": [node_document(node) for node in fleet.unseen],
        "untested": [node_document(node) for node in fleet.untested],
        "moved": [plain_table(course) | {"worse": course.worse} for course in fleet.trend.fleet],
        "groups": {name: plain(courses) for name, courses in fleet.groups.items()},
        "series": fleet.trend.series,
        "gates": fleet.gates,
        "gates_a_month": round(fleet.trend.gates_a_month, 3),
        "false_names_a_month": FALSE_NAMES_A_MONTH,
        "engine_answered": fleet.has_reply,
        "problems": list(fleet.problems),
    }


def node_document(node: FleetNode, whole: bool = False) -> dict[str, object]:
    """One machine as JSON; `whole` adds all its gates and the course of every number."""
    trend, engine = node.trend, node.engine
    return {
        "name": node.name,
        "cluster": node.cluster,
        "known_by": trend.known_by,
        "state": node.state.name.lower(),
        "last_proof": plain(node.last_proof),
        "proof_age_s": None if node.proof_age_s is None else round(node.proof_age_s, 1),
        "looked_at": node.looked_at,
        "gates": node.count,
        "strip": strip(node),
        "open": plain(node.open),
        "doubts": plain(node.doubts),
        "moves": plain(trend.courses if whole else trend.degrading),
        "growing": plain(trend.growing),
        "steady": trend.steady,
        "unknown": trend.unknown,
        "changes": plain(trend.changes),
        "acts": plain(node.acts),
        "engine_node": node.engine_node or None,
        "ours": node.ours.name.lower() if node.ours else None,
        "engine": engine
        and {**plain_table(engine), "health": engine.engine_health, "shell": node.shell_command},
        "differs": node.differs.name.lower() if node.differs else None,
        **({"marks": plain(node.gates)} if whole else {}),
    }


def state_line(node: FleetNode) -> str:
    """ "condemned; proven 9 d ago by gate g (deep); FAIL ..."."""
    return "; ".join([state_words(node), *(open_words(node) or trend_text.worse_words(node.trend))[:1]])


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
        else f"{age_text(node.proof_age_s)} ago"
    )
    return f"proven {ago}{profile}"


def strip(node: FleetNode) -> str:
    """One sign per gate, oldest first."""
    return "".join(SIGNS[mark.standing] for mark in node.gates[-STRIP:])


def open_words(node: FleetNode) -> list[str]:
    """The open findings, one line each, with the first gate of the unbroken row that found it, and the last one; what one gate could
    not measure of the machine is one line.
    """
    return [_open_line(some) for some in _open(node)]


def _open(node: FleetNode) -> list[tuple[StillOpen, ...]]:
    """The open findings in their order. Those that one gate has for want of evidence are together, where the first of them is."""
    groups: dict[object, list[StillOpen]] = {}
    for index, entry in enumerate(node.open):
        groups.setdefault(entry.gate_id if is_missing(entry.finding) else index, []).append(entry)
    return [tuple(some) for some in groups.values()]


def _open_line(some: Sequence[StillOpen]) -> str:
    finding, first = some[0].finding, min(some, key=lambda entry: (entry.since, not entry.at_least))
    heading = MISSING if is_missing(finding) else f"{finding.level.value} {finding.cause.value}"
    text = f"{heading} {finding.check}: {finding_sentence(finding)}"
    if len(some) > 1:
        text = findings_line([entry.finding for entry in some])
    since = f"{'at least since' if first.at_least else 'since'} {first.since}, {first.since_gate_id}"
    last = "" if first.gate_id == first.since_gate_id else f"; last seen {first.last_seen}, {first.gate_id}"
    return f"{text} ({since}{last})"


def change_words(change: IdentityChange) -> str:
    """ "driver 570 -> 580, since gate g"."""
    return f"{change.what} {change.before} -> {change.after}, since {change.gate_id}"


def act_words(act: Act) -> str:
    """One act in a line."""
    done = f"{act.rung.value} {act.number}: {act.state.value} at {time_text(act.changed_at)}"
    return f"{time_text(act.intended_at)} {done} (for {act.gate_id}, {act.finding})"


def engine_text(node: FleetNode) -> str:
    """The engine's state of the node, and how it contradicts our records."""
    if node.engine is None:
        text, details = "does not know the node", ""
    else:
        text = node.engine.service.value
        details = ", ".join(filter(None, (node.engine.status, node.engine.engine_health)))
    differs = f"; DIFFERS: {node.differs.value}" if node.differs else ""
    called = f"{node.engine_node}: " if node.engine_node else ""
    return f"{called}{text}{f' ({details})' if details else ''}{differs}"


def _engine_details(node: FleetNode) -> Iterator[str]:
    """What else the engine says of the node; what is empty is left out."""
    machine = node.engine
    if machine is None:
        return
    if machine.holder is not Holder.NOBODY:
        holder = machine.owner if machine.holder is Holder.OTHER else str(machine.mark or "")
        since = "" if machine.since is None else f" since {time_text(machine.since)}"
        yield f"held by {holder or machine.holder.value}{since}"
    jobs = ", ".join(machine.jobs)
    texts = {"jobs": jobs, "instance type": machine.instance_type, "shell": node.shell_command}
    yield from (f"{name}: {text}" for name, text in texts.items() if text)


def untested_line(fleet: Fleet) -> str:
    """The other nodes of the engine and of our records, and how these two differ; "" if there is none."""
    texts = [
        one_line(f"{node.name}{f' ({node.differs.value})' if node.differs else ''}", 120)
        for node in fleet.untested
    ]
    many = counted(len(texts), "other node")
    return f"No gate has tested {many}: {listed_names(texts, LIMIT)}" if texts else ""


def _act_details(act: Act) -> Iterator[str]:
    """What a record has besides, in one line each; what is empty is left out."""
    record = plain_table(act)
    record |= {f"found {name}": value for name, value in plain_table(record.pop("found")).items()}
    yield from (f"  {name}: {value}" for name, value in record.items() if value and name not in IN_HEAD)


def time_text(seconds: float) -> str:
    """A time in Unix seconds, in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "unknown time"


def mark_words(mark: GateMark, now: float) -> str:
    """One gate of a machine, by the time of its verdict; when it measured is said where that was at another time: a proof's age counts
    from there.
    """
    profile = f", {mark.profile.value}" if mark.profile else ""
    apart = time_before(seconds_of(mark.judged_at), mark.measured_at or None)
    measured = f", measured at {time_text(mark.measured_at)}" if apart else ""
    text = f"{SIGNS[mark.standing]} {mark.judged_at} {mark.standing.value.replace('_', ' ')} as {mark.node} by {mark.gate_id}"
    reason = f": {mark.finding}" if mark.finding else ""
    failed = f"; {mark.failure}" if mark.failure else ""
    return f"{text}{profile}{measured}{reason}{failed}"


def _unproven(fleet: Fleet) -> list[str]:
    nodes = [node for node in fleet.nodes if node.state is NodeState.UNPROVEN]
    if not nodes:
        return []
    never = sum(node.proof_age_s is None for node in nodes)
    ages = [node.proof_age_s for node in nodes if node.proof_age_s is not None]
    oldest = [f"the oldest proof is {age_text(max(ages))} old"] if ages else []
    text = ", ".join([*oldest, *([f"{never} never proven"] if never else [])])
    return [f"{len(nodes)} unproven ({text})"]


def _incomplete(fleet: Fleet) -> str:
    silent = fleet.has_reply is False
    many = len(fleet.problems) - silent
    texts = ["the engine did not answer"] if silent else []
    texts += [f"{counted(many, 'record')} could not be read"] if many else []
    return f"; this list may be incomplete, because {' and '.join(texts)}" if texts else ""


def _cells(node: FleetNode, fleet: Fleet) -> tuple[str, ...]:
    groups = sorted(_open(node), key=lambda some: (-some[0].finding.level.rank, is_missing(some[0].finding)))
    return (
        one_line(node.name, 60),
        one_line(node.cluster, 40) or NONE,
        node.state.value,
        proof_words(node),
        strip(node) or NONE,
        _first([_open_cell(some) for some in groups]),
        _first([one_line(line, 100) for line in trend_text.worse_words(node.trend)]),
        one_line(change_words(node.trend.changes[-1]), 80) if node.trend.changes else NONE,
        one_line(engine_text(node), 100) if fleet.has_reply else NONE,
    )


def _first(texts: Sequence[str]) -> str:
    return " ".join(few(texts, 1)) or NONE


def _open_cell(some: Sequence[StillOpen]) -> str:
    """Such as "FAIL collective.all_reduce", or "CANNOT TELL 10 checks"."""
    finding = some[0].finding
    if not is_missing(finding):
        return f"{finding.level.value} {finding.check}"
    checks = len({entry.finding.check for entry in some})
    return f"{MISSING} {finding.check if checks == 1 else f'{checks} checks'}"
