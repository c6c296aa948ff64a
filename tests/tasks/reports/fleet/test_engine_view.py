"""What the engine shows beside what we did, for every pair of the two."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from checks.judge.trend.numbers import NodeIdentity
from checks.model import SCHEMA_VERSION
from tasks.machines.base import Holder, Machine, Mark, Rung, ServiceState
from tasks.machines.kubernetes_nodes import machine_of
from tasks.remediation.model import Act, ActState, Identity, Proof
from tasks.reports.fleet.engine_view import Disagreement, OurState, disagreement, machine_rows, our_state
from tasks.reports.fleet.fleet import Fleet, FleetNode, NodeState
from tasks.reports.fleet.states import fleet_of
from tasks.reports.fleet.text import answer_line, engine_text, fleet_text, node_document, node_text
from tasks.store.node_rows import NodeRow, Standing
from tests.fakes.machines import serving
from tests.tasks.kept_gates import known_of
from tests.tasks.parameters import spread
from tests.tasks.reports.fleet.test_states import NOW, gate

GATE = "p5-20261125-120000-abcd"
NODE = FleetNode("a", "c", NodeState.UNPROVEN, (), 0, None, None, 0.0)


def act(
    rung: Rung, state: ActState = ActState.DONE, at: float = 1000.0, node: str = "n2", **more: object
) -> Act:
    """An act on n2."""
    return Act(
        SCHEMA_VERSION, f"{GATE}-{node}-{rung.value}-1", "c", node, GATE, rung, 1, state, at, at, "w", "digest", "kernel.xid",
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


PROVEN = act(Rung.RECHECK, at=1100.0, proof=Proof.PASSED, measured_at=1090.0, gate="g2")


def machine(
    service: ServiceState, holder: Holder = Holder.NOBODY, gate: str = GATE, **more: object
) -> Machine:
    """n2 as the engine shows it."""
    mark = Mark(gate, "kernel.xid") if holder is Holder.PRELAUNCH else None
    return Machine("n2", service, holder, mark=mark, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "acts"),
    spread(
        (OurState.UNTOUCHED, ((), (act(Rung.PAGE),), (act(Rung.FENCE, ActState.REFUSED),))),
        (OurState.FENCED, ((act(Rung.FENCE),), (act(Rung.FENCE), act(Rung.PAGE)))),
        (OurState.FENCED, ((act(Rung.FENCE), act(Rung.REBOOT, ActState.FAILED)),)),
        (OurState.FENCED, ((act(Rung.FENCE), act(Rung.RECHECK, proof=Proof.PASSED)),)),
        (OurState.FENCED, ((act(Rung.FENCE), act(Rung.RETURN, ActState.REFUSED)),)),
        (OurState.UNSETTLED, ((act(Rung.FENCE, ActState.AMBIGUOUS),), (act(Rung.FENCE, ActState.INTENDED),))),
        (OurState.UNSETTLED, ((act(Rung.FENCE), act(Rung.RETURN, ActState.FAILED)),)),
        (OurState.REPAIRING, ((act(Rung.FENCE), act(Rung.REBOOT, ActState.ACCEPTED)),)),
        (OurState.TESTING, ((act(Rung.FENCE), act(Rung.RECHECK, ActState.INTENDED)),)),
        (OurState.RETURNED, ((act(Rung.FENCE), act(Rung.RETURN)),)),
    ),
)
def test_our_acts_say_where_a_node_is(acts: tuple[Act, ...], expected: OurState) -> None:
    """What was refused changed nothing, what may have happened is not settled, and a page moves nothing."""
    assert our_state(acts) is expected


@pytest.mark.parametrize(
    ("ours", "expected", "found"),
    spread(
        (OurState.FENCED, Disagreement.SERVES, (machine(ServiceState.SERVING),)),
        (OurState.REPAIRING, Disagreement.SERVES, (machine(ServiceState.SERVING),)),
        (OurState.FENCED, Disagreement.OTHER_HOLDER, (machine(ServiceState.OUT, Holder.OTHER),)),
        (OurState.FENCED, Disagreement.UNMARKED, (machine(ServiceState.OUT),)),
        (OurState.FENCED, Disagreement.OTHER_GATE, (machine(ServiceState.OUT, Holder.PRELAUNCH, "other-1"),)),
        (OurState.FENCED, None, (machine(ServiceState.OUT, Holder.PRELAUNCH),)),
        (OurState.TESTING, None, (machine(ServiceState.TESTING, Holder.PRELAUNCH),)),
        (OurState.REPAIRING, None, (machine(ServiceState.CHANGING, Holder.PRELAUNCH), None)),
        (OurState.RETURNED, Disagreement.HELD, (machine(ServiceState.OUT, Holder.PRELAUNCH),)),
        (OurState.UNTOUCHED, Disagreement.HELD, (machine(ServiceState.OUT, Holder.PRELAUNCH),)),
        (OurState.UNTOUCHED, None, (machine(ServiceState.OUT, Holder.OTHER),)),
        (OurState.RETURNED, None, (machine(ServiceState.SERVING), None)),
        (OurState.FENCED, Disagreement.MISSING, (None,)),
        (OurState.TESTING, Disagreement.MISSING, (machine(ServiceState.GONE),)),
    ),
)
def test_a_contradiction_is_named(
    found: Machine | None, ours: OurState, expected: Disagreement | None
) -> None:
    """The engine serves what we fenced, the other way round, and what lies between."""
    assert disagreement(found, ours, act(Rung.FENCE)) is expected


def test_disagreement_is_none_for_unknown_states() -> None:
    """Neither an act whose effect is not known, nor a state that the engine does not tell."""
    machines = [machine(service, holder) for service, holder in itertools.product(ServiceState, Holder)]
    unsettled = {disagreement(one, OurState.UNSETTLED, None) for one in (*machines, None)}
    untold = {disagreement(machine(ServiceState.UNKNOWN), ours, None) for ours in OurState}

    assert ({None}, {None}) == (unsettled, untold)


def test_unreadable_records_leave_what_the_engine_shows() -> None:
    """Nobody takes a node for untouched because its records could not be read."""
    (row,) = machine_rows(serving("n2").by_name(), None, serving())

    assert (OurState.UNREAD, None) == (row.ours, row.disagreement)


def shown_by_engine(*machines: Machine, acts: tuple[Act, ...] = (), one_name: str = "n2") -> Fleet:
    """A fleet without a gate, of which the engine shows these machines."""
    views = machine_rows({one.node: one for one in machines}, acts, serving())
    found = fleet_of(known_of(()), 1690.0, 1e9, views={row.node: row for row in views}, one_name=one_name)
    return replace(found, has_reply=True)


def text_of(found: Fleet) -> str:
    """What is printed of the one node."""
    (node,) = found.nodes
    return node_text(node, found)


def test_a_node_that_no_gate_has_tested_is_listed_and_not_counted() -> None:
    """Its engine may have machines on which no gate ever runs."""
    found = shown_by_engine(machine(ServiceState.SERVING), one_name="")

    assert ((), ["n2"]) == (found.nodes, [node.name for node in found.untested])
    assert "No gate has tested 1 other node: n2" in fleet_text(found)


def test_a_contradiction_at_a_node_that_no_gate_has_tested_is_said_and_counted() -> None:
    """Our mark is there, and no act explains it. A node that only old acts name, and nothing holds, is none."""
    gone = act(Rung.RETURN, node="n7")
    found = shown_by_engine(machine(ServiceState.OUT, Holder.PRELAUNCH), acts=(gone,), one_name="")

    assert "1 differs from the engine" in answer_line(replace(found, nodes=(NODE,)))
    text = fleet_text(found)
    assert f"1 other node: n2 ({Disagreement.HELD.value})" in text and "n7" not in text


def test_a_node_is_joined_with_the_engine_by_the_engine_s_name() -> None:
    """On Kubernetes the gate calls node-1 what the engine and our acts call ip-10-0-0-7."""
    row = NodeRow("node-1", Standing.CONDEMNED, 1000.0, 0, (), NodeIdentity(("k",)), "ip-10-0-0-7")
    gates = (gate(3600.0, row),)
    fenced = act(Rung.FENCE, node="ip-10-0-0-7")
    views = machine_rows({"ip-10-0-0-7": Machine("ip-10-0-0-7", ServiceState.SERVING)}, (fenced,), serving())
    by_node = {row.node: row for row in views}
    found = fleet_of(known_of(gates), NOW, 1e9, {("c", "ip-10-0-0-7"): [fenced]}, by_node)

    (node,) = found.nodes
    assert ((), Disagreement.SERVES, 1) == (found.untested, node.differs, len(node.acts))
    assert "ip-10-0-0-7: serving; DIFFERS: serves, but Prelaunch fenced it" == engine_text(node)


def test_one_node_shows_what_an_operator_asks_for() -> None:
    """Both states, the proof, the type, who holds it since when, jobs and the shell."""
    own: dict[str, Any] = {"instance_type": "p5.48xlarge", "jobs": ("17",), "status": "drained"}
    shown = machine(ServiceState.OUT, Holder.PRELAUNCH, since=1000.0, **own)
    found = shown_by_engine(shown, acts=(act(Rung.FENCE), PROVEN))
    lines = [line.strip() for line in text_of(found).splitlines()]

    assert lines[lines.index("Engine:") + 1 :][:5] == [
        "out of service (drained)",
        f"held by prelaunch: {GATE} kernel.xid since 1970-01-01 00:16:40Z",
        "jobs: 17",
        "instance type: p5.48xlarge",
        "shell: shell n2",
    ]
    assert "proof: passed" in lines and (OurState.FENCED, 2) == (
        found.nodes[0].ours,
        len(found.nodes[0].acts),
    )


def test_the_health_that_an_engine_gives_a_node_is_shown() -> None:
    """HyperPod's labels of a node of EKS; most engines say nothing of it."""
    labels = {
        "sagemaker.amazonaws.com/node-health-status": "Schedulable",
        "sagemaker.amazonaws.com/deep-health-check-status": "Passed",
        "node.kubernetes.io/instance-type": "ml.p5.48xlarge",
    }
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    node = {"metadata": {"name": "n2", "labels": labels}, "status": ready}
    found = shown_by_engine(machine_of(node), Machine("n3", ServiceState.SERVING), one_name="")
    documents: list[Any] = [node_document(one)["engine"] for one in found.untested]

    assert "Schedulable, deep check Passed)" in node_text(found.untested[0], found)
    assert [one["health"] for one in documents] == ["Schedulable, deep check Passed", ""]


