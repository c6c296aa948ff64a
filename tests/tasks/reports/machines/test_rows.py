"""What the engine shows beside what we did, for every pair of the two."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from checks.model import SCHEMA_VERSION
from tasks.machines.base import Holder, Machine, Mark, Rung, ServiceState
from tasks.machines.kubernetes_nodes import machine_of
from tasks.remediation.model import Act, ActState, Identity, Proof
from tasks.reports.machines.rows import Disagreement, OurState, disagreement, machine_rows, our_state
from tasks.reports.machines.table import machines_text, node_text, row_table
from tests.fakes.machines import PlayedMachines, serving

GATE = "p5-20261125-120000-abcd"


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
    ("acts", "expected"),
    [
        ((), OurState.UNTOUCHED),
        ((act(Rung.PAGE),), OurState.UNTOUCHED),
        ((act(Rung.FENCE, ActState.REFUSED),), OurState.UNTOUCHED),
        ((act(Rung.FENCE),), OurState.FENCED),
        ((act(Rung.FENCE), act(Rung.PAGE)), OurState.FENCED),
        ((act(Rung.FENCE, ActState.AMBIGUOUS),), OurState.UNSETTLED),
        ((act(Rung.FENCE, ActState.INTENDED),), OurState.UNSETTLED),
        ((act(Rung.FENCE), act(Rung.REBOOT, ActState.ACCEPTED)), OurState.REPAIRING),
        ((act(Rung.FENCE), act(Rung.REBOOT, ActState.FAILED)), OurState.FENCED),
        ((act(Rung.FENCE), act(Rung.RECHECK, ActState.INTENDED)), OurState.TESTING),
        ((act(Rung.FENCE), act(Rung.RECHECK, proof=Proof.PASSED)), OurState.FENCED),
        ((act(Rung.FENCE), act(Rung.RETURN)), OurState.RETURNED),
        ((act(Rung.FENCE), act(Rung.RETURN, ActState.REFUSED)), OurState.FENCED),
        ((act(Rung.FENCE), act(Rung.RETURN, ActState.FAILED)), OurState.UNSETTLED),
    ],
)
def test_our_acts_say_where_a_node_is(acts: tuple[Act, ...], expected: OurState) -> None:
    """What was refused changed nothing, what may have happened is not settled, and a page moves nothing."""
    assert our_state(acts) is expected


@pytest.mark.parametrize(
    ("found", "ours", "expected"),
    [
        (machine(ServiceState.SERVING), OurState.FENCED, Disagreement.SERVES),
        (machine(ServiceState.SERVING), OurState.REPAIRING, Disagreement.SERVES),
        (machine(ServiceState.OUT, Holder.OTHER), OurState.FENCED, Disagreement.TAKEN),
        (machine(ServiceState.OUT), OurState.FENCED, Disagreement.UNMARKED),
        (machine(ServiceState.OUT, Holder.PRELAUNCH, "other-1"), OurState.FENCED, Disagreement.OTHER_GATE),
        (machine(ServiceState.OUT, Holder.PRELAUNCH), OurState.FENCED, None),
        (machine(ServiceState.TESTING, Holder.PRELAUNCH), OurState.TESTING, None),
        (machine(ServiceState.CHANGING, Holder.PRELAUNCH), OurState.REPAIRING, None),
        (machine(ServiceState.OUT, Holder.PRELAUNCH), OurState.RETURNED, Disagreement.HELD),
        (machine(ServiceState.OUT, Holder.PRELAUNCH), OurState.UNTOUCHED, Disagreement.HELD),
        (machine(ServiceState.OUT, Holder.OTHER), OurState.UNTOUCHED, None),
        (machine(ServiceState.SERVING), OurState.RETURNED, None),
        (None, OurState.FENCED, Disagreement.MISSING),
        (machine(ServiceState.GONE), OurState.TESTING, Disagreement.MISSING),
        (None, OurState.REPAIRING, None),
        (None, OurState.RETURNED, None),
    ],
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


def test_a_silent_engine_leaves_what_we_know() -> None:
    """The rows of our records, without a disagreement."""
    (row,) = machine_rows(None, (act(Rung.FENCE),), PlayedMachines(silent=True))
    text = machines_text((row,), 1060.0, reached=False)

    assert (None, OurState.FENCED, None) == (row.machine, row.ours, row.disagreement)
    assert "the engine did not answer" in text
    assert "not known" in text.splitlines()[1]


def test_unreadable_records_leave_what_the_engine_shows() -> None:
    """Nobody takes a node for untouched because its records could not be read."""
    (row,) = machine_rows(serving("n2").by_name(), None, serving())

    assert (OurState.UNREAD, None) == (row.ours, row.disagreement)


def test_the_table_has_what_an_operator_asks_for() -> None:
    """Both states, the proof and its age, type, holder, since when, acts, jobs and the shell."""
    acts = (act(Rung.FENCE), PROVEN)
    own: dict[str, Any] = {"instance_type": "p5.48xlarge", "jobs": ("17",), "status": "drained"}
    shown = machine(ServiceState.OUT, Holder.PRELAUNCH, since=1000.0, **own)
    (row,) = machine_rows({"n2": shown}, acts, serving())
    line = machines_text((row,), 1690.0, reached=True).splitlines()[1]

    cells = [cell.strip() for cell in line.split("  ") if cell][:7]
    assert ["n2", "out of service", "fenced (recheck 1 done)", "-"] == cells[:4]
    assert ["passed 10 min ago", "-", "p5.48xlarge"] == cells[4:]
    assert line.endswith(f"prelaunch: {GATE} kernel.xid  1970-01-01 00:16:40Z  2     17    shell n2")


def test_the_health_that_an_engine_gives_a_node_stands_beside_our_proof() -> None:
    """HyperPod's labels of a node of EKS; most engines say nothing of it."""
    labels = {
        "sagemaker.amazonaws.com/node-health-status": "Schedulable",
        "sagemaker.amazonaws.com/deep-health-check-status": "Passed",
        "node.kubernetes.io/instance-type": "ml.p5.48xlarge",
    }
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    node = {"metadata": {"name": "n2", "labels": labels}, "status": ready}
    shown = {"n2": machine_of(node), "n3": Machine("n3", ServiceState.SERVING)}
    rows = machine_rows(shown, (PROVEN,), serving())
    lines = machines_text(rows, 1690.0, reached=True).splitlines()
    tables = [row_table(row, 1690.0, True)["engine"] for row in rows]

    assert lines[0].index("last proof") < lines[0].index("health") < lines[0].index("type")
    for word in ("passed 10 min ago", "Schedulable, deep check Passed", "ml.p5.48xlarge"):
        assert word in lines[1]
    assert [table["health"] for table in tables] == ["Schedulable, deep check Passed", None]  # type: ignore[index]


