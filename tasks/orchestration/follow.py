"""Follows a flow run on the configured server to its end: its status, its progress, and how it ended.

FollowError         it cannot be followed; carries the remedy
|- NoSuchRun        the server knows no such run or deployment
`- Unreachable      the server did not answer for as long as that may last

If this machine can read the store of the run, its report and pages are read from there.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterType,
    FlowRunFilter,
    FlowRunFilterIdempotencyKey,
)
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling

from checks.documents.report import digest, load
from checks.exit_codes import Exit
from checks.model import Report
from checks.value_types import DecodeError
from tasks.gate.links import run_url
from tasks.gate.progress import Progress
from tasks.orchestration.status import RunStatus, StatusError, read_status, status_artifact
from tasks.orchestration.work_pools import FLOW, waiting_reason
from tasks.store.base import StoreError
from tasks.store.layout import report_key
from tasks.store.open import open_store
from tasks.text.redact import redact

POLL_S = 2.0
# A server that is restarted or upgraded is waited for; the run goes on meanwhile.
SILENCE_S = 600.0
# One that has not answered at all may not be there: a restart takes less than this.
FIRST_ANSWER_S = 60.0
# The deployments of the flow `gate`, whose request has to name a gate file.
GATES = f"{FLOW}/"
CANCEL_S = 60.0
# A request that was given up may still arrive.
LOOKS, LOOK_S = 3, 1.0

Say = Callable[[Progress], None]


class FollowError(Exception):
    """The run cannot be followed."""


class NoSuchRun(FollowError):
    """There is no such run, or no such deployment."""


class Unreachable(FollowError):
    """The server does not answer."""


@dataclass(frozen=True)
class FollowedRun:
    """A run that ended, or was not waited for any longer (`final` is False). `state` is its name in Prefect.

    `announced` is what it said of itself last, None if it said nothing that can be read; `why` says what is missing.
    """

    run: str
    state: str
    message: str
    final: bool
    announced: RunStatus | None
    why: str
    cancelled: bool = False


async def follow(run: UUID, say: Say, limit_s: float) -> FollowedRun:
    """Follow the run until it ends or `limit_s` is over. Raises NoSuchRun, Unreachable."""
    begun = heard = time.monotonic()
    async with get_client() as client:
        at = _at(client.api_url)
        while True:
            try:
                found, heard = await client.read_flow_run(run), time.monotonic()
                final = found.state is not None and found.state.is_final()
                announced, why = await _announced(client, run)
                waits = "" if final else await waiting_reason(client, found)
                if final or heard - begun > limit_s:
                    ended = _followed(found, final, announced, why)
                    return replace(ended, message=waits) if waits else ended
                say(await _progress(client, found, waits))
            except httpx.HTTPError as error:
                if heard == begun and _is_unwelcome(error):
                    raise Unreachable(unanswered(client.api_url, error)) from error
                patience_s = min(FIRST_ANSWER_S, limit_s) if heard == begun else SILENCE_S
                if (now := time.monotonic()) > min(heard + patience_s, begun + limit_s):
                    raise Unreachable(
                        f"the Prefect server {at} has not answered for {now - heard:.0f} s ({_why(error)}). "
                        f"Run {run} may go on. Start the server, or correct PREFECT_API_URL, and watch again: prelaunch watch {run}"
                    ) from error
                say(Progress("run", f"the Prefect server does not answer ({_why(error)}); asking again"))
            except ObjectNotFound as error:
                said = f"the server {at} has no flow run {run}. The id is in the address of the run's page in Prefect's UI."
                raise NoSuchRun(said) from error
            await asyncio.sleep(POLL_S)


async def start(deployment: str, request: Mapping[str, object], once: str) -> UUID:
    """Start a run of a deployment ("gate/p5-prod"), its own request changed where `request` says so.

    The same `once` starts one run, however often it is asked: a server that fails, as one may that is busy, is asked again for a
    minute. Raises NoSuchRun, FollowError, Unreachable.
    """
    until = time.monotonic() + FIRST_ANSWER_S
    while True:
        try:
            return await _started(deployment, request, once)
        except Unreachable as error:
            failed = isinstance(error.__cause__, httpx.HTTPStatusError)
            if not failed or not once or time.monotonic() > until:
                raise
        await asyncio.sleep(POLL_S)


async def _started(deployment: str, request: Mapping[str, object], once: str) -> UUID:
    client = get_client()
    try:
        async with client:
            found = await client.read_deployment_by_name(deployment)
            own = found.parameters.get("request")
            asked = _merged(own if isinstance(own, dict) else {}, request)
            if deployment.startswith(GATES) and not asked.get("gate_file"):
                raise FollowError(
                    f"{deployment} has no gate file of its own. Name one: prelaunch trigger {deployment} --gate NAME"
                )
            made = await client.create_flow_run_from_deployment(
                found.id, parameters={**found.parameters, "request": asked}, idempotency_key=once or None
            )
            return made.id
    except httpx.HTTPError as error:
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500:
            raise FollowError(f"the server refused to start {deployment}: {_said(error)}") from error
        raise Unreachable(unanswered(client.api_url, error)) from error
    except ObjectNotFound as error:
        at = _at(client.api_url)
        said = f"the server {at} has no deployment {deployment!r}. `prefect deployment ls` lists those that there are."
        raise NoSuchRun(said) from error


async def cancel(run: UUID) -> str:
    """Cancel the run and wait for its end, a minute at most; returns the result, for people."""
    async with get_client() as client:
        try:
            await client.set_flow_run_state(
                run, Cancelling(message="the command that started it was interrupted")
            )
            until = time.monotonic() + CANCEL_S
            while time.monotonic() < until:
                found = await client.read_flow_run(run)
                if found.state is not None and found.state.is_final():
                    return f"run {run} has been cancelled ({found.state.name})"
                await asyncio.sleep(POLL_S)
        except httpx.HTTPError as error:
            return f"run {run} could not be cancelled ({_why(error)}): cancel it in Prefect"
        except ObjectNotFound:
            return f"run {run} no longer exists"
    return f"run {run} was asked to end, but has not ended yet. Look at it in Prefect"


def page_of(run: UUID) -> str:
    """The run's page in Prefect's UI, without a password; "" if there is none."""
    return redact(run_url(str(run)), os.environ)


async def find_started(once: str) -> UUID | None:
    """The run that was started with the key `once` by a request whose answer got lost; None if there is no such run."""
    chosen = FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=[once]))
    async with get_client() as client:
        for _ in range(LOOKS):
            if found := await client.read_flow_runs(flow_run_filter=chosen, limit=1):
                return found[0].id
            await asyncio.sleep(LOOK_S)
    return None


async def _announced(client: PrefectClient, run: UUID) -> tuple[RunStatus | None, str]:
    found = await status_artifact(client, run)
    if found is None:
        return None, "the run published no status"
    try:
        return read_status(found.data), ""
    except StatusError as error:
        return None, f"the status that the run published cannot be used: {error}"


async def _progress(client: PrefectClient, run: FlowRun, waits: str) -> Progress:
    """What to show while it runs: the checks' progress, or the state that it waits in, and why."""
    state = run.state
    if state is None or not state.is_running():
        name = (state.name if state is not None else None) or "unknown"
        said = waits or (state.message if state is not None else "")
        begins = state is None or state.is_scheduled() or state.is_pending()
        idle = begins or (state is not None and state.is_paused())
        return Progress("waiting" if begins else "run", f"{name}: {said}" if said else name, waits=idle)
    of_run, of_kind = ArtifactFilterFlowRunId(any_=[run.id]), ArtifactFilterType(any_=["progress"])
    chosen = ArtifactFilter(flow_run_id=of_run, type=of_kind)
    newest = await client.read_artifacts(artifact_filter=chosen, sort=ArtifactSort.UPDATED_DESC, limit=1)
    if not newest:
        return Progress("run", "running")
    found = newest[0]
    if found.updated is not None and found.updated < state.timestamp:
        return Progress("run", "running again, after it waited")  # that progress is of before
    percent = round(found.data) if isinstance(found.data, (int, float)) else 0
    return Progress("checks", found.description or "checking", percent, 100)


