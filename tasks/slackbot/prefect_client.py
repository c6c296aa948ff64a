"""The calls of `prelaunch serve slack` to Prefect's server: runs, deployments, resume, start.

PrefectUnreachable         the server does not answer, or only with an error of its own: try again
NotStarted          there is no such deployment, or the server refused to start it
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tasks.gate.links import run_url
from tasks.gate_file.folder import path_of

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

FLOW, REMEDY = "gate", "remedy"
GOING = ("RUNNING", "PAUSED", "PENDING", "SCHEDULED", "CANCELLING")
MOST_RUNS = 100


class PrefectError(Exception):
    """Prefect's server did not do what was asked. The message says why, and the remedy."""


class PrefectUnreachable(PrefectError):
    """The server does not answer, or only with an error of its own."""


class NotStarted(PrefectError):
    """There is no such deployment, or the server refused to start it."""


@dataclass(frozen=True)
class PrefectRun:
    """A flow run as far as it matters here. `gate_file` is resolved on this machine, None if it names none.

    `question` is the gate's id and the key of the question that it waits for, None if it waits for none.
    """

    id: str
    name: str
    flow: str
    gate_file: Path | None
    state: str
    question: tuple[str, str] | None
    paused: bool
    over: bool

    @property
    def url(self) -> str:
        """Its page in Prefect's UI; "" if none is configured."""
        return run_url(self.id)


class PrefectRuns:
    """One client for all threads. Every method raises PrefectUnreachable, and ends within seconds."""

    def __init__(self) -> None:
        from prefect.client.orchestration import get_client

        self._client: SyncPrefectClient = get_client(sync_client=True)
        self._flows: dict[UUID, str] = {}
        self._stack = contextlib.ExitStack()

    def open(self) -> None:
        """Connect; the server has to answer now."""
        with _asking():
            self._stack.enter_context(self._client)
            self._client.hello().raise_for_status()

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def run(self, flow_run_id: str) -> PrefectRun | None:
        """The run; None if the server knows none of this id."""
        from prefect.exceptions import ObjectNotFound

        try:
            wanted = UUID(flow_run_id)
        except ValueError:
            return None
        with _asking():
            try:
                return self._to_run(self._client.read_flow_run(wanted))
            except ObjectNotFound:
                return None

    def resume(self, flow_run_id: str, run_input: Mapping[str, object]) -> str:
        """Resume a paused run with the answers of its form; "" if it was, else why the server refused."""
        with _asking():
            done = self._client.resume_flow_run(UUID(flow_run_id), dict(run_input))
        if done.status.value == "ACCEPT":
            return ""
        return str(getattr(done.details, "reason", None) or done.status.value)

    def start(self, deployment: str, gate_file: Path, key: str, tags: Sequence[str]) -> PrefectRun:
        """A run of the deployment, with its own parameters; the same key starts nothing twice. Raises NotStarted."""
        from prefect.exceptions import ObjectNotFound

        with _asking():
            try:
                target = self._client.read_deployment_by_name(deployment)
            except ObjectNotFound as error:
                message = f"Prefect's server has no deployment {deployment!r}. Run `prefect deploy` for it."
                raise NotStarted(message) from error
            flow_run = self._client.create_flow_run_from_deployment(
                target.id,
                parameters=_parameters(deployment, target.parameters, gate_file),
                tags=list(tags),
                idempotency_key=key,
            )
            return self._to_run(flow_run)

    def going(self, states: Sequence[str] = GOING) -> tuple[PrefectRun, ...]:
        """The gates' runs in these states, which by default run, wait or are due now, newest first."""
        from prefect.client.schemas.filters import FlowFilter, FlowRunFilter
        from prefect.client.schemas.sorting import FlowRunSort

        due = {"before_": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))}
        chosen = FlowRunFilter.model_validate(
            {"state": {"type": {"any_": list(states)}}, "expected_start_time": due}
        )
        flow = FlowFilter.model_validate({"name": {"any_": [FLOW]}})
        with _asking():
            flow_runs = self._client.read_flow_runs(
                flow_filter=flow,
                flow_run_filter=chosen,
                limit=MOST_RUNS,
                sort=FlowRunSort.EXPECTED_START_TIME_DESC,
            )
            return tuple(self._to_run(run) for run in flow_runs)

    def _to_run(self, run: FlowRun) -> PrefectRun:
        if run.flow_id not in self._flows:
            self._flows[run.flow_id] = self._client.read_flow(run.flow_id).name
        from tasks.gate.approval.answers import paused_for

        state = run.state
        return PrefectRun(
            str(run.id),
            run.name,
            self._flows[run.flow_id],
            gate_file_of(run.parameters),
            (state.name or "") if state else "",
            paused_for(state) if state else None,
            state is not None and state.is_paused(),
            state is not None and state.is_final(),
        )


def gate_file_of(parameters: Mapping[str, Any]) -> Path | None:
    """The gate file that a run's parameters name, as a worker in this folder would find it; None if they name none."""
    request = parameters.get("request")
    file = request.get("gate_file") if isinstance(request, Mapping) else getattr(request, "gate_file", None)
    return path_of(file).resolve() if isinstance(file, str) and file else None


def _parameters(deployment: str, parameters: Mapping[str, Any] | None, gate_file: Path) -> dict[str, Any]:
    """Nothing where the deployment names the gate file itself; else the name of the file, or its path if it is not in the folder of
    gate files. Raises NotStarted for another file.
    """
    own_file = gate_file_of(parameters or {})
    if own_file is None:
        request, name = (parameters or {}).get("request"), gate_file.stem
        name = name if path_of(name).resolve() == gate_file else str(gate_file)
        return {"request": {**(request if isinstance(request, Mapping) else {}), "gate_file": name}}
    if own_file != gate_file:
        raise NotStarted(
            f"deployment {deployment!r} is for {own_file}, the list of prelaunch serve slack says {gate_file}. "
            "Let both name one gate file, and start prelaunch serve slack in the folder of the workers."
        )
    return {}


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """Turn what httpx and Prefect raise into NotStarted or PrefectUnreachable."""
    import httpx
    from prefect.exceptions import PrefectException, PrefectHTTPStatusError

    try:
        yield
    except PrefectHTTPStatusError as error:
        code = error.response.status_code
        if code in (409, 422):
            detail = " ".join(error.response.text.split())[:300]
            raise NotStarted(f"Prefect's server refused it ({code}): {detail}.") from error
        raise PrefectUnreachable(f"Prefect's server answers {code}.") from error
    except httpx.HTTPStatusError as error:
        raise PrefectUnreachable(f"Prefect's server answers {error.response.status_code}.") from error
    except (httpx.HTTPError, PrefectException, OSError, RuntimeError) as error:
        raise PrefectUnreachable(f"Prefect's server does not answer ({type(error).__name__}).") from error
