"""A tracking server of MLflow, through its REST API and without the package mlflow. Everything ends by a deadline.

https://mlflow.org/docs/latest/rest-api.html (read 2026-11-22): at most 1000 metrics, 100 parameters and 100 tags a call. Artifacts go
through the server's own proxy (mlflow-artifacts); one that hands out another store's address cannot be given any without the package.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tasks.reports.mlflow.errors import ExportError
from tasks.reports.mlflow.run import ARTIFACT, MlflowRun
from tasks.text.redact import redact

EXPERIMENTS, RUNS = "/api/2.0/mlflow/experiments/", "/api/2.0/mlflow/runs/"
PROXY, PROXY_PATH = "mlflow-artifacts:", "/api/2.0/mlflow-artifacts/artifacts/"
TAG = "prelaunch.gate_id"
METRICS, PARAMS = 1000, 100
ANSWER_BYTES = 1 << 20
MISSING, EXISTS = "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"


class _Refused(ExportError):
    """The server answered with an error."""

    def __init__(self, said: str, code: str) -> None:
        super().__init__(said)
        self.code = code


class RestServer:
    """One server. `environment` may hold MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."""

    def __init__(self, uri: str, environment: Mapping[str, str], seconds: float) -> None:
        self._uri, self._environment = uri.rstrip("/"), environment
        self._ends = time.monotonic() + seconds

    def export(self, run: MlflowRun, experiment: str) -> str:
        """Log the run, unless the gate has one there already; returns where it is. Raises ExportError."""
        number = self._experiment(experiment)
        known = self._known(number, run.gate_id)
        if known:
            return self._place(number, known)
        body = {"experiment_id": number, "run_name": run.name, "start_time": run.measured_ms,
                "tags": [{"key": TAG, "value": run.gate_id}, {"key": "mlflow.runName", "value": run.name}]}  # fmt: skip
        info = _table(_table(self._call("POST", f"{RUNS}create", body), "run"), "info")
        run_id, artifacts = _text(info, "run_id"), str(info.get("artifact_uri", ""))
        try:
            self._log(run, run_id)
            self._artifact(artifacts, run.artifact)
        except ExportError:
            self._end(run_id, "FAILED")
            raise
        self._end(run_id, "FINISHED", required=True)
        return self._place(number, run_id)

    def _experiment(self, name: str) -> str:
        try:
            return self._experiment_of(name)
        except _Refused as error:
            if error.code != MISSING:
                raise
        try:
            return _text(self._call("POST", f"{EXPERIMENTS}create", {"name": name}), "experiment_id")
        except _Refused as error:
            if error.code != EXISTS:  # another gate was faster
                raise
        return self._experiment_of(name)

    def _experiment_of(self, name: str) -> str:
        found = self._call("GET", f"{EXPERIMENTS}get-by-name?experiment_name={quote(name, safe='')}")
        return _text(_table(found, "experiment"), "experiment_id")

    def _known(self, experiment: str, gate_id: str) -> str:
        """The run of the gate, so that one that is exported again is there once; "" if there is none that was finished."""
        query = f"tags.`{TAG}` = '{gate_id}' and attributes.status = 'FINISHED'"
        body = {"experiment_ids": [experiment], "filter": query, "max_results": 1}
        runs = self._call("POST", f"{RUNS}search", body).get("runs")
        first = runs[0] if isinstance(runs, list) and runs else None
        return _text(_table(first, "info"), "run_id") if isinstance(first, dict) else ""

    def _log(self, run: MlflowRun, run_id: str) -> None:
        metrics = [
            {"key": key, "value": value, "timestamp": run.measured_ms, "step": 0}
            for key, value in run.metrics.items()
        ]
        params = [{"key": key, "value": value} for key, value in run.params.items()][:PARAMS]
        self._call("POST", f"{RUNS}log-batch", {"run_id": run_id, "params": params})
        for begin in range(0, len(metrics), METRICS):
            self._call(
                "POST", f"{RUNS}log-batch", {"run_id": run_id, "metrics": metrics[begin : begin + METRICS]}
            )

    def _artifact(self, place: str, data: bytes) -> None:
        path = place.removeprefix(PROXY).lstrip("/")
        if not place.startswith(PROXY) or place.startswith(f"{PROXY}//"):
            raise ExportError(
                f"the server keeps artifacts at {place[:60]!r}, where they cannot be written through it: the run has no report. "
                "Start it with --serve-artifacts, or install prelaunch[mlflow]."
            )
        self._request("PUT", f"{PROXY_PATH}{quote(path)}/{ARTIFACT}", data)

    def _end(self, run_id: str, status: str, required: bool = False) -> None:
        body = {"run_id": run_id, "status": status, "end_time": int(time.time() * 1000)}
        try:
            self._call("POST", f"{RUNS}update", body)
        except ExportError:
            if required:
                raise

    def _place(self, experiment: str, run_id: str) -> str:
        return f"{self._uri}/#/experiments/{experiment}/runs/{run_id}"

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        answer = self._request(method, path, data)
        try:
            found = json.loads(answer)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ExportError(f"{self._uri} answers, but not as MLflow does. Correct the address.")
        return found

    def _request(self, method: str, path: str, data: bytes | None) -> bytes:
        import httpx

        name, left = path.partition("?")[0], self._ends - time.monotonic()
        if left <= 0:
            raise ExportError(f"{self._uri} did not answer in time ({name}).")
        headers = {"Content-Type": "application/json" if method != "PUT" else "application/octet-stream"}
        token, user = (
            self._environment.get("MLFLOW_TRACKING_TOKEN"),
            self._environment.get("MLFLOW_TRACKING_USERNAME"),
        )
        auth = None
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif user:
            auth = httpx.BasicAuth(user, self._environment.get("MLFLOW_TRACKING_PASSWORD", ""))
        try:
            with httpx.stream(
                method,
                self._uri + path,
                content=data,
                headers=headers,
                auth=auth,
                timeout=left,
                follow_redirects=False,
            ) as answer:
                body = self._body(answer)
        except (
            ImportError
        ) as error:  # a proxy of the environment for which httpx has no package, such as socks5://
            raise ExportError(f"{self._uri} was not asked: {error} Look at the proxy variables.") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            said = redact(f"{type(error).__name__}: {error}", self._environment)
            raise ExportError(
                f"{self._uri} did not answer {name} ({said[:200]}). Check that it runs."
            ) from None
        if answer.status_code != 200:
            raise self._refused(answer.status_code, body, name)
        return body

    def _body(self, answer: Any) -> bytes:
        parts, size = [], 0
        for part in answer.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > ANSWER_BYTES:
                raise ValueError(f"the answer is longer than {ANSWER_BYTES} bytes")
            if time.monotonic() > self._ends:
                raise ValueError("the answer did not end in time")
        return b"".join(parts)

    def _refused(self, status: int, body: bytes, name: str) -> _Refused:
        try:
            found = json.loads(body)
        except ValueError:
            found = {}
        code = str(found.get("error_code", "")) if isinstance(found, dict) else ""
        said = str(found.get("message", "")) if isinstance(found, dict) else ""
        remedy = (
            " Set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
            if status in (401, 403)
            else ""
        )
        shown = redact(said, self._environment)[:200]
        return _Refused(
            f"{self._uri} answered {status} to {name}{f': {code} {shown}' if code else ''}.{remedy}", code
        )


def _table(value: Any, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise ExportError(f"the answer of the server has no {key}: it does not answer as MLflow does.")
    return found


def _text(table: Mapping[str, Any], key: str) -> str:
    found = table.get(key)
    if not isinstance(found, str) or not found:
        raise ExportError(f"the answer of the server has no {key}: it does not answer as MLflow does.")
    return found
