"""What version 0.1.0 wrote in a sentence is read as the field that stands for it today."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from checks.documents.compatibility import (
    error_kind,
    finding_kind,
    pair_outcome,
    was_refused,
    with_error_kind,
    with_finding_kinds,
)
from checks.documents.report import dump, dump_plain, load
from checks.model import ErrorKind, FindingKind, Observation, Outcome, Report, Verdict
from checks.model_details import PairOutcome
from checks.value_types import DecodeError
from tests.checks.baselines import STEADY, gemm, judged
from tests.checks.judge.baseline.test_compare import EXPECTING
from tests.checks.judge.culprits.test_silent_ranks import DEADLINE, REDUCE, broken
from tests.sample_reports import healthy, verdict_of


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("no baseline: gflops is held to nothing: nothing is known of float32 products", FindingKind.NO_BASELINE),
        (
            "no baseline: busbw_gbps is held to nothing: all_reduce was measured with no message of 128 MiB or more",
            FindingKind.ONLY_SMALL_MESSAGES,
        ),
        (
            "not measured, because driver 550.163.01 is too old: gpu.recovery_action recovery_action (needs driver 565 "
            "or newer)",
            FindingKind.DRIVER_TOO_OLD,
        ),
        ("not measured: its deadline of 8 s passed", FindingKind.NOT_MEASURED),
        ("not measured, and the baseline has a band for it: gflops", None),
        ("wrong_elements is 12, above 1.5", None),
    ],
)  # fmt: skip
def test_a_message_of_0_1_0_tells_the_kind(message: str, kind: FindingKind | None) -> None:
    """As 0.1.0 told it."""
    assert kind == finding_kind(message)


def written(verdict: Verdict) -> dict[str, object]:
    """The verdict's table, as it lies on disk."""
    table = json.loads(dump_plain(verdict))
    assert isinstance(table, dict)
    return table


def test_a_verdict_of_0_1_0_gets_the_kinds_that_it_lacks() -> None:
    """All of them, and nothing else is changed."""
    today = written(judged(gemm(STEADY), None, EXPECTING))
    old = json.loads(json.dumps(today))
    for finding in old["findings"]:
        del finding["kind"]

    assert today["findings"] and today == with_finding_kinds(old)


@pytest.mark.parametrize(
    ("message", "unmeasured"),
    [
        ("not measured: dram is missing", {"value": "dram", "reason": "is missing"}),
        (
            "not measured: sram has elements without a value",
            {"value": "sram", "reason": "has elements without a value"},
        ),
        (
            "not measured: GPU 1: dram is None, which is bad",
            {"value": "GPU 1: dram", "reason": "is None, which is bad"},
        ),
        ("not measured: its deadline of 8 s passed", {"value": "", "reason": "its deadline of 8 s passed"}),
    ],
)
def test_a_verdict_of_0_1_0_gets_what_was_not_measured(message: str, unmeasured: dict[str, str]) -> None:
    """The value and the reason, which 0.1.0 wrote into the sentence only."""
    old = {"cause": "EVIDENCE", "message": message}
    read = {**old, "kind": "not_measured", "unmeasured": unmeasured}

    assert {"findings": [read]} == with_finding_kinds({"findings": [old]})
    assert {"findings": [read]} == with_finding_kinds({"findings": [read]})


def test_a_kind_that_is_there_is_not_looked_for_in_the_message() -> None:
    """Today's messages decide nothing, whatever they begin with."""
    today = written(judged(gemm(STEADY), None, EXPECTING))
    changed = {**today, "findings": [{**f, "kind": None} for f in today["findings"]]}  # type: ignore[attr-defined]

    assert changed == with_finding_kinds(changed)
    assert {"findings": "none"} == with_finding_kinds({"findings": "none"})


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("it raised OutOfMemoryError: CUDA out of memory", ErrorKind.RAISED),
        ("its deadline of 8 s passed", ErrorKind.DEADLINE),
        ("not run: the process group was lost in collective.all_reduce", ErrorKind.NOT_RUN),
        ("not reached: the rank checks never began", ErrorKind.NOT_REACHED),
        ("given up at the deadline of 60 s: it was still running", ErrorKind.OTHER),
        ("", ErrorKind.OTHER),
    ],
)
def test_a_reason_of_0_1_0_tells_how_the_check_ended(reason: str, kind: ErrorKind) -> None:
    """Of rows that are ERRORED, and lack the field."""
    row = Observation("a.check", "node-0", Outcome.ERRORED, 1.0, reason=reason)

    assert kind is error_kind(reason) is with_error_kind(row).error_kind
    assert with_error_kind(replace(row, error_kind=ErrorKind.OTHER)).error_kind is ErrorKind.OTHER
    assert with_error_kind(replace(row, outcome=Outcome.SKIPPED)).error_kind is None


def old(report: Report) -> bytes:
    """The report as 0.1.0 wrote it."""
    table = json.loads(dump(report))
    for columns in table["checks"].values():
        del columns["error_kinds"]
    return json.dumps(table).encode()


@pytest.mark.parametrize(
    "report",
    [healthy(2, 2), broken(healthy(2, 8), REDUCE, {13}), broken(healthy(2, 4), REDUCE, {1}, DEADLINE)],
)
def test_a_report_of_0_1_0_has_the_same_verdict(report: Report) -> None:
    """Every row gets its kind back, so that the two are one report."""
    today, read = load(dump(report)), load(old(report))

    assert today == read
    assert verdict_of(today) == verdict_of(read)


def test_columns_of_kinds_that_are_too_short_are_no_report() -> None:
    """As for any other column."""
    table = json.loads(dump(broken(healthy(2, 8), REDUCE, {13})))
    table["checks"][REDUCE]["error_kinds"].pop()

    with pytest.raises(DecodeError, match="differ in length"):
        load(json.dumps(table).encode())


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        ("ok", PairOutcome.OK),
        ("not run: the check's time was over", PairOutcome.NOT_RUN),
        ("not run: rank 3 had given up waiting", PairOutcome.NOT_RUN),
        ("not tried: it gave no answer to ranks 1 and 2", PairOutcome.NOT_RUN),
        ("not run: rank 3 had left the tournament", PairOutcome.PEER_LEFT),
        ("no answer within 2 s in the greeting", PairOutcome.NO_ANSWER),
        ("no answer before rank 3 had given up waiting", PairOutcome.NO_ANSWER),
        ("connection closed", PairOutcome.CLOSED),
        ("not ended within 6 s: it came to the round trips", PairOutcome.FAILED),
        ("3 wrong elements", PairOutcome.FAILED),
    ],
)
def test_a_failure_of_0_1_0_tells_how_the_test_ended(failure: str, outcome: PairOutcome) -> None:
    """The words of checks/tournament in that version."""
    assert outcome is pair_outcome(failure)


def test_a_failure_of_0_1_0_tells_whether_the_peer_refused() -> None:
    """In the words of the operating system."""
    assert was_refused("[Errno 111] Connection refused")
    assert not was_refused("timed out")
