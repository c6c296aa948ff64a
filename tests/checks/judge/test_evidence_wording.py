"""What is missing is said of the subject that lacks it, at the level that it deserves, with what to do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from checks.model import Cause, ErrorKind, Level, Observation, Outcome, Skip
from tests.sample_reports import SIZES, findings_of, healthy, verdict_of, with_metric, with_row

WHO, CHECK = "node-0/rank-0", "collective.all_reduce"


def test_an_empty_list_is_named_on_its_own_subject() -> None:
    """The other ranks measured."""
    report = with_metric(healthy(), CHECK, WHO, "busbw_gbps", ())
    found = [f for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.check == CHECK]

    assert "not measured: busbw_gbps is an empty list" in [f.message for f in found]
    assert {WHO} == {f.subject for f in found}


def test_a_value_that_no_rule_reads_may_be_missing_with_a_warning() -> None:
    """It changes no decision, and is not passed over."""
    report = with_metric(healthy(), CHECK, WHO, "sizes_bytes", (None, *SIZES[1:]))
    levels = {f.level for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.check == CHECK}

    assert {Level.WARN} == levels


def test_a_missing_tool_is_to_be_installed() -> None:
    """The remedy is that of the reason."""

    def skipped(row: Observation) -> Observation:
        return replace(row, outcome=Outcome.SKIPPED, metrics={}, skip=Skip.TOOL_MISSING, reason="no tool")

    verdict = verdict_of(with_row(healthy(), CHECK, WHO, skipped))
    (found,) = (f for f in findings_of(verdict, Cause.EVIDENCE) if (f.check, f.subject) == (CHECK, WHO))

    assert found.remedy.startswith("Install the tool") and "no tool" in found.message


def _lost(kind: ErrorKind, reason: str, row: Observation) -> Observation:
    return replace(row, outcome=Outcome.ERRORED, metrics={}, reason=reason, error_kind=kind)


def test_a_limit_of_the_gate_file_comes_first_with_what_to_raise_and_what_follows_last() -> None:
    """Also where what follows belongs to a check that stands before it in the plan."""
    report = healthy()
    ranks = [row.subject for row in report.observations if row.check == CHECK]
    for rank in ranks:
        for check, kind, reason in (
            ("compute.gemm", ErrorKind.NOT_RUN, f"not run: the check {CHECK} did not return"),
            (CHECK, ErrorKind.LIMIT_PASSED, "its time limit of 1 s ([checks] timeouts_s) passed"),
        ):
            report = with_row(report, check, rank, partial(_lost, kind, reason))
    found = [f for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.level is Level.FAIL]

    assert [CHECK] * len(ranks) + ["compute.gemm"] * len(ranks) == [f.check for f in found]
    assert found[0].remedy.startswith(f'Raise "{CHECK}" in [checks] timeouts_s of the gate file')
    assert found[-1].remedy.startswith("The reason names what failed before it")


@pytest.mark.parametrize("kind", [ErrorKind.LIMIT_PASSED, ErrorKind.DEADLINE])
def test_a_rank_that_a_limit_of_the_gate_file_ended_first_is_no_suspect(kind: ErrorKind) -> None:
    """The others lost it because of the limit, which all of them have. With the check's usual deadline it was busy for too long."""
    report = healthy()
    first, *others = [row.subject for row in report.observations if row.check == CHECK]
    report = with_row(report, CHECK, first, partial(_lost, kind, "late"))
    closed = "the check raised RuntimeError: Connection closed by peer"
    for rank in others:
        report = with_row(report, CHECK, rank, partial(_lost, ErrorKind.RAISED, closed))
    found = [f.message for f in findings_of(verdict_of(report), Cause.EVIDENCE) if f.level is Level.FAIL]

    assert any("was still busy" in message for message in found) is (kind is ErrorKind.DEADLINE)
    assert found[0].startswith("not measured: late") is (kind is ErrorKind.LIMIT_PASSED)
