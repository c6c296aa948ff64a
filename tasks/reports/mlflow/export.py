"""Exports a gate to the tracking server at an address: http(s) without the package mlflow, SageMaker's ARNs with it.

Whatever the server does, it ends in time: a call that hangs is left behind in a daemon thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from checks.runner.deadline import limited
from tasks.reports.mlflow.errors import ExportError, ExportRejected
from tasks.reports.mlflow.rest import RestServer
from tasks.reports.mlflow.run import MlflowRun

ARN = re.compile(
    r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:(mlflow-tracking-server|mlflow-app)/[A-Za-z0-9-]+"
)
FORMS = "an address of the form https://host, or the ARN of a tracking server of SageMaker"
SECONDS = 5.0
# The imports of the packages, which ask nobody, take this long on a busy machine.
IMPORT_S = 60.0


def require_address(uri: str) -> None:
    """Raise ExportRejected unless a run could be sent to the address."""
    if uri.startswith("arn:"):
        if not ARN.fullmatch(uri):
            raise ExportRejected(f"{uri[:80]!r} is not {FORMS}.")
        return
    try:
        parts = urlsplit(uri)
        usable = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not parts.query
            and not parts.fragment
        )
        usable = usable and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
        parts = None
    if not usable or parts is None:
        raise ExportRejected(f"the address is not {FORMS}.")
    if parts.username or parts.password:
        raise ExportRejected(
            "the address contains a password. Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
        )


def export(
    run: MlflowRun, uri: str, experiment: str, environment: Mapping[str, str], seconds: float = SECONDS
) -> str:
    """Log the run; returns where it is, for people. Raises ExportError, ExportRejected."""
    require_address(uri)
    if uri.startswith("arn:"):
        from tasks.reports.mlflow.plugin import require_plugin

        limited(IMPORT_S, require_plugin)
    try:
        return limited(seconds, lambda: _sent(run, uri, experiment, environment, seconds))
    except TimeoutError:
        raise ExportError(f"{uri} did not answer within {seconds:g} s. Check that it runs.") from None


def _sent(run: MlflowRun, uri: str, experiment: str, environment: Mapping[str, str], seconds: float) -> str:
    if uri.startswith("arn:"):
        from tasks.reports.mlflow.plugin import log_run

        return log_run(run, uri, experiment)
    return RestServer(uri, environment, seconds).export(run, experiment)
