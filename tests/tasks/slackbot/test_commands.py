"""/prelaunch, over real HTTP and a real WebSocket, with a real Prefect server: what it does, and what its answers say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checks.documents.report import dump_plain
from checks.model import Declared, Report
from tasks.render.findings import verdict_json
from tasks.reports.fleet.states import HOUR_S
from tasks.slackbot import commands
from tasks.slackbot.history import PastVerdict
from tasks.slackbot.prefect_client import PrefectError, PrefectRuns
from tasks.store import node_rows
from tasks.store.layout import record_key, verdict_key
from tasks.store.node_rows import Standing, rows_of
from tasks.store.records import keep, record_of
from tests.fakes.slack.blockkit import faults
from tests.sample_reports import POLICY, healthy, verdict_of, wrong_sums
from tests.tasks.reports.fleet.test_states import CLOCK, fleet, gate, node
from tests.tasks.slackbot.stage import ADA, EVE, Stage, deployed, runs_of, stage

# 2026-11-23 10:12 UTC
JUDGED_S = 1_795_428_720.0
SAID = "The nodes were measured 3 days before this verdict, 2026-11-20 10:12 UTC."

GO, NO_GO, RETEST = "test-20261122-060000-0001", "test-20261122-050000-0002", "test-20261122-063000-0003"


pytestmark = pytest.mark.usefixtures("prefect_backend")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A workspace, a gate file and a list, whose deployment bears the test's name, and the process that serves them."""
    with stage(tmp_path, monkeypatch, deployment=f"p5-{tmp_path.name}") as made, made.app():
        yield made


def told(world: Stage, user: str, text: str) -> str:
    """What one person reads after they typed it."""
    count = len(world.slack.responses)
    world.socket.command(user, text)
    body = world.socket.answered(count + 1)[-1]
    assert ("ephemeral", []) == (body["response_type"], faults(body["blocks"]))
    return json.dumps(body["blocks"], ensure_ascii=False).replace("\u2060", "")


def kept(world: Stage, gate_id: str, report: Report, cluster: str = "test") -> None:
    """A verdict of before, as a gate keeps it."""
    verdict = verdict_of(report)
    world.store.put(verdict_key(gate_id), dump_plain(verdict_json(verdict)))
    keep(world.store, record_of(gate_id, report, verdict, "key", 1e9, "test", cluster))


def test_a_gate_is_started_once_however_often_the_command_is_delivered(world: Stage) -> None:
    """The run bears who asked, and the answer says why they did. A deployment that names no gate file gets the list's."""
    made = deployed(f"p5-{world.folder.name}", {"request": {"wait": "verdict"}})

    sent = world.socket.command(ADA, "gate p5 after the <!channel> repair")
    world.socket.answered(1)
    payload = {**sent.payload, "response_url": world.slack.response_url()}
    world.socket.deliver("slash_commands", payload)  # another envelope, the same command

    first, second = (json.dumps(body["blocks"]) for body in world.socket.answered(2))
    (run,) = runs_of(made)
    assert "Started `p5`" in first and str(run.id) in first
    assert str(run.id) in second
    assert "after the &lt;!channel&gt; repair" in first.replace("\\u2060", "")
    assert {"prelaunch", "by slack", f"by {ADA}"} <= set(run.tags)
    assert {"gate_file": str(world.file), "wait": "verdict"} == run.parameters["request"]


def test_slack_command_starts_no_gate_for_a_stranger_or_another_gate_file(world: Stage) -> None:
    """They hear who may; the list names a file, and the file is what decides who may answer."""
    made = deployed(f"p5-{world.folder.name}", {"request": {"gate_file": str(world.folder / "other.toml")}})

    assert f"You may not start `p5`: <@{ADA}> may" in told(world, EVE, "gate p5")
    assert "is for" in told(world, ADA, "gate p5")
    assert [] == runs_of(made)


