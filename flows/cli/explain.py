"""`prelaunch explain FILE...`: reads a tool's raw output and prints findings, each with the lines that prove it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from checks.culprit.matrix import Better
from checks.exit_codes import Exit
from checks.explain.reading import Kind, ReadOptions
from checks.judge.culprits.matrix_file import LATE, SLOW, DecodedTable, summary
from checks.model import Cause, Finding, Level, Verdict
from flows.cli.judge import add_store_of_ids
from flows.cli.output import (
    add_output_arguments,
    json_text,
    rejection,
    require_writable,
    stdout_colour,
    stdout_width,
    text_of,
    write_files,
    write_stderr,
    write_stdout,
)
from flows.cli.rejection import report_rejection
from tasks.render.findings import verdict_json
from tasks.reports.command_line import OutputError, write_file
from tasks.reports.exit_codes import exit_code, worst_code
from tasks.reports.explain import Explanation, explain_input, explanation_text, not_judged
from tasks.reports.gate_folder.decision import own_decision_json
from tasks.reports.read import InputError, declared_of, policy_of
from tasks.reports.store_argument import report_named
from tasks.store.base import StoreError

if TYPE_CHECKING:
    from tasks.render.context import VerdictContext


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE... --kind K --instance-type T --nodes N --policy FILE, and the outputs."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a file with a tool's output, the id of a gate, or - for stdin",
    )
    add_store_of_ids(parser)
    parser.add_argument(
        "--kind",
        choices=[kind.value for kind in Kind],
        metavar="K",
        help=f"the kind of output: {', '.join(kind.value for kind in Kind)} (default: recognised from the content)",
    )
    parser.add_argument(
        "--instance-type",
        metavar="T",
        help="the instance type that the output comes from, such as p5.48xlarge, so that missing parts are found",
    )
    parser.add_argument(
        "--nodes", type=int, metavar="N", help="the number of nodes that the output covers (default 1)"
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="policy, TOML or JSON (default: the shipped policy of the declared type, else nvidia or neuron)",
    )
    of_matrix = parser.add_argument_group("options for a matrix (CSV, p2pBandwidthLatencyTest)")
    of_matrix.add_argument(
        "--better",
        choices=[one.value for one in Better],
        help="whether higher or lower values are better, if the header names neither bandwidth nor latency",
    )
    of_matrix.add_argument(
        "--floor", type=float, metavar="X", help="the minimum for each test, in its own unit (default: none)"
    )
    of_matrix.add_argument(
        "--ratio",
        type=float,
        metavar="R",
        help=f"a test is bad below this share of the median (default {SLOW}; {LATE} of median / value for latency)",
    )
    add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain every file; the exit code is the worst, in the order 2, 1, 3, 0."""
    try:
        _require_one_page(arguments)
        require_writable(arguments)
        policy, asked = policy_of(arguments.policy), _asked(arguments)
    except (InputError, OutputError) as error:
        return report_rejection(arguments.format, error)
    kind = Kind(arguments.kind) if arguments.kind else None
    results: list[Explanation | InputError] = []
    for file in arguments.files:
        try:
            with report_named(file, arguments.store) as at:
                results.append(at.with_address(explain_input(at.path, kind, policy, asked)))
        except InputError as error:
            results.append(error)
        except StoreError as error:
            return report_rejection(arguments.format, error)
    return _show(arguments, results)


def _asked(arguments: argparse.Namespace) -> ReadOptions:
    """Raises InputError."""
    asked = _declared(arguments)
    if arguments.floor is not None and not 0 < arguments.floor < 1e15:
        raise InputError("--floor", f"{arguments.floor} is not a possible result of a test")
    if arguments.ratio is not None and not 0 < arguments.ratio < 1:
        raise InputError("--ratio", f"{arguments.ratio} is not between 0 and 1")
    better = Better(arguments.better) if arguments.better else None
    if (better, arguments.floor, arguments.ratio) != (None, None, None) and arguments.kind not in (
        None,
        "matrix",
    ):
        raise InputError(
            "--better, --floor and --ratio",
            f"they apply to a matrix only, and {arguments.kind} is not a matrix",
        )
    return replace(asked, better=better, floor=arguments.floor, ratio=arguments.ratio)


def _declared(arguments: argparse.Namespace) -> ReadOptions:
    if arguments.instance_type is None:
        if arguments.nodes is not None:
            raise InputError("--nodes", "--nodes needs --instance-type. Give both.")
        return ReadOptions()
    nodes = 1 if arguments.nodes is None else arguments.nodes
    if not 1 <= nodes <= 100_000:
        raise InputError("--nodes", f"{nodes} is not between 1 and 100000")
    return ReadOptions(declared_of(arguments.instance_type, nodes))


