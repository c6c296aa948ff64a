"""A gate on a watched machine opens what it found and closes what its pass answers; on another machine it writes nothing."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.documents import open_findings as documents
from checks.documents.open_findings import Closer, FindingKey, OpenFinding, OpenFindings
from checks.documents.report import NodeReport
from checks.model import Action, Cause, Level, Outcome, Report, node_of
from checks.probes.host import machine, system
from checks.process import machine_state
from checks.process.machine_state import FINDINGS, VARIABLE
from checks.runner.in_job.open_findings import close_answered, open_found, settle_alone
from tests.sample_reports import POLICY, WHEN, healthy, verdict_of, with_metric, with_row, wrong_sums

BOOT = machine.boot_id(system.ROOT)
OPEN = OpenFinding(
    FindingKey("system.clock", "", "wall_rate", Cause.CONFIGURATION), Level.FAIL, Action.NONE, "runs slow", "", True, "watch",
    100.0, 200.0, 0.0, BOOT,
)  # fmt: skip


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a machine that is watched."""
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / FINDINGS).write_bytes(documents.dump(OpenFindings(open=(OPEN,))))
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


def a_pass(folder: Path, *answered: str, boot_id: str = BOOT) -> Path:
    node = PassedNode("algo-7", 0, {"boot_id": boot_id}, answered)
    path = folder / "pass.json"
    path.write_bytes(bundles.dump(Pass(1, "gate-9", "d", WHEN, (node,))))
    return path


def test_the_pass_closes_what_it_answered(tmp_path: Path, state: Path) -> None:
    close_answered(a_pass(tmp_path, OPEN.key.name))
    known = machine_state.read(state)

    assert known.open == ()
    assert [(Closer.GATE, "gate-9")] == [(one.closer, one.who) for one in known.closed]


@pytest.mark.parametrize(
    ("answered", "boot_id"), [((), BOOT), (("another/name",), BOOT), ((OPEN.key.name,), "b")]
)
def test_a_pass_that_does_not_name_it_or_is_of_another_machine_closes_nothing(
    tmp_path: Path, state: Path, answered: tuple[str, ...], boot_id: str
) -> None:
    close_answered(a_pass(tmp_path, *answered, boot_id=boot_id))

    assert (OPEN,) == machine_state.read(state).open


def test_open_finding_seen_after_the_measurement_stays_open(tmp_path: Path, state: Path) -> None:
    later = replace(OPEN, seen_at=2e9)
    (state / FINDINGS).write_bytes(documents.dump(OpenFindings(open=(later,))))
    close_answered(a_pass(tmp_path, OPEN.key.name))

    assert (later,) == machine_state.read(state).open


def own_report(name: str, report: Report) -> NodeReport:
    """What one node of a report wrote itself."""
    node = next(one for one in report.nodes if one.name == name)
    rows = tuple(row for row in report.observations if node_of(row.subject) == name)
    node = replace(node, identity={**node.identity, "boot_id": BOOT})
    return NodeReport(1, "gate-9", WHEN, report.profile, report.declared, report.plan, node, rows)


def test_checks_whose_verdict_is_made_elsewhere_close_what_they_measured_after_the_remedy(
    state: Path,
) -> None:
    """What a person mends in place is proven by the measurement; broken hardware by a measurement after a restart."""
    before, after = broken("another boot"), broken(BOOT)
    (state / FINDINGS).write_bytes(documents.dump(OpenFindings(open=(OPEN, before, after))))
    settle_alone(POLICY, own_report("node-1", healthy(nodes=2)))
    known = machine_state.read(state)

    assert (after,) == known.open
    assert {(Closer.GATE, "gate-9")} == {(one.closer, one.who) for one in known.closed}


def broken(boot_id: str) -> OpenFinding:
    """A finding of the watch about hardware, of that boot."""
    key = FindingKey("system.clock", f"board {boot_id[:4]}", "wall_rate", Cause.HARDWARE)
    return replace(OPEN, key=key, boot_id=boot_id)


