"""`prelaunch judge REPORT...`: the verdict from the report alone; the same input always gives the same bytes."""

from __future__ import annotations

import argparse

from checks.command_line import InputError
from checks.exit_codes import Exit
from flows.cli import output
from flows.cli.shared_arguments import add_baseline, add_policy, add_store_of_ids
from tasks.gate_file.cost_terms import cost_json
from tasks.gate_file.references import read_baseline
from tasks.render.findings import verdict_json
from tasks.render.headline import run_json
from tasks.reports.gate_folder.decision import own_decision_json
from tasks.reports.read import JudgedFile, exit_code, judge_file, policy_of, results_of, worst_code
from tasks.reports.store_argument import report_named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """REPORT... --policy FILE --kept, and the outputs."""
    text = "a report: a file, a folder that contains one, the id of a gate, or - for stdin"
    parser.add_argument("reports", nargs="+", metavar="REPORT", help=text)
    add_store_of_ids(parser)
    add_policy(
        parser,
        "(default: the gate's own if it is stored with the report, else the shipped policy of the type)",
    )
    add_baseline(parser)
    parser.add_argument(
        "--kept", action="store_true",
        help="show the verdict that the gate stored with its report, and how the gate ended; without a stored verdict, and with "
        "--policy or --baseline, the report is judged again",
    )  # fmt: skip
    output.add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judge every report; the exit code is the worst, in the order 2, 1, 3, 0."""
    pages = (arguments.junit, arguments.summary, arguments.html)
    if len(arguments.reports) > 1 and (arguments.format == "junit" or any(pages)):
        raise InputError(arguments.reports[1], "a page shows one report. Judge the reports one by one.")
    output.require_writable(arguments)
    policy = policy_of(arguments.policy)
    baseline = read_baseline(arguments.baseline) if arguments.baseline is not None else None
    as_kept = _with_kept_end if arguments.kept else None

    def judged(file: str) -> JudgedFile:
        return judge_file(report_named(file, arguments.store), policy, baseline, as_kept)

    return _show(arguments, results_of(arguments.reports, judged))


def _with_kept_end(judged: JudgedFile) -> JudgedFile:
    # It brings the engines' models, which judging alone does not need.
    from tasks.gate.record.end import with_kept_end

    return with_kept_end(judged)


def _show(arguments: argparse.Namespace, results: list[JudgedFile | InputError]) -> int:
    good = [result for result in results if isinstance(result, JudgedFile)]
    if len(results) == 1:
        output.write_files(arguments, good[0].report, good[0].verdict, good[0].name, good[0].context)
    if arguments.format == "json" and len(results) > 1:
        verdicts = [_file(name, result) for name, result in zip(arguments.reports, results, strict=True)]
        output.write_stdout(output.json_text({"verdicts": verdicts}))
    else:
        output.write_stdout("\n".join(_page(result, arguments.format) for result in good))
    for result in results:
        if isinstance(result, InputError):
            output.write_stderr(f"prelaunch: {result}")
        elif result.policy:
            output.write_stderr(f"policy: {result.policy}")
    return worst_code([exit_code(r.verdict) if isinstance(r, JudgedFile) else Exit.REJECTED for r in results])


def _page(result: JudgedFile, form: str) -> str:
    if form == "json":
        return output.json_text(_document(result))
    return output.text_of(result.report, result.verdict, result.name, form, result.context)


def _document(result: JudgedFile) -> dict[str, object]:
    """The verdict, and beside it what the gate itself decided, where that is kept."""
    own = {}
    if result.record is not None:
        own["own_decision"] = own_decision_json(result.record, result.verdict, result.context.own_decision)
    return {
        **verdict_json(result.verdict),
        **run_json(result.report),
        **own,
        "cost": cost_json(result.context.cost),
    }


def _file(file: str, result: JudgedFile | InputError) -> dict[str, object]:
    if isinstance(result, InputError):
        error = output.rejection(result.file, result.path, result.message, result.nearest)
        return {"file": file, "verdict": None, **error}
    return {"file": file, "verdict": _document(result), "error": None}
