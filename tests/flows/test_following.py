"""A run on a server is followed from elsewhere, and its verdict read from what it said, never from Prefect's state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import Artifact, FlowRun, WorkerStatus, WorkPool
from prefect.states import Late, Running

from checks.documents.report import dump
from tasks.gate.outcome import GateOutcome
from tasks.gate.progress import Progress
from tasks.orchestration import follow
from tasks.orchestration.follow import FollowedRun, NoSuchRun, kept_report, kept_text
from tasks.orchestration.status import RunStatus, StatusError, read_status, status_artifact
from tasks.orchestration.work_pools import START
from tasks.store.layout import summary_key
from tests.flows.driving import request_of, run
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("prefect_backend", "engine")


async def _followed(path: Path) -> tuple[GateOutcome, FollowedRun, UUID]:
    state, outcome = await run(request_of(path))
    run_id = state.state_details.flow_run_id
    said: list[Progress] = []
    return outcome, await follow.follow(run_id, said.append, 60.0), run_id


def test_a_go_arrives_with_its_report_and_is_none_once_the_run_ends_otherwise(tmp_path: Path) -> None:
    """A report that was changed is not shown; an announcement that contradicts itself is no go; a run that is tried again and
    rejected, its announcement refused by the server, is not the go that it was before.
    """
    from prefect.states import Failed

    async def followed() -> tuple[GateOutcome, FollowedRun, object, FollowedRun]:
        outcome, before, run_id = await _followed(fake_gate(tmp_path))
        async with get_client() as client:
            found = await status_artifact(client, run_id)
            await client.set_flow_run_state(run_id, Failed(name="Rejected"), force=True)
        return outcome, before, found and found.data, await follow.follow(run_id, lambda progress: None, 60.0)

    outcome, before, data, after = asyncio.run(followed())
    said = before.announced
    assert said is not None and outcome.judged is not None, before.problem
    assert (before.final, said.code, outcome.code) == (True, 0, 0)
    assert said.verdict == outcome.judged.verdict
    report, missing = kept_report(said)
    assert report is not None and (dump(report), missing) == (dump(outcome.judged.report), "")
    assert "test" in (kept_text(said, summary_key(said.gate_id)) or "")
    kept = tmp_path / "store" / "gates" / said.gate_id / "health_check_metrics.json"
    kept.write_bytes(kept.read_bytes() + b" ")
    changed, why = kept_report(said)
    assert changed is None and "it is not the report that was judged" in why

    assert isinstance(data, str)
    _require_strict(json.loads(data.splitlines()[-2]), said)

    assert (after.state, after.announced) == ("Rejected", None)
    assert "a go, but the run did not end so" in after.problem


def _require_strict(data: dict[str, Any], good: RunStatus) -> None:
    """Zero without a verdict, with another answer, or of another version: unreadable, each of them."""
    no_go = {**data["outcome"], "verdict": {**data["outcome"]["verdict"], "answer": "no_go"}}
    asked = {**data["outcome"], "verdict": {**data["outcome"]["verdict"], "answer": "ask"}}
    yes = {"action": "launch-anyway", "note": ""}
    failed = {**data["outcome"], "verdict": {**data["outcome"]["verdict"], "level": "FAIL"}}
    bad = (
        {**data, "outcome": failed},
        {**data, "outcome": {**asked, "approval": {**yes, "action": "block"}}},
        {**data, "outcome": {**asked, "approval": {**yes, "note": "it does not count"}}},
        {**data, "outcome": {**asked, "approval": None}},
        {**data, "outcome": {**no_go, "decision": "overridden", "approval": None}},
        {**data, "schema_version": 2},
        {**data, "phase": "ends"},
        {**data, "exit_code": 7},
        {**data, "exit_code": None},
        {**data, "outcome": {**data["outcome"], "verdict": None}},
        {**data, "outcome": {**data["outcome"], "decision": "refused"}},
        {**data, "outcome": no_go},
        {key: value for key, value in data.items() if key != "store"},
    )
    assert read_status(_text(data)) == good
    assert read_status(_text({**data, "outcome": {**asked, "approval": yes}})).code == 0
    for text in (*map(_text, bad), "```json\n{\n```", json.dumps(data)):
        with pytest.raises(StatusError):
            read_status(text)


def _text(data: dict[str, Any]) -> str:
    return f"said\n\n```json\n{json.dumps(data)}\n```\n"


def test_a_gate_that_cannot_tell_and_a_rejected_request_say_so(tmp_path: Path, engine: Engine) -> None:
    """The exit code is the gate's own; of a rejected request there is no gate and no verdict. A run of another server is an error."""
    engine.parts = ["silent"]

    async def followed() -> tuple[FollowedRun, FollowedRun]:
        from flows.gate import gate

        _, silent, _ = await _followed(fake_gate(tmp_path))
        state = await gate(request_of(tmp_path / "none.toml"), return_state=True)
        run_id = state.state_details.flow_run_id
        assert run_id is not None
        with pytest.raises(NoSuchRun, match="has no flow run"):
            await follow.follow(UUID(int=7), lambda progress: None, 5.0)
        return silent, await follow.follow(run_id, lambda progress: None, 60.0)

    silent, rejected = asyncio.run(followed())

    assert silent.announced is not None and silent.announced.verdict is not None
    assert rejected.announced is not None and rejected.state == "Rejected"
    assert (silent.announced.code, rejected.announced.code, rejected.announced.verdict) == (3, 2, None)


