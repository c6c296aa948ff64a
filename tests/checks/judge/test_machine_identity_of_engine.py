"""A node that ran on another machine than the engine says is missing evidence; one that agrees is not refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.model import Answer, Cause, Report
from tasks.collect import with_engine_identity
from tests.sample_reports import healthy, verdict_of

BOOT = "1b32d552-812d-45e9-9772-cc87775ed73f"


def report(reported: str, engine: dict[str, str]) -> Report:
    """A healthy report whose first node reports this boot id; the engine says this of it."""
    made = healthy()
    first = replace(made.nodes[0], identity={**made.nodes[0].identity, "boot_id": reported})
    return with_engine_identity(replace(made, nodes=(first, *made.nodes[1:])), {first.name: engine})


def test_a_pod_that_lies_is_found() -> None:
    """It is named with both ids and its machine, and nothing is said against any hardware."""
    found = verdict_of(report("0" * 36, {"engine_boot_id": BOOT, "engine_node": "worker-3"}))
    (finding,) = [one for one in found.findings if BOOT in one.message]

    assert (found.answer, finding.cause) == (Answer.CANNOT_TELL, Cause.EVIDENCE)
    assert finding.subject == report(BOOT, {}).nodes[0].name and "worker-3" in finding.message


@pytest.mark.parametrize("engine", [{"engine_boot_id": BOOT}, {"engine_node": "worker-3"}, {}])
def test_a_pod_that_agrees_with_its_engine_gets_its_go(engine: dict[str, str]) -> None:
    """So does one of which the engine says nothing: most engines say nothing."""
    assert verdict_of(report(BOOT, engine)).answer is Answer.GO


def from_node(name: str, engine: dict[str, str]) -> Report:
    """A healthy report whose first node says that it ran on this node of the engine, and lies about its boot id."""
    made = healthy()
    own = {**made.nodes[0].identity, "engine_boot_id": "mine", "engine_node": name}
    nodes = (replace(made.nodes[0], identity=own), *made.nodes[1:])
    return with_engine_identity(replace(made, nodes=nodes), {nodes[0].name: engine})


def test_a_report_stays_about_the_machine_from_which_it_came() -> None:
    """The engine made another pod in the place of the one that reported: its machine is not the one that was measured."""
    moved = from_node("worker-3", {"engine_node": "worker-9", "engine_boot_id": BOOT})
    found = verdict_of(moved)
    (finding,) = found.findings

    assert moved.nodes[0].identity["engine_node"] == "worker-3"
    assert "engine_boot_id" not in moved.nodes[0].identity
    assert (found.answer, finding.cause) == (Answer.CANNOT_TELL, Cause.EVIDENCE)
    assert "worker-3" in finding.message and "worker-9" in finding.message


@pytest.mark.parametrize("engine", [{"engine_node": "worker-3"}, {}])
def test_a_node_cannot_say_for_itself_which_boot_its_engine_knows(engine: dict[str, str]) -> None:
    """One whose node agrees with the engine gets its GO."""
    said = from_node("worker-3", engine)

    assert "engine_boot_id" not in said.nodes[0].identity
    assert (said.nodes[0].identity["engine_node"], verdict_of(said).answer) == ("worker-3", Answer.GO)
