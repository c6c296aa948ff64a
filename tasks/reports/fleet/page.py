"""The fleet, and one node, as a page: one file that asks for nothing from outside (pure). A page that lies in a folder withdraws the
proofs that have grown too old when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from checks.version import ENGINE
from tasks.render.html import page_template, security
from tasks.render.trend_page import Panel, panels
from tasks.render.trend_text import still
from tasks.reports.fleet.model import Fleet, FleetNode, NodeState
from tasks.reports.fleet.text import (
    LEGEND,
    SIGNS,
    STRIP,
    act_words,
    answer_line,
    budget_line,
    change_words,
    doubt_line,
    moved_line,
    node_parts,
    open_words,
    proof_words,
    scheduler_words,
    span,
    state_words,
    worse_words,
)
from tasks.reports.machines.table import time_text
from tasks.store.node_rows import Standing
from tasks.text.inert import one_line

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
# Of a gate's id, where its report is, "" if nothing can be opened.
LinkOf = Callable[[str], str]


@dataclass(frozen=True)
class Row:
    """One machine of the table; `at` is when it was proven (Unix time), "" unless it is proven now."""

    name: str
    cluster: str
    state: str
    tone: str
    at: str
    proof: str
    signs: tuple[tuple[str, str], ...]
    link: str
    open: tuple[str, ...]
    worse: tuple[str, ...]
    changed: tuple[str, ...]
    acts: tuple[str, ...]
    scheduler: str


@dataclass(frozen=True)
class Section:
    """One machine on its own page."""

    name: str
    cluster: str
    state: str
    tone: str
    signs: tuple[tuple[str, str], ...]
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    panels: tuple[Panel, ...]


def fleet_page(fleet: Fleet, link_of: LinkOf, title: str = "Fleet") -> str:
    """The page of all machines, the worst first."""
    script = (HERE / "fleet.js").read_text(encoding="utf-8")
    return _rendered(
        "fleet.html",
        fleet,
        script,
        title=one_line(title, 120),
        tone=_tone(fleet),
        said=one_line(answer_line(fleet), 1000),
        moved=one_line(moved_line(fleet), 1000),
        doubt=one_line(doubt_line(fleet.nodes), 2000),
        nodes=[_row(node, link_of) for node in fleet.nodes],
        unseen=[_row(node, link_of) for node in fleet.unseen[:REPLACED]],
        seen=span(fleet.seen_s) if fleet.unseen else "",
        replaced=[_row(node, link_of) for node in fleet.replaced[:REPLACED]],
        hidden=max(0, len(fleet.replaced) - REPLACED),
        asked=fleet.asked is not None,
        span=span(fleet.fresh_s),
        gates=f"{fleet.gates:,}",
        now=f"{fleet.now:.0f}",
        fresh=f"{fleet.fresh_s:.0f}",
    )


def node_page(name: str, fleet: Fleet) -> str:
    """The page of the machines that have, or had, this name."""
    nodes = [*fleet.nodes, *fleet.replaced]
    said = "; ".join(state_words(node) for node in fleet.nodes) or "no machine has this name now"
    worst = min(fleet.nodes, key=lambda node: (node.state.rank, not node.worse), default=None)
    tone = TONES[NodeState.UNPROVEN] if worst is None else _tone_of(worst)
    return _rendered(
        "node.html",
        fleet,
        "",
        title=one_line(name, 120),
        tone=_worse_of(tone) if fleet.problems else tone,
        said=one_line(said, 500),
        about=_many(sum(node.count for node in nodes), "gate")
        + f"; {_many(len(nodes), 'machine')} had this name",
        nodes=[_section(node, fleet) for node in nodes],
    )


def _rendered(template: str, fleet: Fleet, script: str, **more: object) -> str:
    style = CSS.read_text(encoding="utf-8") + (HERE / "fleet.css").read_text(encoding="utf-8")
    return page_template(HERE / template).render(
        style=style,
        script=script,
        policy=security(style, script),
        problems=[one_line(line, 400) for line in fleet.problems[:20]],
        when=time_text(fleet.now),
        budget=one_line(budget_line(fleet), 400),
        legend=LEGEND,
        engine=ENGINE,
        **more,
    )


def _tone(fleet: Fleet) -> str:
    states = {node.state for node in fleet.nodes}
    if NodeState.CONDEMNED in states:
        return "fail"
    if not states or fleet.problems or states & {NodeState.CANNOT_TELL, NodeState.UNPROVEN}:
        return "unknown"
    return "warn" if NodeState.DOUBTFUL in states or any(node.worse for node in fleet.nodes) else "pass"


def _tone_of(node: FleetNode) -> str:
    """A machine that gets worse is not shown as one that is well, although it is proven."""
    return "warn" if node.state is NodeState.PROVEN and node.worse else TONES[node.state]


def _label(node: FleetNode) -> str:
    return f"{node.state.value}, gets worse" if node.worse else node.state.value


def _worse_of(tone: str) -> str:
    """What could not be read is never shown as health."""
    return "unknown" if tone == "pass" else tone


def _row(node: FleetNode, link_of: LinkOf) -> Row:
    proven = node.state is NodeState.PROVEN and node.last_proof is not None
    return Row(
        one_line(node.name, 120),
        one_line(node.cluster, 63),
        _label(node),
        _tone_of(node),
        f"{node.last_proof.measured_at:.0f}" if proven and node.last_proof else "",
        one_line(proof_words(node), 120),
        _signs(node),
        link_of(node.gates[-1].gate_id) if node.gates else "",
        tuple(_few(open_words(node))),
        tuple(_few(worse_words(node))),
        tuple(one_line(change_words(one), 200) for one in node.changes[-1:]),
        tuple(one_line(act_words(act), 200) for act in node.acts[-1:]),
        one_line(scheduler_words(node), 200),
    )


def _section(node: FleetNode, fleet: Fleet) -> Section:
    parts = tuple(
        (title, tuple(one_line(line, 500) for line in lines)) for title, lines in node_parts(node, fleet)
    )
    return Section(
        one_line(node.name, 120), one_line(node.cluster, 63), _label(node), _tone_of(node), _signs(node), parts,
        panels(node.moves, node.growing, still(node.courses)),
    )  # fmt: skip


def _signs(node: FleetNode) -> tuple[tuple[str, str], ...]:
    """The last gates as signs: those that follow each other and are alike in one."""
    standings = [mark.standing for mark in node.gates[-STRIP:]]
    return tuple((SIGN_TONES[one], SIGNS[one] * len(list(some))) for one, some in groupby(standings))


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _few(lines: Sequence[str]) -> Iterator[str]:
    yield from (one_line(line, 240) for line in lines[:LINES])
    if len(lines) > LINES:
        yield f"and {len(lines) - LINES} more"