def test_checks_that_were_not_made_or_failed_close_nothing(state: Path) -> None:
    """And what only the other node measured says nothing of this one."""
    well, name = healthy(nodes=2), "system.clock"
    failed = with_row(well, name, "node-1", lambda row: replace(row, outcome=Outcome.ERRORED, metrics={}))
    others = tuple(row for row in well.observations if row.check != name)
    elsewhere = tuple(row for row in well.observations if row.subject != "node-1")
    for report in (replace(well, observations=others), failed, replace(well, observations=elsewhere)):
        settle_alone(POLICY, own_report("node-1", report))

        assert (OPEN,) == machine_state.read(state).open


def test_node_opens_its_own_findings_and_leaves_those_it_cannot_judge(state: Path) -> None:
    """One node does not judge the collectives of all, and opens no evidence that it lacks."""
    sick = with_metric(wrong_sums(healthy(nodes=2)), "system.clock", "node-1", "wall_rate", 0.5)
    kept = replace(OPEN, key=FindingKey("gemm", "rank-3", "tflops", Cause.HARDWARE), boot_id="another boot")
    (state / FINDINGS).write_bytes(documents.dump(OpenFindings(open=(kept,))))
    settle_alone(POLICY, own_report("node-1", sick))
    opened = [one for one in machine_state.read(state).open if one != kept]

    assert kept in machine_state.read(state).open
    assert ["system.clock"] == [one.key.check for one in opened]


def opened(name: str, report: Report) -> None:
    """What the gate of a job leaves on one of its two nodes."""
    open_found(own_report(name, report), verdict_of(report).findings, {}, {})


def test_a_gate_opens_what_it_found_on_this_node(state: Path) -> None:
    sick = wrong_sums(healthy(nodes=2))
    opened("node-0", sick)
    assert not [one for one in machine_state.read(state).open if one.by == "gate-9"]
    opened("node-1", sick)
    [found] = [one for one in machine_state.read(state).open if one.by == "gate-9"]

    assert ("collective.all_reduce", "rank-3", Level.FAIL) == (found.key.check, found.key.part, found.level)


def test_no_gate_makes_a_file_on_a_machine_without_a_watch(tmp_path: Path, state: Path) -> None:
    (state / FINDINGS).unlink()
    sick = wrong_sums(healthy(nodes=2))
    opened("node-1", sick)
    close_answered(a_pass(tmp_path, OPEN.key.name))

    assert [] == os.listdir(state)


def test_a_broken_file_stays_as_it_is_and_stops_nothing(tmp_path: Path, state: Path) -> None:
    (state / FINDINGS).write_text("{")
    close_answered(a_pass(tmp_path, OPEN.key.name))
    opened("node-1", healthy(nodes=2))

    assert "{" == (state / FINDINGS).read_text()


def test_a_lock_that_nobody_gives_back_stops_no_gate(tmp_path: Path, state: Path) -> None:
    """Such as that of a watch that was stopped in the middle of its change: what is not closed stays open."""
    with open(state / f".{FINDINGS}.lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        close_answered(a_pass(tmp_path, OPEN.key.name))

        assert (OPEN,) == machine_state.read(state).open
        with pytest.raises(TimeoutError, match="lock"):
            machine_state.change(state, lambda known: known)


@pytest.mark.parametrize("change", [("{", "}"), (WHEN, "yesterday")], ids=["no JSON", "no time"])
def test_a_pass_that_cannot_be_read_closes_nothing(
    tmp_path: Path, state: Path, change: tuple[str, str]
) -> None:
    """Nor one that is not there."""
    path = a_pass(tmp_path, OPEN.key.name)
    path.write_text(path.read_text().replace(*change))
    close_answered(path)
    close_answered(tmp_path / "none")

    assert (OPEN,) == machine_state.read(state).open