def _followed(run: FlowRun, final: bool, announced: RunStatus | None, why: str) -> FollowedRun:
    state = run.state
    completed = state is not None and state.is_completed()
    if announced is not None and announced.code == Exit.GO and not completed:
        # Said by an earlier try of this run, or before somebody ended it and its jobs: no go any more.
        announced, why = None, "its last status was a go, but the run did not end so"
    if state is None:
        return FollowedRun(str(run.id), "", "", final, announced, why)
    cancelled = state.is_cancelled() or state.is_cancelling()
    return FollowedRun(str(run.id), state.name or "", state.message or "", final, announced, why, cancelled)


def _merged(own: Mapping[str, Any], asked: Mapping[str, object]) -> dict[str, object]:
    """The deployment's own request, and what was asked on top; tables within it key by key."""
    merged: dict[str, object] = dict(own)
    for key, value in asked.items():
        before = merged.get(key)
        merged[key] = (
            _merged(before, value) if isinstance(before, dict) and isinstance(value, Mapping) else value
        )
    return merged


def _is_unwelcome(error: httpx.HTTPError) -> bool:
    """Whether the server answers but rejects the password, so that asking again does not help."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (401, 403)


def unanswered(url: object, error: httpx.HTTPError) -> str:
    """What every command says of a server at this address that failed, and the remedy."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"the Prefect server {_at(url)} refuses: {_said(error)}"
    why = _why(error).rstrip(".")
    remedy = "Start it, or correct PREFECT_API_URL; `prelaunch doctor` looks at it."
    return f"the Prefect server {_at(url)} does not answer: {why}. {remedy}"


