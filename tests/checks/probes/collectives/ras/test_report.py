"""What an answer of RAS says. The answers are the stand-in's, in NVIDIA's documented format."""

from __future__ import annotations

import json

import pytest

from checks.probes.collectives.ras.report import RasReport, ReportError, read
from tests.fakes.nccl_ras import FakeJob, job_of


def report_of(job: FakeJob) -> RasReport:
    return read(job.as_json())


def test_a_communicator_that_is_not_initialised_is_not_judged() -> None:
    """NCCL issue 2346: its entry is empty."""
    job = job_of(8)
    job.uninitialised = True

    assert (2, 1) == ((found := report_of(job)).communicators, found.passing)


def test_a_rank_has_its_number_in_its_largest_communicator() -> None:
    job = job_of(8, (6, 7))
    job.ranks[7].unresponsive = True

    assert {"rank 7 on 10.0.0.1 (GPU 7)": False} == report_of(job).silent


def test_an_error_of_a_rank_is_named() -> None:
    job = job_of(8)
    job.ranks[2].error = 6

    assert {"rank 2 on 10.0.0.1 (GPU 2)": "remote process error"} == report_of(job).failed


@pytest.mark.parametrize("tenth", range(10))
def test_a_cut_answer_is_no_answer(tenth: int) -> None:
    job = job_of(8)
    job.step(3)
    job.ranks[5].unresponsive = True
    text = job.as_json()
    with pytest.raises(ReportError):
        read(text[: len(text) * tenth // 10])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("communicators_count", 2),
        ("communicators", None),
        ("nccl_version", 3),
        ("ras", None),
        ("communicators", [{}]),
    ],
)
def test_an_answer_of_another_form_is_refused(name: str, value: object) -> None:
    answer = json.loads(job_of(2).as_json())
    with pytest.raises(ReportError):
        read(json.dumps({**answer, name: value}))


@pytest.mark.parametrize("name", ["host", "pid", "nvml_dev", "status", "collective_counts", "rank"])
def test_a_rank_that_lacks_something_is_refused(name: str) -> None:
    value = json.loads(job_of(2).as_json())
    del value["communicators"][0]["ranks"][1][name]

    with pytest.raises(ReportError):
        read(json.dumps(value))


def test_the_numbers_of_ranks_have_to_fit() -> None:
    value = json.loads(job_of(4).as_json())
    del value["communicators"][0]["ranks"][1]

    with pytest.raises(ReportError, match="as many ranks"):
        read(json.dumps(value))
