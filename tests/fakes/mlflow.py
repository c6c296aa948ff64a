"""A tracking server of MLflow on loopback HTTP: it accepts and refuses as the real one does, and holds the runs.

    with mlflow_server() as server:
        export(run, server.uri, "experiment")
        server.runs[0].metrics

It is a stand-in: tests/tasks/reports/mlflow/test_export.py runs the same against MLflow itself. Limits and error codes are those
of https://mlflow.org/docs/latest/rest-api.html.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.serving import QuietHandler, serving

API, ARTIFACTS = "/api/2.0/mlflow/", "/api/2.0/mlflow-artifacts/artifacts/"
KEY = re.compile(r"[A-Za-z0-9_\-. /]{1,250}")


class Failure(Enum):
    """What the server does instead."""

    HANG = "hang"
    RESET = "reset"
    HTML = "an HTML page"
    ERROR = "500"
    UNAUTHORISED = "401"
    REDIRECT = "redirect"
    TRICKLE = "a byte every now and then"
    ENDLESS = "an endless answer"
    EMPTY = "an answer without keys"
    NO_ARTIFACTS = "artifacts elsewhere"
    NOT_JSON = "half an answer"


@dataclass
class Run:
    """One run."""

    run_id: str
    experiment: str
    name: str
    tags: dict[str, str]
    status: str = "RUNNING"
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)


@dataclass
class MlflowServer:
    """Its experiments and runs; `failure` is what it does instead of answering calls whose path contains `at`."""

    uri: str = ""
    experiments: dict[str, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    failure: Failure | None = None
    at: str = ""
    token: str = ""
    calls: list[str] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)


class _Refusal(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def _answer(
    server: MlflowServer, method: str, path: str, query: dict[str, list[str]], body: bytes
) -> dict[str, Any]:
    if path.startswith(ARTIFACTS) and method == "PUT":
        experiment, run_id, folder, name = unquote(path.removeprefix(ARTIFACTS)).split("/")
        run = _run(server, run_id)
        assert (run.experiment, "artifacts") == (experiment, folder)
        run.artifacts[name] = body
        return {}
    if path == ARTIFACTS.rstrip("/"):
        artifacts = _run(server, query["path"][0].split("/")[1]).artifacts
        sizes = {name: len(data) for name, data in artifacts.items()}
        return {"files": [{"path": name, "is_dir": False, "file_size": size} for name, size in sizes.items()]}
    table = json.loads(body) if body else {}
    call = path.removeprefix(API)
    if call == "experiments/get-by-name":
        name = query["experiment_name"][0]
        if name not in server.experiments:
            raise _Refusal(404, "RESOURCE_DOES_NOT_EXIST", f"Could not find experiment with name {name!r}")
        return {"experiment": {"experiment_id": server.experiments[name], "name": name}}
    if call == "experiments/create":
        if table["name"] in server.experiments:
            raise _Refusal(400, "RESOURCE_ALREADY_EXISTS", "exists")
        server.experiments[table["name"]] = str(len(server.experiments) + 1)
        return {"experiment_id": server.experiments[table["name"]]}
    if call == "runs/search":
        wanted = re.search(r"tags.`prelaunch.gate_id` = '([^']*)'", table["filter"])
        assert wanted is not None
        ended = [run for run in server.runs if run.status == "FINISHED"]
        found = [run for run in ended if run.tags.get("prelaunch.gate_id") == wanted[1]]
        return {"runs": [{"info": {"run_id": r.run_id}} for r in found]} if found else {}
    if call == "runs/create":
        run_id = uuid.uuid4().hex
        tags = {tag["key"]: tag["value"] for tag in table["tags"]}
        server.runs.append(Run(run_id, table["experiment_id"], table["run_name"], tags))
        return {"run": {"info": _info(server, server.runs[-1])}}
    if call == "runs/get":
        return {"run": {"info": _info(server, _run(server, query["run_id"][0]))}}
    if call == "runs/log-batch":
        _log(_run(server, table["run_id"]), table)
        return {}
    if call == "runs/update":
        _run(server, table["run_id"]).status = table["status"]
        return {"run_info": {}}
    raise _Refusal(404, "ENDPOINT_NOT_FOUND", path)


def _info(server: MlflowServer, run: Run) -> dict[str, str]:
    place = f"mlflow-artifacts:/{run.experiment}/{run.run_id}/artifacts"
    place = "/srv/mlruns/artifacts" if server.failure is Failure.NO_ARTIFACTS else place
    names = {"run_id": run.run_id, "experiment_id": run.experiment}
    return {**names, "status": run.status, "artifact_uri": place}


def _run(server: MlflowServer, run_id: str) -> Run:
    for run in server.runs:
        if run.run_id == run_id:
            return run
    raise _Refusal(404, "RESOURCE_DOES_NOT_EXIST", run_id)


def _log(run: Run, table: dict[str, Any]) -> None:
    metrics, params = table.get("metrics", []), table.get("params", [])
    if len(metrics) > 1000 or len(params) > 100:
        raise _Refusal(400, "INVALID_PARAMETER_VALUE", "too many")
    for one in (*metrics, *params):
        if not KEY.fullmatch(one["key"]):
            raise _Refusal(400, "INVALID_PARAMETER_VALUE", f"Invalid name: {one['key']!r}")
    for one in metrics:
        if type(one["value"]) not in (int, float) or not math.isfinite(one["value"]):
            raise _Refusal(400, "INVALID_PARAMETER_VALUE", f"Got invalid value {one['value']}")
    for one in params:
        if run.params.get(one["key"], one["value"]) != one["value"]:
            raise _Refusal(400, "INVALID_PARAMETER_VALUE", "Changing param values is not allowed")
    run.params |= {one["key"]: one["value"] for one in params}
    run.metrics |= {one["key"]: one["value"] for one in metrics}


class _Handler(QuietHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        state = self.server.state
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        state.calls.append(parts.path)
        if state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
            return self.answer(401, b"You are not authenticated.")
        if state.failure is not None and state.at in parts.path and self._fails(state.failure):
            return None
        try:
            found = _answer(state, self.command, parts.path, parse_qs(parts.query), body)
            return self.answer(200, json.dumps(found).encode())
        except _Refusal as error:
            said = {"error_code": error.code, "message": str(error)}
            return self.answer(error.status, json.dumps(said).encode())

    do_GET = do_POST = do_PUT = _serve

    def _fails(self, failure: Failure) -> bool:
        if failure in ANSWERS:
            self.answer(*ANSWERS[failure])
        elif failure is Failure.REDIRECT:
            self.answer(302, Location="http://127.0.0.1:9/elsewhere")
        elif failure is Failure.HANG:
            self.server.state.ends.wait(600)
        elif failure is Failure.RESET:
            self.reset()
        elif failure in (Failure.TRICKLE, Failure.ENDLESS):
            self._pour(failure is Failure.ENDLESS)
        else:
            return False
        return True

    def _pour(self, fast: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 40))
        self.end_headers()
        until = time.monotonic() + 600
        try:
            while time.monotonic() < until and not self.server.state.ends.wait(0 if fast else 0.05):
                self.wfile.write(b" " * (65536 if fast else 1))
        except OSError:
            self.close_connection = True

    def handle(self) -> None:
        with suppress(OSError):  # the client left
            super().handle()


# Whole answers that are wrong.
ANSWERS: dict[Failure, tuple[int, bytes]] = {
    Failure.HTML: (200, b"<html>Sign in</html>"),
    Failure.ERROR: (500, b"Internal Server Error"),
    Failure.UNAUTHORISED: (401, b"You are not authenticated."),
    Failure.EMPTY: (200, b"{}"),
    Failure.NOT_JSON: (200, b'{"experiment": {"exp'),
}


class _Server(ThreadingHTTPServer):
    def __init__(self, state: MlflowServer) -> None:
        self.state = state
        super().__init__(("127.0.0.1", 0), _Handler)


@contextmanager
def mlflow_server() -> Iterator[MlflowServer]:
    """A server that serves until the end of the block."""
    state = MlflowServer()
    server = _Server(state)
    state.uri = f"http://127.0.0.1:{server.server_port}"
    with serving(server, state.ends.set):
        yield state
