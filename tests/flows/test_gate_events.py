"""Events of gates on a real server, and what reacts to them; what cannot be emitted changes nothing."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.events import Event as PrefectEvent

from flows.cli.main import main
from tasks import finish
from tasks.gate.outcome import Decision
from tasks.orchestration import events
from tasks.orchestration.events import CULPRITS, TEXT_CHARACTERS, GateEvent, emit_gate_event
from tests.flows import reapers
from tests.flows.answering import REASON, answered, asked
from tests.flows.driving import gate_it, request_of, run
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate
from tests.flows.reapers import failed_actions
from tests.waiting import until
from tests.world import ROOT, World
from tests.world_processes import tail

DOCS = ROOT / "docs" / "server.md"
ABOUT = (None, "g-1", "0c8a9c1e-0b5c-4f55-8a53-7a1f1b6b7a10")
REACTING = """
from prefect import flow

@flow
def drain(cluster: str, nodes: list[str]) -> None: ...
"""


def test_a_refusal_is_an_event_that_names_the_culprit_and_others_react(
    at_world: World, tmp_path: Path, engine: Engine
) -> None:
    """The automation of docs/server.md starts a deployment with the nodes that are to blame."""
    (tmp_path / "drain.py").write_text(REACTING, encoding="utf-8")
    pool = at_world.pool("drain")
    drain = at_world.deploy("drain.py:drain", "drain", folder=tmp_path, pool=pool, triggers=_shown())
    engine.parts = ["wrong"]

    _, outcome = gate_it(fake_gate(tmp_path / "gate"))

    refused = _of_gate(at_world, GateEvent.REFUSED, outcome.gate_id)
    payload = refused["payload"]
    resource = {"prefect.resource.id": "prelaunch.cluster.test", "prefect.resource.name": "test"}
    related = [one["prefect.resource.id"] for one in refused["related"]]
    assert resource == refused["resource"] and f"prefect.flow-run.{payload['flow_run_id']}" in related
    said = ("refused", "no_go", "FAIL", 1, ["node-1"])
    assert said == tuple(payload[key] for key in ("decision", "answer", "level", "exit_code", "culprits"))
    assert payload["headline"].startswith("NO-GO test") and payload["report"].endswith(".json")
    assert {"cluster": "test", "nodes": ["node-1"]} == _started(at_world, drain)["parameters"]
    assert [] == failed_actions(at_world, "drain")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[PrefectEvent]:
    """The events of gates that this process emits; none of them reaches a server."""
    emitted: list[PrefectEvent] = []

    def keep(event: str, resource: dict[str, str], **more: Any) -> PrefectEvent:
        related = [{**one} for one in more.get("related") or ()]
        follows = more["follows"].id if more.get("follows") else None
        payload = dict(more.get("payload") or {})
        made = PrefectEvent(event=event, resource=resource, related=related, payload=payload, follows=follows)
        emitted.append(made)
        return made

    monkeypatch.setattr(events, "emit_event", keep)
    return emitted


@pytest.mark.usefixtures("prefect_backend")
def test_questions_and_answers_are_events(tmp_path: Path, engine: Engine, sent: list[PrefectEvent]) -> None:
    """Who answered, how, and why; between the gate's start and its GO."""
    engine.parts = ["warn"]
    request = request_of(fake_gate(tmp_path, on_warn="ask"), ask_minutes=5)

    answered(request, "launch-anyway")

    (question,) = asked(tmp_path / "store")
    names = [GateEvent.STARTED, GateEvent.QUESTION, GateEvent.ANSWER, GateEvent.GO]
    assert [*names, events.HEARTBEAT, events.RUN_ENDED] == [one.event for one in sent]
    started, first, second, gone = (one.payload for one in sent[:4])
    assert (question.key, False, "ask") == tuple(first[key] for key in ("key", "override", "answer"))
    said = (question.key, "launch-anyway", "Ada", "prefect", False, REASON)
    assert said == tuple(second[key] for key in ("key", "action", "who", "via", "verified", "reason"))
    assert (2, "quick", True) == tuple(started[key] for key in ("nodes", "profile", "launches"))
    assert ("launched", "succeeded") == (gone["decision"], gone["training_state"])


