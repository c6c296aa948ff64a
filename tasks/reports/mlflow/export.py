"""Exports a gate to the tracking server at an address, http(s) or an ARN of SageMaker, with the packages of the extra mlflow.

Whatever the server does, it ends in time: a call that hangs is left behind in a daemon thread. An ARN was never used on AWS.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from checks.runner.deadline import limited
from tasks.reports.mlflow.run import ARTIFACT, MlflowRun
from tasks.text.redact import redact

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

ARN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:(mlflow-tracking-server|mlflow-app)/[A-Za-z0-9-]+"
)
URL = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?(/[^\s?#@]*)?")
FORMS = (
    "of the form https://host without a password (set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD), or the ARN of a "
    "tracking server of SageMaker"
)
SECONDS = 5.0
# The imports of the packages, which ask nobody, take this long on a busy machine.
IMPORT_S = 60.0
TAG = "prelaunch.gate_id"
METRICS = 1000  # the most of a call, https://mlflow.org/docs/latest/rest-api.html
REMEDY = "Check that it runs, the proxy variables, and MLFLOW_TRACKING_TOKEN (or MLFLOW_TRACKING_USERNAME and _PASSWORD)."
# The client would try again for minutes, follow redirects, print addresses to stdout, and report its use to its makers.
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",
    "MLFLOW_ALLOW_HTTP_REDIRECTS": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


class ExportError(Exception):
    """The run was not, or not completely, logged; the message carries the remedy, and never a secret."""


class ExportRejected(ExportError):
    """The address is none that can be used, or needs an extra that is not installed; nobody was asked."""


def require_address(uri: str) -> None:
    """Raise ExportRejected unless a run could be sent to the address. It may hold a password, and is not repeated."""
    if not (ARN.fullmatch(uri) or URL.fullmatch(uri)):
        raise ExportRejected(f"the address is not {FORMS}.")


def export(run: MlflowRun, uri: str, experiment: str, seconds: float = SECONDS) -> str:
    """Log the run, unless the gate has one there already; returns where it is, for people. Raises ExportError, ExportRejected."""
    require_address(uri)
    try:
        with _client_settings():
            limited(IMPORT_S, lambda: _require_packages(uri))
            run_id = limited(seconds, lambda: _sent(run, uri, experiment))
    except TimeoutError:
        raise ExportError(f"{uri} did not answer within {seconds:g} s. {REMEDY}") from None
    except ExportError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a client of another program raises
        reason = redact(f"{type(error).__name__}: {error}", os.environ)[:200]
        raise ExportError(f"{uri} took no run: {reason}. {REMEDY}") from None
    return f"{uri} experiment {experiment}, run {run_id}"


@contextmanager
def _client_settings() -> Iterator[None]:
    """The settings for the time of the block, except those that somebody made: what a gate starts afterwards must not inherit them."""
    own = {name: value for name, value in SETTINGS.items() if name not in os.environ}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


def _require_packages(uri: str) -> None:
    """Raise ExportRejected unless the packages are there. The plugin is imported first: mlflow complains about one that it cannot."""
    try:
        if uri.startswith("arn:"):
            import sagemaker_mlflow  # noqa: F401
        import mlflow.tracking  # noqa: F401
    except ImportError as error:
        message = f"{error.name} is not installed. Remedy: pip install 'prelaunch[mlflow]'"
        raise ExportRejected(message) from None


def _sent(run: MlflowRun, uri: str, experiment: str) -> str:
    """The id of the run. What was begun and not finished is marked as failed."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    existing = client.get_experiment_by_name(experiment)
    number = _required_id(
        existing.experiment_id if existing is not None else client.create_experiment(experiment), uri
    )
    query = f"tags.`{TAG}` = '{run.gate_id}' and attributes.status = 'FINISHED'"
    if earlier := client.search_runs([number], query, max_results=1):
        return str(earlier[0].info.run_id)
    created = client.create_run(
        number, start_time=run.measured_ms, run_name=run.name, tags={TAG: run.gate_id}
    )
    run_id = _required_id(created.info.run_id, uri)
    try:
        _log(client, run, run_id, created.info.artifact_uri)
    except Exception:
        with suppress(Exception):
            client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id)
    return run_id


def _log(client: MlflowClient, run: MlflowRun, run_id: str, artifacts: str) -> None:
    from mlflow.entities import Metric, Param

    if urlsplit(artifacts).scheme in ("", "file"):  # the client would write to this machine's own disk
        message = f"the server keeps artifacts in a folder of its own ({artifacts[:60]!r}). Start it with --serve-artifacts."
        raise ExportError(message)
    metrics = [Metric(key, value, run.measured_ms, 0) for key, value in run.metrics.items()]
    client.log_batch(run_id, params=[Param(key, value) for key, value in run.params.items()])
    for begin in range(0, len(metrics), METRICS):
        client.log_batch(run_id, metrics=metrics[begin : begin + METRICS])
    client.log_text(run_id, run.artifact.decode(), ARTIFACT)
    # The client takes a redirect for success.
    if ARTIFACT not in [file.path for file in client.list_artifacts(run_id)]:
        raise ExportError(f"the server took no {ARTIFACT}: the run has no report. Correct the address.")


def _required_id(identifier: str, uri: str) -> str:
    """The id that the server gave. Raises ExportError if it gave none."""
    if not identifier:
        raise ExportError(f"{uri} answers, but not as MLflow does. Correct the address.")
    return identifier
