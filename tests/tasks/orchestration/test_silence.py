"""A run that waits names the run that has the slot, and one that says nothing new says how long it has been silent."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect.client.base import PrefectHttpxAsyncClient
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import AwaitingConcurrencySlot, Pending, Running

from tasks.gate.progress import LiveProgress, Progress
from tasks.orchestration import silence
from tasks.orchestration.silence import NO_SLOT, QuietRun, late_requests, slot_holder

DEPLOYMENT = UUID(int=3)


def run_in(state: State[Any], number: int, begun_s: float = 0.0) -> FlowRun:
    """A run of the deployment that has been in its state for so long."""
    state.timestamp = datetime.now(UTC) - timedelta(seconds=begun_s)
    return FlowRun(
        id=UUID(int=number), flow_id=UUID(int=2), name="gate local", state=state, deployment_id=DEPLOYMENT
    )


class Client:
    """A server with these runs, whose last heartbeat is so old; `broken` does not answer."""

    def __init__(self, *others: FlowRun, beat_s: float | None = None, broken: bool = False) -> None:
        self.others, self.beat_s, self.broken, self.asked = others, beat_s, broken, 0

    async def read_flow_runs(self, flow_run_filter: Any, limit: int) -> list[FlowRun]:
        """All that have a slot."""
        if self.broken:
            raise httpx.ConnectError("refused")
        assert flow_run_filter.deployment_id.any_ == [DEPLOYMENT]
        assert StateType.RUNNING in flow_run_filter.state.type.any_
        return list(self.others)


@pytest.fixture(autouse=True)
def beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeats of the client above."""

    async def last(client: Any, run: str, since: datetime) -> datetime | None:
        client.asked += 1
        if client.broken:
            raise httpx.ConnectError("refused")
        return None if client.beat_s is None else datetime.now(UTC) - timedelta(seconds=client.beat_s)

    monkeypatch.setattr(silence, "last_heartbeat", last)


def test_prefect_s_own_name_is_the_one_that_is_looked_for() -> None:
    """Another name would be a wait without a reason again."""
    assert NO_SLOT == AwaitingConcurrencySlot().name


def test_the_run_that_has_the_slot_is_named() -> None:
    """With its state, and with its silence where its process may be gone."""
    waits = run_in(AwaitingConcurrencySlot(), 9)

    def said(client: Any) -> str:
        return asyncio.run(slot_holder(client, waits))

    alive = said(Client(run_in(Running(), 7, 300.0), beat_s=20.0))
    silent = said(Client(run_in(Running(), 7, 300.0), beat_s=130.0))

    assert f"run gate local ({UUID(int=7)}, Running since " in alive and alive.endswith(" has the slot")
    assert (
        "has the slot, and has sent no heartbeat for 2 min: if its process is gone, `reap` ends it" in silent
    )
    assert "" == said(Client()) == said(Client(broken=True))
    assert "" == asyncio.run(slot_holder(Client(waits), run_in(Running(), 9)))  # type: ignore[arg-type]


def test_a_run_that_a_worker_took_and_does_not_start_says_so() -> None:
    """After a minute, with what ends it; and with the run that still has the slot of its deployment, if there is one."""

    def said(client: Any, taken_s: float) -> str:
        return asyncio.run(slot_holder(client, run_in(Pending(), 9, taken_s)))

    alone, behind = (
        said(Client(), 70.0),
        said(Client(run_in(Running(), 7, 300.0), beat_s=130.0), 70.0),
    )

    assert "" == said(Client(), 50.0)
    assert "has not started it" in alone and "Runs that stay Pending" in alone and "slot" not in alone
    assert f"run gate local ({UUID(int=7)}, Running since " in behind and "no heartbeat for 2 min" in behind


def test_a_run_that_says_nothing_new_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only after a minute of the same, and seldom; one that goes on is not called silent."""
    now = [1000.0]
    monkeypatch.setattr("tasks.orchestration.silence.time.monotonic", lambda: now[0])
    client: Any = Client(beat_s=200.0)
    run, quiet = run_in(Running(), 7, 500.0), QuietRun()

    def shown(detail: str, at: float) -> str:
        now[0] = 1000.0 + at
        return asyncio.run(quiet.completed(client, run, Progress("checks", detail))).detail

    assert ["a", "a"] == [shown("a", 0), shown("a", 59)]
    assert "a. The run has sent no heartbeat for 3 min" in shown("a", 60) and 1 == client.asked
    assert "no heartbeat" in shown("a", 62) and 1 == client.asked
    assert "b" == shown("b", 64)
    client.beat_s = 20.0
    assert "b" == shown("b", 130) and 2 == client.asked


def lines_about(
    status: int, waits_s: float, capsys: pytest.CaptureFixture[str]
) -> tuple[list[str], list[str]]:
    """What the progress shows while a request has waited for its answer for so long, and after it; it is Prefect's own client."""
    shown, now = LiveProgress(None), time.monotonic
    during: list[str] = []

    async def late(request: httpx.Request) -> httpx.Response:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tasks.orchestration.silence.time.monotonic", lambda: now() + waits_s)
            shown.progress(Progress("checks", "running"))
            during.extend(capsys.readouterr().err.splitlines())
        return httpx.Response(status)

    async def ask() -> None:
        async with PrefectHttpxAsyncClient(transport=httpx.MockTransport(late)) as client:
            await client.get("http://server/api/health")

    with late_requests(shown):
        with contextlib.nullcontext() if status == 200 else pytest.raises(httpx.HTTPStatusError):
            asyncio.run(ask())
        shown.progress(Progress("verdict", "GO"))
    return during, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("status", [200, 404])
def test_a_request_that_prefect_has_not_answered_is_said(
    status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once it is late, and until it has ended, also by an error; a stage that goes on says nothing of it."""
    during, after = lines_about(status, 12.0, capsys)

    assert ["checks: running; the Prefect server has not answered for 12 s (0 s)"] == during
    assert ["verdict: GO (0 s)"] == after


def test_a_request_in_time_is_not_said_and_nothing_is_left_of_the_watch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Prefect's client is as it was."""
    real = PrefectHttpxAsyncClient.send

    assert ["checks: running (0 s)"] == lines_about(200, 4.0, capsys)[0]
    assert real is PrefectHttpxAsyncClient.send
