"""What an answer of RAS says, in both forms. The answers are the stand-in's, in NVIDIA's documented formats."""

from __future__ import annotations

import json

import pytest

from checks.probes.collectives.ras import json_report, text_report
from checks.probes.collectives.ras.report import Place, RasReport, ReportError
from tests.fakes.nccl_ras import FakeJob, job_of

FORMS = {"json": (json_report.read, FakeJob.as_json), "text": (text_report.read, FakeJob.as_text)}
FORM = pytest.mark.parametrize("form", FORMS)


def read(form: str, job: FakeJob) -> RasReport:
    reader, writer = FORMS[form]
    return reader(writer(job))


@FORM
def test_a_busy_job_has_nothing_to_name(form: str) -> None:
    found = read(form, job_of(16))

    assert (16, 1, 0) == (found.ranks, found.communicators, found.passing)
    assert not found.silent + found.failed + found.lags


@FORM
def test_a_rank_that_is_behind_is_named_with_how_much(form: str) -> None:
    job = job_of(16)
    job.step(11, times=12)
    [lag] = read(form, job).lags

    assert (Place(11, "10.0.0.2", 7011, "3"), "AllReduce", 12, False) == (
        lag.place, lag.operation, lag.by, lag.ahead,
    )  # fmt: skip


@FORM
def test_the_one_that_is_ahead_of_all_is_named_and_not_the_others(form: str) -> None:
    """It has launched an operation that nobody else knows of."""
    job = job_of(8)
    job.step(*range(1, 8), operation="Broadcast")
    [lag] = read(form, job).lags

    assert (0, "Broadcast", 1, True) == (lag.place.rank, lag.operation, lag.by, lag.ahead)


@FORM
@pytest.mark.parametrize("dead", [False, True])
def test_a_silent_rank_is_named(form: str, dead: bool) -> None:
    job = job_of(8)
    job.ranks[3].unresponsive, job.ranks[3].dead = True, dead
    [silent] = read(form, job).silent

    assert ("rank 3 on 10.0.0.1 (GPU 3)", dead) == (silent.place.label, silent.dead)


def test_the_missing_comma_of_2_28_9_is_read() -> None:
    job = job_of(8)
    job.ranks[3].unresponsive = job.no_comma = True
    with pytest.raises(json.JSONDecodeError):
        json.loads(job.as_json())

    assert [3] == [one.place.rank for one in json_report.read(job.as_json()).silent]


def test_a_communicator_that_is_not_initialised_is_not_judged() -> None:
    """NCCL issue 2346: its entry is empty."""
    job = job_of(8)
    job.uninitialised = True

    assert (2, 1) == ((found := json_report.read(job.as_json())).communicators, found.passing)


@pytest.mark.parametrize("state", ["starting", "ending", "left"])
def test_a_communicator_that_is_made_or_taken_down_is_not_judged(state: str) -> None:
    job = job_of(8)
    job.step(2, 3)
    job.ranks[4].unresponsive = True
    setattr(job.ranks[5], state, True)
    found = json_report.read(job.as_json())

    assert (1, (), ()) == (found.passing, found.lags, found.silent)


def test_a_rank_has_its_number_in_its_largest_communicator() -> None:
    job = job_of(8, (6, 7))
    job.ranks[7].unresponsive = True

    assert [7] == [one.place.rank for one in json_report.read(job.as_json()).silent]


def test_an_error_of_a_rank_is_named() -> None:
    job = job_of(8)
    job.ranks[2].error = 6
    [failed] = json_report.read(job.as_json()).failed

    assert ("rank 2 on 10.0.0.1 (GPU 2)", "remote process error") == (failed.place.label, failed.error)


@pytest.mark.parametrize("tenth", range(10))
@FORM
def test_a_cut_answer_is_no_answer(form: str, tenth: int) -> None:
    reader, writer = FORMS[form]
    job = job_of(8)
    job.step(3)
    job.ranks[5].unresponsive = True
    text = writer(job)
    kept = text[: len(text) * tenth // 10]
    if form == "text" and "Warnings\n=" in kept and kept.endswith("\n"):
        pytest.skip(
            "a text that ends with a whole line of its last part looks complete; it never passes (test_explain)"
        )

    with pytest.raises(ReportError):
        reader(kept)


@pytest.mark.parametrize(
    "change",
    [
        {"communicators_count": 2},
        {"communicators": None},
        {"nccl_version": 3},
        {"ras": None},
        {"communicators": [{}]},
    ],
)
def test_an_answer_of_another_form_is_refused(change: dict[str, object]) -> None:
    value = json.loads(job_of(2).as_json())

    with pytest.raises(ReportError):
        json_report.read(json.dumps({**value, **change}))


@pytest.mark.parametrize("name", ["host", "pid", "nvml_dev", "status", "collective_counts", "rank"])
def test_a_rank_that_lacks_something_is_refused(name: str) -> None:
    value = json.loads(job_of(2).as_json())
    del value["communicators"][0]["ranks"][1][name]

    with pytest.raises(ReportError):
        json_report.read(json.dumps(value))


def test_the_numbers_of_ranks_have_to_fit() -> None:
    value = json.loads(job_of(4).as_json())
    del value["communicators"][0]["ranks"][1]

    with pytest.raises(ReportError, match="as many ranks"):
        json_report.read(json.dumps(value))


def test_an_unknown_line_is_not_passed_over() -> None:
    text = job_of(4).as_text().replace("Warnings\n", "#0-0 (a1) MISMATCH\n  Rank 3 has gone home\nWarnings\n")

    with pytest.raises(ReportError, match="gone home"):
        text_report.read(text)


# NVIDIA's user guide shows these for NCCL 2.24 and 2.25, which count all collectives together and name a missing rank by its number.
OLD = """NCCL version 2.25.1 compiled with CUDA 12.8
Communicators... (2.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE,MISMATCH

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different collective operation counts
  29 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 2 -- GPU 2 (NVML 6) managed by process 483074 on node 172.16.64.210

"""


def test_the_text_of_old_versions_is_read() -> None:
    found = text_report.read(OLD)

    assert ["rank 21 on 172.16.64.213 (GPU 5)"] == [one.place.label for one in found.silent]
    assert [(0, "0", 1), (2, "6", 1)] == [(lag.place.rank, lag.place.gpu, lag.by) for lag in found.lags]


def test_ranks_that_ras_does_not_name_are_counted() -> None:
    """Two of four are no outliers for RAS."""
    job = job_of(4)
    job.step(0, 1)
    found = text_report.read(job.as_text())

    assert not found.lags
    assert ["2 ranks of communicator 00000000000000a1 are behind by 1 all-reduce"] == [*found.unnamed]
