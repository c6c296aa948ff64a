"""nodes.node_N.dcgm: the tables of `dcgmi diag -r 1` and `-r 3`, which are read again. Pure.

The tool's own words (`success`, `parsed_output`) are no evidence of health. If they are worse than the table, the result is CANNOT
TELL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from checks.model import Value
from checks.probes.dcgm import diag, diag_text
from checks.probes.dcgm.diagnosis import Diagnosis, DiagnosisError, Meaning, Status
from checks.probes.dcgm.error_table import dcgm_facts
from checks.seed_report.node import DeclaredCluster, Extracted, NodeTable, Readings, Unread, bounded
from checks.seed_report.shape import Diagnostic, table, taken

LEVELS: Mapping[str, tuple[str, int]] = {"dcgm.basic": ("basic", 1), "dcgm.extended": ("extended", 3)}
METRICS = (
    "gpus",
    "gpus_missing",
    "tests_missing",
    "not_passed",
    "doubts",
    *(meaning.value for meaning in Meaning),
)
CHECKS: Mapping[str, tuple[str, ...]] = dict.fromkeys(LEVELS, METRICS)
ENDED = "Successfully ran diagnostic"


def read(node: NodeTable, asked: DeclaredCluster) -> Readings:
    """Both levels, each by itself."""
    path = f"nodes.{node.name}.dcgm"
    section = table(node.section("dcgm"), path)
    node.unknown.extend(
        (f"{path}.{key}", item)
        for key, item in section.items()
        if key not in ("dcgm_available", "diagnostics")
    )
    runs = table(section.get("diagnostics"), f"{path}.diagnostics")
    known = {*(key for key, _ in LEVELS.values()), "no_gpu", "delegated"}
    node.unknown.extend((f"{path}.diagnostics.{key}", run) for key, run in runs.items() if key not in known)
    return {
        check: _run(runs.get(key), f"{path}.diagnostics.{key}", level, node, asked)
        for check, (key, level) in LEVELS.items()
    }


def _run(value: object, path: str, level: int, node: NodeTable, asked: DeclaredCluster) -> Extracted | Unread:
    if value is None:
        return Unread(f"{path} is missing: dcgmi did not run, or is not installed")
    try:
        run = taken(Diagnostic, value, path, node.unknown)
        text = _text(run)
        diagnosis = _parsed(text)
    except (ValueError, DiagnosisError, Unread) as error:
        return Unread(str(error), getattr(error, "evidence", ""))
    metrics: dict[str, Value] = {
        **diag.metrics_of(diagnosis, level, diagnosis.gpus, asked.declared.gpus_per_node),
        "doubts": "; ".join(_doubts(run, level, diagnosis)),
    }
    return Extracted(metrics, f"{_quoted(text, diagnosis)}\n{diag.account(diagnosis)}".strip())


def _text(run: Diagnostic) -> str:
    """The output of dcgmi. Raises Unread."""
    if run.skipped:
        raise Unread(f"it was skipped: {run.message or 'no reason given'}")
    if run.raw_output is None or not run.raw_output.strip():
        raise Unread("raw_output is missing, so it is unknown what dcgmi printed")
    ran = ENDED in run.raw_output or ENDED in (run.stdout or "")
    if run.stdout is not None and ran and run.stdout != run.raw_output:
        raise Unread("raw_output and stdout differ: neither can be trusted", run.stdout)
    return bounded(run.raw_output)


@lru_cache(maxsize=512)
def _parsed(text: str) -> Diagnosis:
    """The diagnosis of the table. Nodes without faults all print the same table, so it is read once."""
    return diag_text.parse(text)


def _doubts(run: Diagnostic, level: int, diagnosis: Diagnosis) -> Iterator[str]:
    """Reasons for which the table may not be complete."""
    if diagnosis.broken:
        yield diagnosis.broken
    if any(result.status in (Status.FAIL, Status.WARN) or result.problems for result in diagnosis.results):
        return
    if run.exit_code_zero is None and level > 1:  # for level 1 `success` has the same information
        yield "dcgmi's exit code is missing"
    if run.exit_code_zero is False:
        yield "dcgmi's exit code was not 0, but no test in its table failed"
    if not run.success:
        yield "the report says that it failed, but no test in its table did"
    if run.parsed_output is not None and _fails(
        (run.parsed_output.overall_status, run.parsed_output.test_results)
    ):
        yield "the report reads its table as Fail, but no test in the table failed"


def _fails(word: object) -> bool:
    """Whether a word of the tool's own result, at any depth, begins with "fail"."""
    if isinstance(word, Mapping):
        return any(map(_fails, word.values()))
    if isinstance(word, (list, tuple)):
        return any(map(_fails, word))
    return isinstance(word, str) and word.strip().casefold().startswith("fail")


def _quoted(text: str, diagnosis: Diagnosis) -> str:
    """The lines of the table that did not pass, each with its number, without optional tests."""
    lines, optional = text.splitlines(), dcgm_facts().optional
    odd = (r for r in diagnosis.results if r.status is not Status.PASS and r.test not in optional)
    numbers = sorted({result.line for result in odd if result.line})
    return "\n".join(f"{number}: {lines[number - 1].strip()}" for number in numbers)
