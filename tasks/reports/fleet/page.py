"""The fleet, and one node, as a page: one file that asks for nothing from outside (pure). A page that lies in a folder withdraws the
proofs that have grown too old when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from checks.value_types import age_text
from checks.version import ENGINE
from tasks.render.html import page_template, security
from tasks.render.trend_text import worse_words
from tasks.reports.fleet import text as words
from tasks.reports.fleet.fleet import SEEN_S, Fleet, FleetNode, NodeState
from tasks.store.node_rows import Standing
from tasks.text.inert import one_line
from tasks.text.tables import counted, few

HERE = Path(__file__).parent
CSS = HERE.parents[1] / "render" / "report.css"
TONES = {
    NodeState.CONDEMNED: "fail",
    NodeState.CANNOT_TELL: "unknown",
    NodeState.DOUBTFUL: "warn",
    NodeState.UNPROVEN: "unknown",
    NodeState.PROVEN: "pass",
}
SIGN_TONES = {
    Standing.PROVEN: "pass",
    Standing.DOUBTFUL: "warn",
    Standing.CONDEMNED: "fail",
    Standing.CANNOT_TELL: "unknown",
    Standing.CERTIFIED: "quiet",
}
LINES, REPLACED = 3, 200
# The function says where the report of a gate's id is. The text is empty if nothing can be opened.
LinkOf = Callable[[str], str]


def fleet_page(fleet: Fleet, link_of: LinkOf, title: str = "Fleet") -> str:
    """The page of all machines, the worst first."""
    return _rendered(
        "fleet.html",
        fleet,
        (HERE / "fleet.js").read_text(encoding="utf-8"),
        title=one_line(title, 120),
        tone=_tone(fleet),
        said=one_line(words.answer_line(fleet), 1000),
        moved=one_line(words.moved_line(fleet), 1000),
        advice=[one_line(line, 2000) for line in words.advice_lines(fleet.nodes)],
        nodes=[_node_row(node, link_of) for node in fleet.nodes],
        unseen=[_node_row(node, link_of) for node in fleet.unseen[:REPLACED]],
        untested=one_line(words.untested_line(fleet), 1000),
        seen=age_text(SEEN_S),
        replaced=[_node_row(node, link_of) for node in fleet.replaced[:REPLACED]],
        hidden=max(0, len(fleet.replaced) - REPLACED),
        asked=bool(fleet.has_reply),
        span=age_text(fleet.fresh_s),
        gates=f"{fleet.gates:,}",
        now=f"{fleet.now:.0f}",
        fresh=f"{fleet.fresh_s:.0f}",
    )


def node_page(name: str, fleet: Fleet) -> str:
    """The page of the machines that have, or had, this name."""
    nodes = [*fleet.nodes, *fleet.replaced]
    text = "; ".join(words.state_words(node) for node in fleet.nodes) or "no machine has this name now"
    worst = min(fleet.nodes, key=lambda node: (node.state.rank, not node.trend.worse), default=None)
    tone = TONES[NodeState.UNPROVEN] if worst is None else _tone_of(worst)
    return _rendered(
        "node.html",
        fleet,
        "",
        title=one_line(name, 120),
        tone="unknown" if fleet.problems and tone == "pass" else tone,  # what could not be read is no health
        said=one_line(text, 500),
        about=f"{counted(sum(node.count for node in nodes), 'gate')}; {counted(len(nodes), 'machine')} had this name",
        nodes=[_section(node, fleet) for node in nodes],
    )


def _rendered(template: str, fleet: Fleet, script: str, **more: object) -> str:
    style = CSS.read_text(encoding="utf-8") + (HERE / "fleet.css").read_text(encoding="utf-8")
    return page_template(HERE / template).render(
        style=style,
        script=script,
        policy=security(style, script),
        problems=[one_line(line, 400) for line in fleet.problems[:20]],
        when=words.time_text(fleet.now),
        legend=words.LEGEND,
        engine=ENGINE,
        **more,
    )


def _tone(fleet: Fleet) -> str:
    states = {node.state for node in fleet.nodes}
    if NodeState.CONDEMNED in states:
        return "fail"
    if not states or fleet.problems or states & {NodeState.CANNOT_TELL, NodeState.UNPROVEN}:
        return "unknown"
    return "warn" if NodeState.DOUBTFUL in states or any(node.trend.worse for node in fleet.nodes) else "pass"


def _tone_of(node: FleetNode) -> str:
    """A machine that gets worse is not shown as one that is well, although it is proven."""
    return "warn" if node.state is NodeState.PROVEN and node.trend.worse else TONES[node.state]


def _head(node: FleetNode) -> dict[str, object]:
    """What both pages show of a machine."""
    return {
        "name": one_line(node.name, 120),
        "cluster": one_line(node.cluster, 63),
        "state": f"{node.state.value}, gets worse" if node.trend.worse else node.state.value,
        "tone": _tone_of(node),
        "signs": _signs(node),
    }


def _node_row(node: FleetNode, link_of: LinkOf) -> dict[str, object]:
    """One machine of the table; `at` is when it was proven (Unix time), "" unless it is proven now."""
    proof = node.last_proof if node.state is NodeState.PROVEN else None
    lists = {
        "open": words.open_words(node),
        "worse": worse_words(node.trend),
        "changed": [words.change_words(change) for change in node.trend.changes[-1:]],
        "acts": [words.act_words(act) for act in node.acts[-1:]],
    }
    return {
        **_head(node),
        "at": f"{proof.measured_at:.0f}" if proof else "",
        "proof": one_line(words.proof_words(node), 120),
        "link": link_of(node.gates[-1].gate_id) if node.gates else "",
        "engine": one_line(words.engine_text(node), 200),
        **{name: [one_line(line, 240) for line in few(lines, LINES)] for name, lines in lists.items()},
    }


def _section(node: FleetNode, fleet: Fleet) -> dict[str, object]:
    """One machine on its own page."""
    sections = [
        (title, [one_line(line, 500) for line in lines]) for title, lines in words.node_parts(node, fleet)
    ]
    return {**_head(node), "parts": sections}


def _signs(node: FleetNode) -> tuple[tuple[str, str], ...]:
    """The last gates as signs: those that follow each other and are alike in one."""
    standings = [mark.standing for mark in node.gates[-words.STRIP :]]
    runs = ((standing, len(list(run))) for standing, run in groupby(standings))
    return tuple((SIGN_TONES[standing], words.SIGNS[standing] * count) for standing, count in runs)