class Offline:
    """A client of no server."""

    api_url = "http://127.0.0.1:9/api"

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("limit_s", [0.1, 60.0])
def test_a_server_that_is_silent_is_waited_for_no_longer_than_asked(
    monkeypatch: pytest.MonkeyPatch, limit_s: float
) -> None:
    """The time that was given is of waiting, whoever is waited for; one that never answered is waited for a minute."""

    class Silent(Offline):
        """A server that does not answer."""

        async def read_flow_run(self, run: UUID) -> None:
            raise httpx.ConnectError("refused")

    monkeypatch.setattr(follow, "POLL_S", 0.01)
    monkeypatch.setattr(follow, "FIRST_ANSWER_S", 0.1)
    monkeypatch.setattr(follow, "get_client", Silent)

    said = r"at http://127\.0\.0\.1:9/api has not answered for .* \(refused\)\. Run .* may go on"
    with pytest.raises(follow.Unreachable, match=said):
        asyncio.run(asyncio.wait_for(follow.follow(UUID(int=7), lambda progress: None, limit_s), 20))


def test_a_key_names_one_run_of_one_deployment_and_request() -> None:
    """Prefect's own keys are unique in a flow, which all gates share: another gate's run, and its GO, would be the answer.

    A trigger that is interrupted while it starts a run finds that run by the same three, and ends it.
    """
    check_only = {"launch": False}
    orders = [
        ("gate/key-a", {}, "pipeline-7"),
        ("gate/key-b", {}, "pipeline-7"),
        ("gate/key-a", check_only, "pipeline-7"),
        ("gate/key-a", {}, "pipeline-8"),
    ]

    async def started() -> tuple[list[UUID], list[UUID], list[UUID | None], UUID | None]:
        from flows.gate import gate

        async with get_client() as client:
            flow = await client.create_flow(gate)
            for name in ("key-a", "key-b"):
                await client.create_deployment(flow, name, parameters={"request": {"gate_file": "local"}})
        first, again = [[await follow.start(*order) for order in orders] for _ in range(2)]
        known = [await follow.find_started(*order) for order in orders]
        return first, again, known, await follow.find_started("gate/key-b", check_only, "pipeline-7")

    first, again, known, unknown = asyncio.run(started())

    assert 4 == len({*first})
    assert (again, known, unknown) == (first, first, None)


def test_cancel_leaves_a_running_run_to_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker ends the processes of a run that is Cancelling; those of one that is Cancelled would go on."""
    from flows.gate import gate

    async def cancelled() -> str | None:
        async with get_client() as client:
            run_id = (await client.create_flow_run(gate, state=Running())).id
            await follow.cancel(run_id)
            return (await client.read_flow_run(run_id)).state_name

    monkeypatch.setattr(follow, "CANCEL_S", 0.0)
    assert "Cancelling" == asyncio.run(cancelled())


def refusing(code: int, url: str = Offline.api_url) -> Callable[[], PrefectClient]:
    """A client of a server at this address that answers everything with an error."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(code, request=request)

    return lambda: PrefectClient(url, httpx_settings={"transport": httpx.MockTransport(answer)})