def test_words_of_an_engine_are_data() -> None:
    """No control character reaches a terminal, and no line is added."""
    evil = "n2\x1b[2J\nn3  serving"
    own: dict[str, Any] = dict.fromkeys(("status", "owner", "instance_type"), evil)
    found = shown_by_engine(Machine(evil, ServiceState.OUT, Holder.OTHER, jobs=(evil,), **own), one_name=evil)
    listed = replace(found, nodes=(), untested=found.nodes)
    texts = text_of(found), fleet_text(listed), fleet_text(found)

    assert not any("\x1b" in text or "\nn3" in text for text in texts)


def test_one_node_shows_each_act_with_its_proof() -> None:
    """Verdict, command, who allowed it, the engine's words before and after, and the proof."""
    done = act(
        Rung.REBOOT, allowed_by="ada (Slack)", command="scontrol reboot n2", before="idle+drain", said="requested",
        after="down", proof=Proof.PASSED, found=Identity("b-2"), gate="g9",
    )  # fmt: skip
    found = shown_by_engine(machine(ServiceState.SERVING), acts=(act(Rung.FENCE), done))
    text = text_of(found)

    own = (done.allowed_by, done.command, done.before, done.said, done.after)
    assert all(word and word in text for word in (*own, "digest", "kernel.xid", "b-2", "g9"))
    assert "serving; DIFFERS: serves, but Prelaunch fenced it" in text
    assert "serves" == node_document(found.nodes[0])["differs"]
