"""`prelaunch fleet export REPORT`: sends a report and its verdict to MLflow, as a run of an experiment."""

from __future__ import annotations

import argparse
import os
import re

from checks.command_line import InputError
from checks.exit_codes import Exit
from flows.cli.output import report_failure, write_result
from flows.cli.shared_arguments import add_format, add_policy
from tasks.reports.read import judge_file, policy_of

EXPERIMENT, URI_VARIABLE, SECONDS = "sagemaker-health-checks", "MLFLOW_TRACKING_URI", 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """REPORT --mlflow-uri URI --mlflow-experiment-name NAME --policy FILE --format text|json."""
    parser.description = (
        "Judges a report and logs it as a run of an experiment of MLflow: parameters, metrics (a value that was not measured is not "
        "logged), and the report as health_check_metrics.json. A gate that is exported twice stays one run. It needs the extra "
        "mlflow. Credentials: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, in the environment. "
        "Exit codes: 0 logged, 2 rejected, 5 the server failed."
    )
    parser.add_argument("report", metavar="REPORT", help="a report, a folder that holds one, or - for stdin")
    text = f"the tracking server (default: {URI_VARIABLE})"
    parser.add_argument("--mlflow-uri", default="", metavar="URI", help=text)
    text = f"the experiment, which is created if it does not exist (default {EXPERIMENT})"
    parser.add_argument("--mlflow-experiment-name", default=EXPERIMENT, metavar="NAME", type=_name, help=text)
    add_policy(parser, "that the report is judged with (default: the shipped policy of the declared type)")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Export; prints where the run is."""
    from tasks.reports.mlflow.export import ExportError, ExportRejected, export, require_address
    from tasks.reports.mlflow.run import run_of
    from tasks.reports.read import default_policy_of

    uri = arguments.mlflow_uri or os.environ.get(URI_VARIABLE, "")
    try:
        require_address(uri)
        policy = policy_of(arguments.policy)
        judged = judge_file(arguments.report, policy)
        if judged.report is None:
            message = "it is no report of Prelaunch, so that there is nothing to export."
            raise InputError(arguments.report, message)
        declared = judged.report.declared
        rules = policy or judged.rules or default_policy_of(declared.instance_type, declared)[0]
        entry = run_of(judged.report, judged.verdict, rules, judged.report.gate_id)
        where = export(entry, uri, arguments.mlflow_experiment_name, SECONDS)
    except ExportRejected as error:
        raise InputError("--mlflow-uri", str(error)) from error
    except ExportError as error:
        return report_failure(arguments.format, str(error), Exit.NO_CAPACITY)
    write_result(arguments.format, {"run": where, "metrics": len(entry.metrics), "error": None}, f"{where}\n")
    return int(Exit.GO)


def _name(text: str) -> str:
    if not re.fullmatch(r"[^\x00-\x1f\x7f]{1,250}", text):
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not the name of an experiment")
    return text
