"""A tracking server of SageMaker, through the packages mlflow-skinny and sagemaker-mlflow, which sign its calls. It was never run on
AWS.
"""

from __future__ import annotations

import json
import os

from tasks.reports.mlflow.errors import ExportError, ExportRejected
from tasks.reports.mlflow.run import ARTIFACT, MlflowRun

TAG = "prelaunch.gate_id"
REMEDY = (
    "an ARN of SageMaker needs packages that are not installed ({}). Remedy: pip install 'prelaunch[mlflow]'"
)
# The client would try again for minutes.
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "3"}


def require_plugin() -> None:
    """Raise ExportRejected unless both packages are there."""
    try:
        import sagemaker_mlflow  # noqa: F401, I001 - before mlflow, which complains about a plugin that it cannot import

        import mlflow  # noqa: F401
    except ImportError as error:
        raise ExportRejected(REMEDY.format(error.name)) from None


def log_run(run: MlflowRun, uri: str, experiment: str) -> str:
    """Log the run with MLflow's own client. Raises ExportError."""
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    try:
        client = MlflowClient(tracking_uri=uri)
        known = client.get_experiment_by_name(experiment)
        number = known.experiment_id if known is not None else client.create_experiment(experiment)
        made = client.create_run(
            number, start_time=run.measured_ms, run_name=run.name, tags={TAG: run.gate_id}
        )
        run_id = made.info.run_id
        metrics = [Metric(key, value, run.measured_ms, 0) for key, value in run.metrics.items()]
        client.log_batch(run_id, params=[Param(key, value) for key, value in run.params.items()])
        for begin in range(0, len(metrics), 1000):
            client.log_batch(run_id, metrics=metrics[begin : begin + 1000])
        client.log_dict(run_id, json.loads(run.artifact), ARTIFACT)
        client.set_terminated(run_id)
    except Exception as error:  # noqa: BLE001 - whatever a client of another program raises
        raise ExportError(f"{uri} took no run: {type(error).__name__}: {str(error)[:200]}") from None
    return f"{uri} experiment {experiment}, run {run_id}"
