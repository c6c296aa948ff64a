"""A check whose own limit passes says which limit that was, and costs the others no more than it must."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks import bundle as bundles
from checks.check import Check, RankPlace
from checks.documents.host_load import Contention
from checks.documents.report import NodeReport
from checks.exchange import secret_key
from checks.facts.builtin import builtin
from checks.model import SCHEMA_VERSION, Declared, ErrorKind, Node, Observation, Outcome, Profile, Skip
from checks.process.observe import errored
from checks.roster import Member, Roster
from checks.runner import node_run, rank_process
from checks.runner.deadline import Deadline
from checks.runner.journal import JournalWriter, ReportJournal
from checks.runner.node_context import NodeContext, write_node_context
from checks.runner.rank_process import RankFile, RankSession
from tests.checks.local_policy import local_policy, lone_node

TOO_SHORT = "its time limit of 0.1 s ([checks] timeouts_s) passed before the check could start"
OVER = "the run's deadline of 120 s passed: the check had not started"
PASSED = "its time limit of 3 s ([checks] timeouts_s)"
NO_RETURN = "not run: the check compute.gemm did not return"


def node_context(folder: Path, timeouts_s: Mapping[str, float]) -> NodeContext:
    """One node of two ranks, with these limits."""
    declared = Declared("cpu", 1, 0, 2, ("node-0",))
    policy = local_policy()
    made = bundles.make("limits", declared, Profile.QUICK, policy, builtin(), timeouts_s=timeouts_s)
    return lone_node(folder, made)


def ranked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, context: NodeContext
) -> tuple[dict[str, dict[str, Any]], list[float]]:
    """The observations of a rank whose checks all measure at once, and for how long it would have waited for its group."""
    groups: list[float] = []

    def observed(check: Check, context: Any, subject: str, line: Any, agree: Any) -> Observation:
        return Observation(check.name, subject, Outcome.MEASURED, 0.0, {"x": 1})

    monkeypatch.setattr("checks.runner.repeated_measurement.observed", observed)
    monkeypatch.setattr(rank_process, "init_group", lambda *given: groups.append(given[2]))
    monkeypatch.setattr(rank_process, "_leave_time_to_tell", lambda longest_s: None)
    path = folder / "rank.jsonl"
    RankSession(context, RankPlace(0, 0, 2, "cpu"), RankFile(path)).run()
    events = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [event["row"] for event in events if event["event"] == "observation"]
    return {row["check"]: row for row in rows}, groups


@pytest.mark.parametrize("name", ["compute.gemm", "collective.all_reduce"])
def test_a_limit_that_is_too_short_is_named_and_costs_its_own_check_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Neither the run's deadline, nor a process group that the other checks of all ranks need as well."""
    rows, groups = ranked(tmp_path, monkeypatch, node_context(tmp_path, {name: 0.1}))
    others = [row for check, row in rows.items() if check != name]

    assert (TOO_SHORT, "limit_too_short") == (rows[name]["reason"], rows[name]["error_kind"])
    assert {"measured"} == {row["outcome"].lower() for row in others} and len(others) > 3
    assert 1 == len(groups) and groups[0] > 5.0


def test_a_rank_without_time_to_join_is_not_told_to_use_torchrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's deadline is the reason."""
    context = node_context(tmp_path, {})
    monkeypatch.setattr(RankSession, "left_s", lambda self: 0.7)
    rows, groups = ranked(tmp_path, monkeypatch, replace(context, deadline=Deadline(120.0, 0.0)))

    assert [] == groups
    assert OVER == rows["collective.all_reduce"]["reason"]


