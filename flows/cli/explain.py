"""`prelaunch explain FILE...`: reads a tool's raw output and prints findings, each with the lines that prove it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from checks.command_line import InputError, number
from checks.culprit.matrix import Better
from checks.documents.report import plain
from checks.exit_codes import Exit
from checks.explain.reading import OutputKind, ReadOptions
from checks.judge.culprits.matrix_file import LATE, SLOW, DecodedTable
from flows.cli.output import json_text, rejection, stdout_colour, stdout_width, write_stderr, write_stdout
from flows.cli.shared_arguments import add_format, add_policy, whole_number
from tasks.render.findings import verdict_json
from tasks.reports.command_line import write_file
from tasks.reports.explained_input import ExplainedInput, explain_input, explanation_text
from tasks.reports.read import declared_of, exit_code, policy_of, results_of, worst_code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE... --kind K --instance-type T --nodes N --policy FILE --html FILE --format text|json."""
    text = "a file with a tool's output, or - for stdin"
    parser.add_argument("files", nargs="+", metavar="FILE", help=text)
    kinds = [output.value for output in OutputKind]
    text = f"the kind of output: {', '.join(kinds)} (default: recognised from the content). dcgmi is diag, health, policy or nvlink "
    text += "(not dmon); report is that of sagemaker-training-jobs-cluster-health-check"
    parser.add_argument("--kind", choices=kinds, metavar="K", help=text)
    text = (
        "the instance type that the output comes from, such as p5.48xlarge, so that missing parts are found"
    )
    parser.add_argument("--instance-type", metavar="T", help=text)
    text = "the number of nodes that the output covers (default 1)"
    parser.add_argument("--nodes", type=whole_number, metavar="N", help=text)
    add_policy(parser, "(default: the shipped policy of the declared type, else nvidia or neuron)")
    of_matrix = parser.add_argument_group("options for a matrix (CSV, p2pBandwidthLatencyTest)")
    text = "whether higher or lower values are better, if the header names neither bandwidth nor latency"
    of_matrix.add_argument("--better", choices=[choice.value for choice in Better], help=text)
    text = "the minimum for each test (default: none)"
    of_matrix.add_argument("--floor", type=number(0, 1e15, "the unit of the matrix"), metavar="X", help=text)
    text = f"a bandwidth is bad below this share of the median (default {SLOW}), a latency above the median / R (default R {LATE})"
    of_matrix.add_argument("--ratio", type=number(0, 0.9999, "shares"), metavar="R", help=text)
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write an HTML page (of one input)")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain every file; the exit code is the worst, in the order 2, 1, 3, 0."""
    if len(arguments.files) > 1 and arguments.html is not None:
        raise InputError(arguments.files[1], "a page shows one input. Explain the inputs one by one.")
    if arguments.html is not None:
        write_file(arguments.html, None)
    policy, options = policy_of(arguments.policy), _options(arguments)
    output_kind = OutputKind(arguments.kind) if arguments.kind else None
    results = results_of(arguments.files, lambda file: explain_input(file, output_kind, policy, options))
    return _show(arguments, results)


def _options(arguments: argparse.Namespace) -> ReadOptions:
    """Raises InputError."""
    options = _declared(arguments)
    better = Better(arguments.better) if arguments.better else None
    is_of_matrix = (better, arguments.floor, arguments.ratio) != (None, None, None)
    if is_of_matrix and arguments.kind not in (None, OutputKind.MATRIX):
        message = f"they apply to a matrix only, and {arguments.kind} is not a matrix"
        raise InputError("--better, --floor and --ratio", message)
    return replace(options, better=better, floor=arguments.floor, ratio=arguments.ratio)


def _declared(arguments: argparse.Namespace) -> ReadOptions:
    if arguments.instance_type is not None:
        return ReadOptions(declared_of(arguments.instance_type, arguments.nodes or 1))
    if arguments.nodes is not None:
        raise InputError("--nodes", "--nodes needs --instance-type. Give both.")
    return ReadOptions()


def _show(arguments: argparse.Namespace, results: list[ExplainedInput | InputError]) -> int:
    good = [result for result in results if isinstance(result, ExplainedInput)]
    if arguments.html is not None:
        _write_page(arguments.html, good[0])
    if arguments.format == "json" and len(results) == 1:
        write_stdout(json_text({**verdict_json(good[0].verdict), **_document(good[0])}))
    elif arguments.format == "json":
        files = [_file_json(file, result) for file, result in zip(arguments.files, results, strict=True)]
        write_stdout(json_text({"files": files}))
    else:
        texts = [explanation_text(result, stdout_colour(), stdout_width()) for result in good]
        write_stdout("\n".join(texts))
    for result in results:
        if isinstance(result, InputError):
            write_stderr(f"prelaunch: {result}")
    for chosen in dict.fromkeys(result.policy for result in good if result.policy):
        write_stderr(f"policy: {chosen}")
    return worst_code(
        [exit_code(r.verdict) if isinstance(r, ExplainedInput) else Exit.REJECTED for r in results]
    )


def _write_page(path: Path, result: ExplainedInput) -> None:
    """The HTML page, with what was decoded of a matrix. Raises OutputError."""
    from tasks.render.context import VerdictContext
    from tasks.render.html import html
    from tasks.render.views.suspects import DecodedMatrix

    matrices = [DecodedMatrix("matrix", t.table.name, t.table.matrix, t.decoded) for t in result.tables]
    write_file(path, html(None, result.verdict, result.name, VerdictContext(matrices=tuple(matrices))))


def _document(result: ExplainedInput) -> dict[str, object]:
    return {
        "file": result.file,
        "kind": result.tool.value if result.tool else None,
        "title": result.title,
        "held": list(result.held),
        "not_judged": list(result.left_out),
        **({"decoded": [_decoded(table) for table in result.tables]} if result.tables else {}),
    }


def _decoded(entry: DecodedTable) -> dict[str, object]:
    """What the decoder said: suspects by likelihood, the noise that it fitted, what ought to be measured again."""
    matrix, decoded = entry.table.matrix, entry.decoded
    names = [endpoint.name for endpoint in matrix.endpoints]
    return {
        "matrix": entry.table.name,
        "unit": matrix.unit,
        "better": matrix.better.value,
        "span": matrix.span.value,
        "answer": decoded.answer.value,
        "noise": plain(decoded.noise),
        "suspects": plain(decoded.suspects),
        "confirm": [{"source": names[a], "target": names[b]} for a, b in decoded.confirm],
    }


def _file_json(file: str, result: ExplainedInput | InputError) -> dict[str, object]:
    if isinstance(result, ExplainedInput):
        return {**_document(result), "verdict": verdict_json(result.verdict), "error": None}
    nothing: dict[str, object] = {"kind": None, "title": None, "held": [], "not_judged": [], "verdict": None}
    return {"file": file, **nothing, **rejection(result.file, result.path, result.message, result.nearest)}