def test_a_password_in_the_server_s_address_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own words for an error name the whole address."""
    monkeypatch.setattr(follow, "get_client", refusing(418, "http://me:hunter2hunter2@127.0.0.1:9/api"))
    said = asyncio.run(follow.cancel(uuid4()))

    assert "418" in said and "[removed]@127.0.0.1" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("code", "url", "error", "remedy"),
    [
        (401, Offline.api_url, follow.FollowError, "Set PREFECT_API_AUTH_STRING"),
        (404, "http://127.0.0.1:9", NoSuchRun, "ends in /api"),
    ],
)
def test_a_wrong_password_or_address_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, code: int, url: str, error: type[Exception], remedy: str
) -> None:
    """Asking again would help nothing: neither who follows a run waits, nor is who starts one left without the remedy."""
    monkeypatch.setattr(follow, "get_client", refusing(code, url))
    with pytest.raises(error, match=remedy):
        asyncio.run(asyncio.wait_for(follow.follow(uuid4(), lambda progress: None, 60.0), 30))
    with pytest.raises(error, match=remedy):
        asyncio.run(follow.start("gate/local", {}, "pipeline-7"))


@pytest.mark.parametrize("of", [3, 9])
def test_a_server_that_fails_for_a_moment_is_asked_again_to_start_a_run(
    monkeypatch: pytest.MonkeyPatch, of: int
) -> None:
    """Nothing was rejected, and the key lets it start one run at most. A run of another deployment is never followed."""
    failures = [500]

    class Busy(Offline):
        """It fails once."""

        async def read_deployment_by_name(self, name: str) -> SimpleNamespace:
            if failures:
                answer = httpx.Response(failures.pop(), request=httpx.Request("GET", self.api_url))
                raise httpx.HTTPStatusError("a locked database", request=answer.request, response=answer)
            return SimpleNamespace(id=UUID(int=3), parameters={"request": {"gate_file": "local"}})

        async def create_flow_run_from_deployment(self, deployment: UUID, **more: object) -> SimpleNamespace:
            return SimpleNamespace(id=UUID(int=4), deployment_id=UUID(int=of))

    monkeypatch.setattr(follow, "get_client", Busy)
    monkeypatch.setattr(follow, "POLL_S", 0.01)
    if of == 3:
        assert UUID(int=4) == asyncio.run(follow.start("gate/p5", {}, "pipeline-7"))
    else:
        with pytest.raises(follow.FollowError, match="belongs to another deployment"):
            asyncio.run(follow.start("gate/p5", {}, "pipeline-7"))


def test_a_deployment_without_a_gate_file_says_how_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server itself answers with the parameters' schema, which does not name the option; no run is asked of it."""

    class Deployed(Offline):
        """It has the deployment that `prelaunch serve forms` makes, which names no gate file."""

        async def read_deployment_by_name(self, name: str) -> SimpleNamespace:
            return SimpleNamespace(id=UUID(int=3), parameters={})

    monkeypatch.setattr(follow, "get_client", Deployed)

    with pytest.raises(follow.FollowError, match=r"gate/here has no gate file of its own\. .*--gate NAME"):
        asyncio.run(follow.start("gate/here", {"wait": "verdict"}, "pipeline-7"))


@pytest.mark.parametrize(
    ("kind", "paused", "online", "due_s", "said"),
    [
        ("process", False, False, -60, "No worker of work pool prelaunch is online: " + START.format(pool="prelaunch")),
        ("process", True, True, -60, "Work pool prelaunch is paused: prefect work-pool resume prelaunch"),
        ("process", False, True, -60, ""),
        ("process", False, False, -1, ""),
        ("process", False, False, 3600, ""),
        ("ecs:push", False, False, -60, ""),  # Prefect Cloud starts the runs of such a pool itself
        ("prefect:managed", False, False, -60, ""),
    ],
)  # fmt: skip
def test_a_run_that_nobody_takes_says_what_starts_a_worker(
    monkeypatch: pytest.MonkeyPatch, kind: str, paused: bool, online: bool, due_s: float, said: str
) -> None:
    """It would wait for ever; a run that is due later, or only just now, waits for nothing that is missing."""

    class Waiting(Offline):
        """A client whose server has one run that nobody has taken."""

        async def read_flow_run(self, run: UUID) -> FlowRun:
            due = datetime.now(UTC) + timedelta(seconds=due_s)
            return FlowRun(
                id=run, flow_id=run, state=Late(scheduled_time=due), work_pool_name="prelaunch", expected_start_time=due
            )  # fmt: skip

        async def read_artifacts(self, **chosen: object) -> list[Artifact]:
            return []

        async def read_work_pool(self, name: str) -> object:
            return WorkPool(name=name, type=kind, is_paused=paused, default_queue_id=UUID(int=8))

        async def read_workers_for_work_pool(self, name: str) -> list[object]:
            status = WorkerStatus.ONLINE if online else WorkerStatus.OFFLINE
            return [SimpleNamespace(status=status)]

    monkeypatch.setattr(follow, "POLL_S", 0.01)
    monkeypatch.setattr(follow, "get_client", Waiting)
    shown: list[Progress] = []
    found = asyncio.run(follow.follow(UUID(int=7), shown.append, 0.05))

    assert (found.final, found.message) == (False, said)
    assert {one.detail for one in shown} == {f"Late: {said}" if said else "Late"}
