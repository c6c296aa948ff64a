"""Follows a flow run on the configured server to its end: its status, its progress, and how it ended.

FollowError         it cannot be followed; carries the remedy
|- NoSuchRun        the server knows no such run or deployment
`- Unreachable      the server did not answer for as long as that may last

If this machine can read the store of the run, its report and pages are read from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling

from checks.documents.report import digest, dump_plain
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
from tasks.store.records import judged_report
from tasks.text.redact import redacted

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

    `announced` is what it said of itself last, None if it said nothing that can be read; `problem` says what is missing.
    """

    run: str
    state: str
    message: str
    final: bool
    announced: RunStatus | None
    problem: str
    cancelled: bool = False


async def follow(run: UUID, say: Say, limit_s: float) -> FollowedRun:
    """Follow the run until it ends or `limit_s` is over. Raises NoSuchRun, Unreachable."""
    begun = heard = time.monotonic()
    async with get_client() as client:
        at = _at(client.api_url)
        while True:
            try:
                flow_run, heard = await client.read_flow_run(run), time.monotonic()
                final = flow_run.state is not None and flow_run.state.is_final()
                announced, problem = await _announced(client, run)
                waits = "" if final else await waiting_reason(client, flow_run)
                if final or heard - begun > limit_s:
                    ended = _followed(flow_run, final, announced, problem)
                    return replace(ended, message=waits) if waits else ended
                say(await _progress(client, flow_run, waits))
            except httpx.HTTPError as error:
                if heard == begun and _is_unwelcome(error):
                    raise Unreachable(unanswered(client.api_url, error)) from error
                patience_s = min(FIRST_ANSWER_S, limit_s) if heard == begun else SILENCE_S
                if (now := time.monotonic()) > min(heard + patience_s, begun + limit_s):
                    raise Unreachable(
                        f"the Prefect server {at} has not answered for {now - heard:.0f} s ({_reason(error)}). "
                        f"Run {run} may go on. Start the server, or correct PREFECT_API_URL, and run: prelaunch run follow {run}"
                    ) from error
                say(Progress("run", f"the Prefect server does not answer ({_reason(error)}); asking again"))
            except ObjectNotFound as error:
                message = f"the server {at} has no flow run {run}. The id is in the address of the run's page in Prefect's UI."
                raise NoSuchRun(message) from error
            await asyncio.sleep(POLL_S)


async def start(deployment: str, request: Mapping[str, object], once: str) -> UUID:
    """Start a run of a deployment ("gate/p5-prod"), its own request changed where `request` says so.

    The same three arguments start one run, however often they are given: a server that fails, as one may that is busy, is asked
    again for a minute. Raises NoSuchRun, FollowError, Unreachable.
    """
    until = time.monotonic() + FIRST_ANSWER_S
    while True:
        try:
            return await _started(deployment, request, once)
        except Unreachable as error:
            if not isinstance(error.__cause__, httpx.HTTPStatusError) or time.monotonic() > until:
                raise
        await asyncio.sleep(POLL_S)


async def _started(deployment: str, request: Mapping[str, object], once: str) -> UUID:
    client = get_client()
    try:
        async with client:
            target = await client.read_deployment_by_name(deployment)
            wanted = _merged(target.parameters.get("request"), request)
            if deployment.startswith(GATES) and not wanted.get("gate_file"):
                text = f"{deployment} has no gate file of its own. Name one: prelaunch run start {deployment} --gate NAME"
                raise FollowError(text)
            parameters, key = {**target.parameters, "request": wanted}, _run_key(deployment, request, once)
            flow_run = await client.create_flow_run_from_deployment(
                target.id, parameters=parameters, idempotency_key=key
            )
            if flow_run.deployment_id != target.id:
                message = f"run {flow_run.id} of this key belongs to another deployment than {deployment}. Give --once another key."
                raise FollowError(message)
            return flow_run.id
    except httpx.HTTPError as error:
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500:
            raise FollowError(f"the server refused to start {deployment}: {_refusal(error)}") from error
        raise Unreachable(unanswered(client.api_url, error)) from error
    except ObjectNotFound as error:
        at = _at(client.api_url)
        message = f"the server {at} has no deployment {deployment!r}. `prefect deployment ls` lists those that there are."
        raise NoSuchRun(message) from error


def _run_key(deployment: str, request: Mapping[str, object], once: str) -> str:
    """Prefect's key of the run. It is unique in a flow, which all deployments of gates share."""
    return f"{deployment} {digest(dump_plain(request))} {once}"


async def cancel(run: UUID) -> str:
    """Cancel the run and wait for its end, a minute at most; returns the result, for people."""
    async with get_client() as client:
        try:
            await client.set_flow_run_state(
                run, Cancelling(message="the command that started it was interrupted")
            )
            until = time.monotonic() + CANCEL_S
            while time.monotonic() < until:
                flow_run = await client.read_flow_run(run)
                if flow_run.state is not None and flow_run.state.is_final():
                    return f"run {run} has been cancelled ({flow_run.state.name})"
                await asyncio.sleep(POLL_S)
        except httpx.HTTPError as error:
            return f"run {run} could not be cancelled ({_reason(error)}): cancel it in Prefect"
        except ObjectNotFound:
            return f"run {run} no longer exists"
    return f"run {run} was asked to end, but has not ended yet. Look at it in Prefect"