@pytest.mark.parametrize(
    ("timeouts_s", "kind", "reason", "then"),
    [
        ({"compute.gemm": 3.0}, "limit_passed", f"{PASSED} passed", f"{NO_RETURN} within {PASSED}"),
        ({}, "deadline", "the check did not end within its deadline of ", NO_RETURN),
    ],
)
def test_a_rank_that_its_limit_ended_names_it_in_all_that_follows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    timeouts_s: Mapping[str, float],
    kind: str,
    reason: str,
    then: str,
) -> None:
    """The watchdog writes what is known and leaves."""
    path = tmp_path / "rank.jsonl"
    session = RankSession(node_context(tmp_path, timeouts_s), RankPlace(0, 0, 2, "cpu"), RankFile(path))
    monkeypatch.setattr("os._exit", lambda code: None)
    while session.left[0].name != "compute.gemm":
        session.left.pop(0)
    session._give_up()
    first, *others = [json.loads(line)["row"] for line in path.read_text().splitlines()[:-1]]

    assert kind == first["error_kind"] and first["reason"].startswith(reason)
    assert {(then, "not_run")} == {(row["reason"], row["error_kind"]) for row in others}


@pytest.mark.parametrize(
    ("limit_s", "left_s", "kind", "reason"),
    [(0.1, 60.0, ErrorKind.LIMIT_TOO_SHORT, TOO_SHORT), (9.0, 0.2, ErrorKind.OTHER, OVER)],
)
def test_a_check_of_a_node_names_the_limit_that_passed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit_s: float,
    left_s: float,
    kind: ErrorKind,
    reason: str,
) -> None:
    """No process is started for it."""
    monkeypatch.setattr(Deadline, "left_s", lambda self, closing=False: left_s)
    context = replace(node_context(tmp_path, {"disk.io": limit_s}), deadline=Deadline(120.0, 0.0))
    (check,) = (check for check in context.checks if check.name == "disk.io")
    row = node_run._isolated(context, None, 0.0, check)  # type: ignore[arg-type]

    assert (kind, reason) == (row.error_kind, row.reason)


@pytest.mark.parametrize(
    ("kind", "blames"),
    [
        (ErrorKind.LIMIT_PASSED, False),
        (ErrorKind.LIMIT_TOO_SHORT, False),
        (ErrorKind.NOT_RUN, False),
        (ErrorKind.DEADLINE, True),
        (ErrorKind.OTHER, True),
    ],
)
def test_the_load_of_a_node_explains_no_limit_that_somebody_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: ErrorKind, blames: bool
) -> None:
    """Two nodes with one reason, of which one was busy, have one finding."""
    busy = Contention(2, 9.0, 0.5, 0.0)
    monkeypatch.setattr("checks.process.cpu_usage.Watch.contention", lambda self: busy)
    node = Node("node-0", 0, "t", "c", False, {"host": "h"})
    report = NodeReport(SCHEMA_VERSION, "g", "", Profile.QUICK, Declared("cpu", 1, 0, 1), (), node, ())
    writer = JournalWriter(ReportJournal(tmp_path / "node-0.json", report))
    writer([errored("a.a", "node-0", "too late", 0.0, error_kind=kind)])
    (row,) = writer.rows.values()

    assert blames is ("was busy" in row.reason)


LEFT_OUT = ("disk.io", "collective.all_gather", "nccl.tests")


def test_check_left_out_by_the_gate_file_is_observed_as_skipped(tmp_path: Path) -> None:
    """Of the second of two nodes of two ranks, or of each of its ranks; what does not apply to the machine is not spoken of."""
    declared = Declared("cpu", 2, 0, 2, ("node-0", "node-1"))
    made = bundles.make("left-out", declared, Profile.STANDARD, local_policy(), builtin(), skip=LEFT_OUT)
    members = tuple(Member(name, "127.0.0.1", 1000 + at) for at, name in enumerate(declared.node_names))
    second = write_node_context(tmp_path, made, Roster(members, 2000, "lo"), "node-1", secret_key.make())
    planned, rows = {check.name for check in second.planned()}, node_run.left_out(second)

    gathers = [("collective.all_gather", f"node-1/rank-{rank}") for rank in (2, 3)]

    assert not planned & {*LEFT_OUT} and {"memory.stress", "collective.all_reduce"} <= planned
    assert [("disk.io", "node-1"), *gathers] == [(row.check, row.subject) for row in rows]
    assert {(Outcome.SKIPPED, Skip.GATE_FILE)} == {(row.outcome, row.skip) for row in rows}
