"""The digest of a fleet: what its owner is told once a week, whether or not anything is wrong, so that silence means nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from checks.model import Cause
from checks.value_types import age_text
from tasks.gate_file.model import Gate
from tasks.notifiers.base import CANNOT_TELL, Audience, Item, Notification, PageKind, Severity
from tasks.notifiers.deliver import DeliveryResult, deliver
from tasks.paging.content import finish_page
from tasks.reports.fleet.fleet import Fleet, FleetNode, NodeState
from tasks.reports.fleet.text import answer_line, budget_line, moved_line, state_line
from tasks.store.base import Store
from tasks.store.layout import fleet_key
from tasks.text.inert import browsable

# More are on the page.
NODES = 10
WORDS = {
    NodeState.CONDEMNED: "FAIL",
    NodeState.CANNOT_TELL: CANNOT_TELL,
    NodeState.DOUBTFUL: "WARN",
    NodeState.UNPROVEN: CANNOT_TELL,
    NodeState.PROVEN: "WARN",
}


def send_digest(gate: Gate, store: Store, fleet: Fleet) -> DeliveryResult:
    """Send it to the owner of the gate. The digest of the same week again is the same notification."""
    return deliver(gate.notify, store, digest_of(gate, store, fleet))


def digest_of(gate: Gate, store: Store, fleet: Fleet) -> Notification:
    """The notification: the answer, the worst nodes, and where the page is."""
    cluster = gate.cluster.name
    bad = [node for node in fleet.nodes if node.state is not NodeState.PROVEN or node.trend.worse]
    title = f"Fleet {cluster}: {answer_line(fleet)}"
    facts = [
        ("nodes", str(len(fleet.nodes))),
        ("a proof counts for", age_text(fleet.fresh_s)),
        ("chance", budget_line(fleet)),
    ]
    facts += [("all together", moved)] if (moved := moved_line(fleet)) else []
    year, week, _ = datetime.fromtimestamp(fleet.now, UTC).isocalendar()
    page = Notification(
        f"fleet-{cluster}-{year}-w{week:02}", cluster, title, "", browsable(store.location(fleet_key(cluster))),
        gate=gate.name, kind=PageKind.DIGEST, audience=Audience.OWNER,
        severity=Severity.WARNING if bad or fleet.problems or not fleet.nodes else Severity.INFO,
        items=tuple(map(_item, bad[:NODES])), more_items=max(0, len(bad) - NODES), facts=tuple(facts),
    )  # fmt: skip
    return finish_page(page, title)


def _item(node: FleetNode) -> Item:
    cause = node.open[0].finding.cause if node.open else Cause.EVIDENCE
    remedy = f"Look at its history: prelaunch fleet list STORE --node {node.name}"
    text = f"{node.name} is {state_line(node)}"
    return Item(WORDS[node.state], cause.value, node.name, "fleet", text, remedy, (), "")