def page_of(run: UUID) -> str:
    """The run's page in Prefect's UI, without a password; "" if there is none."""
    return redacted(run_url(str(run)))


async def find_started(deployment: str, request: Mapping[str, object], once: str) -> UUID | None:
    """The run that a call of `start` with these arguments started, whose answer got lost; None if there is no such run."""
    keys = [_run_key(deployment, request, once)]
    chosen = FlowRunFilter.model_validate({"idempotency_key": {"any_": keys}})
    async with get_client() as client:
        for _ in range(LOOKS):
            if runs := await client.read_flow_runs(flow_run_filter=chosen, limit=1):
                return runs[0].id
            await asyncio.sleep(LOOK_S)
    return None


async def _announced(client: PrefectClient, run: UUID) -> tuple[RunStatus | None, str]:
    artifact = await status_artifact(client, run)
    if artifact is None:
        return None, "the run published no status"
    try:
        return read_status(artifact.data), ""
    except StatusError as error:
        return None, f"the status that the run published cannot be used: {error}"


async def _progress(client: PrefectClient, run: FlowRun, waits: str) -> Progress:
    """What to show while it runs: the checks' progress, or the state that it waits in, and why."""
    state = run.state
    if state is None or not state.is_running():
        name = (state.name if state is not None else None) or "unknown"
        detail = waits or (state.message if state is not None else "")
        begins = state is None or state.is_scheduled() or state.is_pending()
        idle = begins or (state is not None and state.is_paused())
        return Progress("waiting" if begins else "run", f"{name}: {detail}" if detail else name, waits=idle)
    chosen = ArtifactFilter.model_validate(
        {"flow_run_id": {"any_": [run.id]}, "type": {"any_": ["progress"]}}
    )
    newest = await client.read_artifacts(artifact_filter=chosen, sort=ArtifactSort.UPDATED_DESC, limit=1)
    if not newest:
        return Progress("run", "running")
    artifact = newest[0]
    if artifact.updated is not None and artifact.updated < state.timestamp:
        return Progress("run", "running again, after it waited")  # that progress is of before
    percent = round(artifact.data) if isinstance(artifact.data, (int, float)) else 0
    return Progress("checks", artifact.description or "checking", percent, 100)


def _followed(run: FlowRun, final: bool, announced: RunStatus | None, fault: str) -> FollowedRun:
    state = run.state
    completed = state is not None and state.is_completed()
    if announced is not None and announced.code == Exit.GO and not completed:
        # Said by an earlier try of this run, or before somebody ended it and its jobs: no go any more.
        announced, fault = None, "its last status was a go, but the run did not end so"
    if state is None:
        return FollowedRun(str(run.id), "", "", final, announced, fault)
    cancelled = state.is_cancelled() or state.is_cancelling()
    return FollowedRun(str(run.id), state.name or "", state.message or "", final, announced, fault, cancelled)


def _merged(own: Any, requested: Any) -> Any:
    """The deployment's own request, and what was asked on top: tables key by key, and a list after the deployment's own list."""
    if isinstance(own, dict) and isinstance(requested, Mapping):
        return {**own, **{key: _merged(own.get(key), value) for key, value in requested.items()}}
    return [*own, *requested] if isinstance(own, list) and isinstance(requested, list) else requested


def _is_unwelcome(error: httpx.HTTPError) -> bool:
    """Whether the server answers but rejects the password, so that asking again does not help."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (401, 403)


def unanswered(url: object, error: httpx.HTTPError) -> str:
    """What every command says of a server at this address that failed, and the remedy."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"the Prefect server {_at(url)} refuses: {_refusal(error)}"
    reason = _reason(error).rstrip(".")
    remedy = "Start it, or correct PREFECT_API_URL; `prelaunch doctor` looks at it."
    return f"the Prefect server {_at(url)} does not answer: {reason}. {remedy}"


def _at(url: object) -> str:
    """The server's address without its password, with a hint about a common mistake."""
    url = str(url).rstrip("/")
    hint = "" if url.endswith("/api") else "; its address in PREFECT_API_URL usually ends in /api"
    return redacted(f"at {url}") + hint


def _refusal(error: httpx.HTTPStatusError) -> str:
    if _is_unwelcome(error):
        return f"HTTP {error.response.status_code}. Set PREFECT_API_AUTH_STRING to the server's user and password."
    try:
        body = error.response.json()
    except ValueError:
        return f"HTTP {error.response.status_code}"
    detail = body.get("detail") if isinstance(body, dict) else None
    return redacted(f"{detail or body}")[:1000]


def _reason(error: httpx.HTTPError) -> str:
    """The error in words of our own, because its text contains the server's address, which may contain a password."""
    return redacted(str(error) or type(error).__name__)


def kept_report(status: RunStatus) -> tuple[Report | None, str]:
    """The report of the verdict, or why there is none: a table then has no nodes."""
    if status.verdict is None:
        return None, ""
    where = f"the report in {status.store} cannot be shown from here"
    try:
        store, wanted = open_store(status.store), status.verdict.digests.report
        return judged_report(store, report_key(status.gate_id), wanted), ""
    except (StoreError, DecodeError) as error:
        return None, f"{where}: {error}"


def kept_text(status: RunStatus, key: str) -> str | None:
    """A page of the gate, as the store has it; None if it cannot be read from here."""
    try:
        data = open_store(status.store).get(key)
    except StoreError:
        return None
    return None if data is None else data.decode("utf-8", "replace")