def _at(url: object) -> str:
    """The server's address without its password, with a hint about a common mistake."""
    url = str(url).rstrip("/")
    hint = "" if url.endswith("/api") else "; its address in PREFECT_API_URL usually ends in /api"
    return redact(f"at {url}", os.environ) + hint


def _said(error: httpx.HTTPStatusError) -> str:
    if _is_unwelcome(error):
        return f"HTTP {error.response.status_code}. Set PREFECT_API_AUTH_STRING to the server's user and password."
    try:
        found = error.response.json()
    except ValueError:
        return f"HTTP {error.response.status_code}"
    detail = found.get("detail") if isinstance(found, dict) else None
    return redact(f"{detail or found}", os.environ)[:1000]


def _why(error: httpx.HTTPError) -> str:
    """The error in words of our own, because its text contains the server's address, which may contain a password."""
    return redact(str(error) or type(error).__name__, os.environ)


def kept_report(said: RunStatus) -> tuple[Report | None, str]:
    """The report of the verdict, or why there is none: a table then has no nodes."""
    if said.verdict is None:
        return None, ""
    where = f"the report in {said.store} cannot be shown from here"
    try:
        data = open_store(said.store).get(report_key(said.gate_id))
        if data is None:
            return None, f"{where}: this machine cannot reach it"
        if digest(data) != said.verdict.digests.report:
            return None, f"{where}: it is not the report that was judged"
        return load(data), ""
    except (StoreError, DecodeError) as error:
        return None, f"{where}: {error}"


def kept_text(said: RunStatus, key: str) -> str | None:
    """A page of the gate, as the store has it; None if it cannot be read from here."""
    try:
        data = open_store(said.store).get(key)
    except StoreError:
        return None
    return None if data is None else data.decode("utf-8", "replace")
