"""A verdict's numbers as rows of plain values, for tables such as Prefect's: findings, bandwidths, pairs (pure).

The worst row comes first, because such tables do not sort; no key is ever absent.
"""

from __future__ import annotations

from checks.model import ANSWER_WORDS, CLUSTER, Answer, Finding, Level, Report, Verdict
from tasks.render.context import VerdictContext
from tasks.render.findings import Group, gathered, remedy_of
from tasks.render.headline import coverage_text, explanation
from tasks.render.views.bandwidth import Row, bandwidth_rows, sweeps
from tasks.render.views.heatmap import Matrix
from tasks.render.views.nodes import finding_state
from tasks.render.views.pairs import pair_matrix
from tasks.render.views.suspects import is_quiet, matrix_rows, suspect_rows
from tasks.text.inert import one_line

Table = list[dict[str, object]]
NO_FINDING = "nothing: every planned check was observed on every subject and is within the policy"


def finding_rows(verdict: Verdict) -> Table:
    """One row per group of findings; one that says so where there is none, so that no older table looks like the newest.

    Evidence that is missing is no PASS, even where no finding says what is missing.
    """
    groups = sorted(gathered(verdict.findings), key=lambda item: -_rank(item))
    clean = all(item.level is Level.PASS for item in groups)
    if clean and verdict.answer is not Answer.GO:
        return [
            _row(
                ANSWER_WORDS[Answer.CANNOT_TELL],
                "",
                CLUSTER,
                "",
                explanation(verdict),
                coverage_text(verdict.coverage),
            )
        ]
    whole = [_row("PASS", "", CLUSTER, "", NO_FINDING, coverage_text(verdict.coverage))] if clean else []
    return whole + [
        _row(item.word, item.cause.value, item.names, item.where, item.message, remedy_of(item, verdict))
        for item in groups
    ]


def bandwidth_table(report: Report | None, context: VerdictContext) -> Table:
    """One row per collective and size, each collective's largest size first; empty where none was measured."""
    if report is None:
        return []
    rows = bandwidth_rows(sweeps(report), context.expected)
    return [_bandwidth(row) for row in sorted(rows, key=lambda row: (row.check, -row.sample.size_bytes))]


def pair_rows(report: Report | None, verdict: Verdict) -> Table:
    """One row per direction between two hosts, slowest first, those without a measurement before them; empty without any."""
    matrix = None if report is None else pair_matrix(report, verdict)
    if matrix is None:
        return []
    pairs = [(a, b) for a in matrix.names for b in matrix.names if a != b]
    pairs.sort(key=lambda pair: (not _is_bad(matrix, *pair), _speed(matrix, *pair), pair))
    return [_pair(matrix, a, b) for a, b in pairs]


def suspect_table(context: VerdictContext) -> Table:
    """One row per suspect, the likeliest first; of a matrix that names nobody one that says so, and one for all if none names a part.
    Empty without a matrix.
    """
    rows: Table = [
        {
            "suspect": f"{s.kind} {s.subject}",
            "probability": s.probability,
            "bad tests": s.bad,
            "of the usual": s.of_usual,
            "way": s.way,
            "matrix": s.matrix,
            "next likeliest": s.next_likeliest,
        }
        for s in suspect_rows(context.shown)
    ]
    named, matrices = {row["matrix"] for row in rows}, matrix_rows(context.shown)
    if len(matrices) > 1 and is_quiet(context.shown):
        return [_nobody(matrices[0].answer, "", f"each of {len(matrices)}")]
    return rows + [
        _nobody(m.answer, m.bad, f"{m.check}, {m.matrix}") for m in matrices if m.matrix not in named
    ]


def _nobody(answer: str, bad: str, matrix: str) -> dict[str, object]:
    return {
        "suspect": answer,
        "probability": "",
        "bad tests": bad,
        "of the usual": "",
        "way": "",
        "matrix": matrix,
        "next likeliest": "",
    }


def _rank(item: Group) -> int:
    return finding_state(Finding(item.level, item.cause, item.check, "", item.message))


def _row(level: str, cause: str, where: str, check: str, message: str, remedy: str) -> dict[str, object]:
    return {
        "level": level,
        "where": one_line(where, 400),
        "message": one_line(message, 600),
        "remedy": one_line(remedy, 600),
        "check": one_line(check, 200),
        "cause": cause,
    }


def _bandwidth(row: Row) -> dict[str, object]:
    s, share = row.sample, row.of_expected
    return {
        "check": one_line(row.check, 120),
        "size": s.size,
        "slowest rank, GB/s": _figure(s.least),
        "median, GB/s": _figure(s.middle),
        "fastest, GB/s": _figure(s.most),
        "ranks": s.ranks,
        "expected, GB/s": "not known" if row.expected is None else _figure(row.expected.value),
        "slowest of expected": "" if share is None else f"{share:.2f}",
    }


def _pair(matrix: Matrix, a: str, b: str) -> dict[str, object]:
    value = matrix.values.get((a, b))
    return {
        "from": one_line(a, 120),
        "to": one_line(b, 120),
        "GB/s": "not measured" if value is None else _figure(value),
        "named by a finding": "yes" if _is_bad(matrix, a, b) else "",
    }


def _is_bad(matrix: Matrix, a: str, b: str) -> bool:
    return (a, b) in matrix.bad or a in matrix.condemned or b in matrix.condemned


def _speed(matrix: Matrix, a: str, b: str) -> float:
    value = matrix.values.get((a, b))
    return -1.0 if value is None else value


def _figure(value: float) -> str:
    return f"{value:.4g}"