def _show(arguments: argparse.Namespace, results: list[Explanation | InputError]) -> int:
    if len(results) == 1 and isinstance(results[0], InputError):
        return report_rejection(arguments.format, results[0])
    good = [result for result in results if isinstance(result, Explanation)]
    try:
        if len(results) == 1:
            _write_files(arguments, good[0])
    except OutputError as error:
        return report_rejection(arguments.format, error)
    if arguments.format == "json":
        rows = [_row(file, result) for file, result in zip(arguments.files, results, strict=True)]
        alone = isinstance(results[0], Explanation) and len(results) == 1
        write_stdout(json_text(_alone(results[0]) if alone else {"files": rows}))  # type: ignore[arg-type]
    else:
        write_stdout("\n".join(_page(result, arguments.format) for result in good))
    for result in results:
        if isinstance(result, InputError):
            write_stderr(f"prelaunch: {result}")
    for chosen in dict.fromkeys(result.policy for result in good if result.policy):
        write_stderr(f"policy: {chosen}")
    return worst_code(
        [exit_code(r.verdict) if isinstance(r, Explanation) else Exit.REJECTED for r in results]
    )


def _page(result: Explanation, form: str) -> str:
    if form == "junit":
        return text_of(result.report, _with_passes(result), result.name, form)
    if result.report is not None:
        return text_of(result.report, result.verdict, result.name, form, _context(result))
    if form == "markdown":
        from tasks.render.markdown import escape

        held = [f"Judged by the policy: {', '.join(result.held)}"] if result.held else []
        rest = [f"Not judged: {line}" for line in not_judged(result.left_out)]
        said = "\n".join(f"- {escape(line, 2000)}" for line in (f"Input: {result.title}", *held, *rest))
        return f"{text_of(None, result.verdict, result.name, form, _context(result))}\n{said}\n"
    return explanation_text(
        result.verdict,
        result.name,
        result.title,
        result.held,
        result.left_out,
        stdout_colour(),
        stdout_width(),
        [summary(one) for one in result.told],
    )


def _write_files(arguments: argparse.Namespace, result: Explanation) -> None:
    if arguments.junit is not None:
        write_file(arguments.junit, _page(result, "junit"))
    pages = argparse.Namespace(junit=None, summary=arguments.summary, html=arguments.html)
    write_files(pages, result.report, result.verdict, result.name, _context(result))


def _context(result: Explanation) -> VerdictContext | None:
    """The matrices and what the gate itself decided, for pages; None if there is neither."""
    from tasks.render.context import VerdictContext
    from tasks.render.views.suspects import of_told

    if not result.told and not result.own_decision:
        return None
    return VerdictContext(shown=of_told(result.told), own_decision=result.own_decision)


def _with_passes(result: Explanation) -> Verdict:
    """With a finding of level PASS for each part that holds, so that JUnit has a test case of it."""
    failed = {finding.check for finding in result.verdict.findings}
    checks = ((held.partition(" ")[0], held) for held in result.held)
    passed = tuple(
        Finding(Level.PASS, Cause.EVIDENCE, check, "input", held)
        for check, held in checks
        if check not in failed
    )
    return replace(result.verdict, findings=(*result.verdict.findings, *passed))


def _about(result: Explanation) -> dict[str, object]:
    return {
        "file": result.file,
        "kind": result.kind.value if result.kind else None,
        "title": result.title,
        "held": list(result.held),
        "not_judged": list(result.left_out),
        **({"decoded": [_decoded(one) for one in result.told]} if result.told else {}),
        **_own_decision(result),
    }


def _own_decision(result: Explanation) -> dict[str, object]:
    if result.kept is None:
        return {}
    return {"own_decision": own_decision_json(result.kept, result.verdict, result.own_decision)}


def _decoded(one: DecodedTable) -> dict[str, object]:
    """What the decoder said: suspects by likelihood, the noise that it fitted, what ought to be measured again."""
    matrix, found = one.table.matrix, one.decoded
    names = [part.name for part in matrix.parts]
    return {
        "matrix": one.table.name,
        "unit": matrix.unit,
        "better": matrix.better.value,
        "span": matrix.span.value,
        "answer": found.answer.value,
        "noise": vars(found.noise),
        "suspects": [
            {
                **{key: value for key, value in vars(suspect).items() if key not in ("cells", "runner_up")},
                "runner_up": None if suspect.runner_up is None else vars(suspect.runner_up),
            }
            for suspect in found.suspects
        ],
        "confirm": [{"source": names[a], "target": names[b]} for a, b in found.confirm],
    }


def _alone(result: Explanation) -> dict[str, object]:
    return {**verdict_json(result.verdict), **_about(result)}


def _row(file: str, result: Explanation | InputError) -> dict[str, object]:
    if isinstance(result, InputError):
        nothing: dict[str, object] = {
            "kind": None,
            "title": None,
            "held": [],
            "not_judged": [],
            "verdict": None,
        }
        said = rejection(result.file, result.path, result.message, result.nearest)
        return {"file": file, **nothing, **said}
    return {**_about(result), "verdict": verdict_json(result.verdict), "error": None}


def _require_one_page(arguments: argparse.Namespace) -> None:
    pages = (arguments.junit, arguments.summary, arguments.html)
    if len(arguments.files) > 1 and (arguments.format == "junit" or any(pages)):
        raise InputError(arguments.files[1], "a page shows one input. Explain the inputs one by one.")