@pytest.mark.usefixtures("prefect_backend", "engine")
def test_a_rejected_request_is_an_event_and_is_not_silent(tmp_path: Path, sent: list[PrefectEvent]) -> None:
    """Of an unknown cluster where the gate file cannot be read. The process's last event comes after its heartbeats, also where the
    server's event of the end was earlier than those. The server looks at two events at once unless one names the other: of a run that
    is rejected within a moment, at its first heartbeat and its end.
    """
    from prefect import tags
    from prefect.server.events.schemas.automations import EventTrigger
    from prefect.server.events.schemas.events import ReceivedEvent

    (silent, *others) = reapers.triggers("prelaunch", 90.0)
    expects = EventTrigger.model_validate(silent.model_dump(include=set(EventTrigger.model_fields) - {"id"}))

    async def gate() -> Any:
        with tags("prelaunch"):
            return await run(request_of(fake_gate(tmp_path), "cluster.declared.nodez=1"))

    run_id = str(asyncio.run(gate())[0].state_details.flow_run_id)
    rejected, last, ended = sent

    assert (GateEvent.REJECTED, "prelaunch.cluster.unknown") == (rejected.event, rejected.resource.id)
    assert "cluster.declared.nodez" in rejected.payload["headline"]
    assert (events.HEARTBEAT, events.RUN_ENDED) == (last.event, ended.event) and ended.follows == last.id
    assert f"prefect.flow-run.{run_id}" == last.resource.id == ended.resource.id
    received = [ReceivedEvent.model_validate(one.model_dump()) for one in (last, ended)]
    assert silent.name.startswith("prelaunch-silent-") and all(map(expects.covers, received))
    assert expects.starts_after(last.event) and expects.expects(events.RUN_ENDED)
    assert events.RUN_ENDED not in str([one.expect for one in others])


@pytest.mark.usefixtures("prefect_backend", "engine")
def test_a_gate_of_a_terminal_is_watched_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: list[PrefectEvent]
) -> None:
    """On a server its run bears the tag that automations look for, and its heart beats as often as theirs."""
    monkeypatch.setenv("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "")
    monkeypatch.delenv("PREFECT_FLOWS_HEARTBEAT_FREQUENCY")

    assert 0 == main(["gate", str(fake_gate(tmp_path)), "--check-only"])

    tag = {"prefect.resource.id": "prefect.tag.prelaunch", "prefect.resource.role": "tag"}
    assert events.RUN_ENDED == sent[-1].event and tag in [dict(one) for one in sent[-1].related]
    assert "30" == os.environ["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"]


def test_an_event_that_cannot_be_emitted_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else changes."""

    def broken(*_: object, **__: object) -> None:
        raise OSError("no server")

    monkeypatch.setattr(events, "emit_event", broken)
    monkeypatch.setattr(events.LOG, "handlers", [caplog.handler])
    emit_gate_event(GateEvent.GO, *ABOUT, {})

    assert "event prelaunch.gate.go was not emitted: no server" in caplog.text


def test_a_payload_is_short_and_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a verdict says."""
    sent: list[dict[str, Any]] = []

    def keep(*_: object, **said: Any) -> object:
        sent.append(said)
        return said

    monkeypatch.setattr(events, "emit_event", keep)
    monkeypatch.setenv("SOME_TOKEN", "hunter2hunter2")
    said = {"headline": "hunter2hunter2 " + "x" * 5000, "culprits": ["n-hunter2hunter2"]}
    emit_gate_event(GateEvent.REFUSED, *ABOUT, said)

    payload = sent[0]["payload"]
    assert "hunter2" not in str(payload) and len(payload["headline"]) == TEXT_CHARACTERS
    assert CULPRITS < 100


def test_the_page_lists_every_event() -> None:
    """And no other."""
    told = re.findall(r"^\| `(prelaunch\.gate\.\w+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)

    assert [event.value for event in GateEvent] == told


def test_the_automations_know_the_names_that_gates_end_with() -> None:
    """An end by another name would start a reaper for every gate that ended well."""
    file = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text(encoding="utf-8"))
    (reap,) = [one for one in file["deployments"] if one["name"] == "reap"]
    expected = set(reap["triggers"][0]["expect"])

    names = {*map(finish.decision_name, Decision), *finish.ENDING_NAMES.values()}
    names |= {"heartbeat", "Crashed", "Cancelled"}
    assert {events.RUN_ENDED, *(f"prefect.flow-run.{name}" for name in names)} <= expected


def _shown() -> list[Any]:
    """The triggers that the page shows."""
    from prefect.cli.deploy._triggers import _initialize_deployment_triggers

    text = DOCS.read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(triggers:.*?)```", text, re.DOTALL)
    return _initialize_deployment_triggers("drain", yaml.safe_load(block)["triggers"])


def _of_gate(world: World, event: GateEvent, gate_id: str) -> dict[str, Any]:
    """The event of that gate, once it is there."""

    def there() -> list[dict[str, Any]]:
        return [one for one in world.events(event.value) if one["payload"]["gate_id"] == gate_id]

    return until(there, lambda: f"{event.value} of {gate_id}\n{tail(world.log)}", 15, 0.2)[0]


def _started(world: World, deployment: str) -> dict[str, Any]:
    """The first run of a deployment."""
    body = {"flow_runs": {"deployment_id": {"any_": [deployment]}}}

    def there() -> list[dict[str, Any]]:
        return list(world.api.post("/flow_runs/filter", json=body).json())

    return until(there, lambda: f"the deployment was started\n{tail(world.log)}", 15, 0.2)[0]