def test_words_of_an_engine_are_data() -> None:
    """No control character reaches a terminal, and no line is added."""
    evil = "n2\x1b[2J\nn3  serving"
    own: dict[str, Any] = dict.fromkeys(("status", "owner", "instance_type"), evil)
    shown = Machine(evil, ServiceState.OUT, Holder.OTHER, jobs=(evil,), **own)
    rows = machine_rows({evil: shown}, (), serving())
    texts = machines_text(rows, 0.0, True), node_text(rows[0], 0.0, True)

    assert not any("\x1b" in text for text in texts)
    assert 3 == len(texts[0].splitlines())


def test_node_text_shows_each_act_with_its_proof() -> None:
    """Verdict, command, who allowed it, the engine's words before and after, and the proof."""
    done = act(
        Rung.REBOOT, allowed_by="ada (Slack)", command="scontrol reboot n2", before="idle+drain", said="requested",
        after="down", proof=Proof.PASSED, found=Identity("b-2"), gate="g9",
    )  # fmt: skip
    (row,) = machine_rows({"n2": machine(ServiceState.SERVING)}, (act(Rung.FENCE), done), serving())
    text = node_text(row, 2000.0, reached=True)

    own = (done.allowed_by, done.command, done.before, done.said, done.after)
    assert all(word and word in text for word in (*own, "digest", "kernel.xid", "b-2", "g9"))
    assert "serves_" not in text
    assert "serves" == row_table(row, 2000.0, True)["disagreement"]