def test_repairs_are_started_by_the_same_people_where_the_list_names_their_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one nothing is started."""
    with stage(tmp_path, monkeypatch, deployment="p5-repairs") as world:
        made = deployed("p5-repairs", {"request": {"gate_file": str(world.file)}}, "remedy")
        with world.app():
            assert "has no deployment for repairs" in told(world, ADA, "remedy p5")
        text = world.config.read_text()
        world.config.write_text(text.replace("[gates.p5]", '[gates.p5]\nremedy = "remedy/p5-repairs"'))
        with world.app():
            assert "You may not start" in told(world, EVE, "remedy p5")
            assert "Started the repairs of `p5`" in told(world, ADA, "remedy p5")
        assert 1 == len(runs_of(made))


def test_slack_command_explains_what_it_cannot_do(world: Stage) -> None:
    """With the nearest name, and help."""
    for text, said in (
        ("gate p5", "has no deployment"),
        ("gate p6", "`p6` is not in the list of gates. Did you mean `p5`?"),
        ("gate", "Which gate? There is `p5`."),
        ("statsu", "`statsu` is not a command. Did you mean `status`?"),
        ("", "/prelaunch gate NAME"),
        ("help", "/prelaunch why"),
        ("why", "The store has no refusal of p5"),
        ("why nothing", "No gate of this app has a verdict of nothing"),
        ("why test-20261122-000000-ffff", "No gate of this app has a verdict of"),
        ("status p7", "`p7` is not in the list of gates"),
        ("`<!here>` <@U1>", "`'&lt;!here&gt;'` is not a command"),
    ):
        assert said in told(world, ADA, text)


def test_status_and_why_name_the_question_and_findings(world: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest verdict that was no go, or the one that was asked for, also where another version wrote it or a record cannot be
    read. A re-test is only shown if its id is asked for. Verdicts are in the store, and are shown where the server does not answer.
    """
    kept(world, NO_GO, wrong_sums(healthy()))
    kept(world, GO, healthy())
    kept(world, RETEST, wrong_sums(healthy()), "test-retest-0a1b2c3d")
    world.ask()

    said = told(world, EVE, "status")
    assert "*p5* on cluster test" in said and "waits for an answer" in said
    assert f"last verdict: GO 2001-09-09T01:46:40Z (`{GO}`)" in said
    for asked in ("why", "why p5", f"why {NO_GO}"):
        said = told(world, EVE, asked)
        assert "NO-GO test: node-1, rank 3 computes wrong sums" in said
        assert "12 wrong values in all_reduce" in said and NO_GO in said and "Observed" in said
    assert RETEST in told(world, EVE, f"why {RETEST}")

    world.store.put(verdict_key(NO_GO), b'{"level": "FAIL"}')
    said = told(world, EVE, "why")
    assert f"The verdict of {NO_GO} cannot be read" in said

    def gone(*_: Any) -> Any:
        raise PrefectError("Prefect's server does not answer (ConnectError).")

    monkeypatch.setattr(PrefectRuns, "going", gone)
    said = told(world, ADA, "status")
    assert "Runs are not shown: Prefect's server does not answer" in said and "last verdict: GO" in said
    world.store.put(record_key(GO), b"{")
    assert "cannot be read" in told(world, ADA, "why")
    assert "cannot be read" in told(world, ADA, "status")


def test_fleet_lists_proven_nodes_and_names_the_worst(world: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer first, one line per node that is not well; a store without gates is no healthy fleet."""
    empty = told(world, EVE, "fleet")
    kept(world, NO_GO, wrong_sums(healthy()))
    report = wrong_sums(healthy())
    rows = rows_of(report, verdict_of(report), POLICY, NO_GO, "2001-09-09T01:46:40Z", "test")
    monkeypatch.setattr("tasks.slackbot.history.time.time", lambda: 1e9 + 10 * 86_400)
    node_rows.keep(world.store, rows)
    said = told(world, EVE, "fleet p5")

    assert "No gate has tested a node yet" in empty
    assert "0 of 2 nodes proven within 24 h; 1 condemned; 1 unproven" in said
    assert said.index("node-1") < said.index("node-0") and "computes wrong sums" in said
    assert "is not in the list of gates" in told(world, EVE, "fleet nothing")


def past(measured_at: str) -> PastVerdict:
    """A refusal of before."""
    report = replace(wrong_sums(healthy()), measured_at=measured_at)
    verdict, declared = verdict_of(report), Declared("cpu", 2, 0, 2)
    cluster = SimpleNamespace(launcher="local", options={}, declared=SimpleNamespace(instance_type="cpu"))
    own: Any = SimpleNamespace(name="p5", cluster=cluster, declared=lambda names: declared)
    store: Any = SimpleNamespace(location=lambda key: f"/srv/{key}")
    record = record_of("p5-1", report, verdict, "key", JUDGED_S, "p5", "c")
    return PastVerdict(own, store, record, verdict)


def test_reply_to_why_states_the_age_of_an_old_measurement() -> None:
    """Of a verdict that was made at once, nothing."""
    old, fresh = (commands.refusal(past(at)) for at in ("2026-11-20T10:12:00Z", "2026-11-23T10:11:00Z"))

    assert SAID in str(old.blocks) and "before this verdict" not in str(fresh.blocks)
    assert [] == faults(list(old.blocks))


def test_fleet_says_why_nodes_are_doubtful() -> None:
    """Where a finding about the configuration is the reason."""
    doubtful = fleet(gate(HOUR_S, node("a", Standing.DOUBTFUL, [CLOCK]), node("b")))
    said, well = (commands.fleet((("c", one),)) for one in (doubtful, fleet(gate(HOUR_S, node("a")))))

    assert (
        "doubtful (cause CONFIGURATION): a warning, or a failure that is not of its hardware, is open."
        in str(said.blocks)
    )
    assert "CONFIGURATION" not in str(well.blocks) and [] == faults(list(said.blocks))
