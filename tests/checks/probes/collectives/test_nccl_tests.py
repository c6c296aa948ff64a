"""The text of nccl-tests: every generation, every launcher's prefix, and every way of being less than whole."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from checks.probes.collectives import nccl_tests, nccl_tests_result
from checks.probes.collectives.nccl_tests_result import BufferPlacement, NcclTestsRun
from tests.corpus.nccl_cases import recorded, without


def only(said: str) -> NcclTestsRun:
    runs = nccl_tests.read(said)
    assert len(runs) == 1
    return runs[0]


def test_a_row_is_read_by_the_names_of_its_columns() -> None:
    """Bus bandwidth is not algorithm bandwidth, nor is that the time."""
    row = only(recorded("wrong_2.16.txt")).results[3]

    assert (67108864, "sum") == (row.size_bytes, row.redop)
    assert BufferPlacement(251.82, 440.68, 1048580.0) == row.out_of_place
    assert BufferPlacement(252.01, 441.02, 524288.0) == row.in_place


def test_a_rounding_error_is_no_wrong_element() -> None:
    """Before 2.13 the column holds the greatest error of a float; the footer alone judges."""
    run = only(recorded("all_reduce_2.11.txt"))

    assert run.results[0].out_of_place.wrong == 2e-7
    assert 0 == nccl_tests_result.wrong_elements(run)


@pytest.mark.parametrize(
    ("name", "unverified"), [("sendrecv_2.17", 0), ("alltoall_2.11", 0), ("unverified_2.16", 6)]
)
def test_nccl_tests_row_is_verified_by_its_out_of_place_half(name: str, unverified: int) -> None:
    """sendrecv_perf and alltoall_perf never compare in place and print N/A there; with -c 0 both halves have N/A."""
    run = only(recorded(f"{name}.txt"))

    assert (unverified,) == nccl_tests_result.metrics([run])["rows_unverified"]


def test_extra_columns_are_passed_over() -> None:
    """-I 1 adds the iterations' extremes to both halves (2.19.2)."""
    said = recorded("all_reduce_2.17.txt")
    names = re.sub(r"#wrong", "#wrong   i_min   i_max", said)
    rows = re.sub(r"( 0)(?=( +\d| *$))(?<=\d\.\d\d {6}0)", r"\1    12.1    14.9", names, flags=re.M)

    assert nccl_tests_result.metrics([only(said)]) == nccl_tests_result.metrics([only(rows)])


def test_lines_of_nccl_between_the_rows_are_no_rows() -> None:
    """NCCL_DEBUG=INFO writes where it likes."""
    line = "node-a:3442:3442 [0] NCCL INFO Launch mode Parallel\n"
    said = "".join(line + row for row in recorded("all_reduce_2.17.txt").splitlines(True))

    assert () == nccl_tests_result.faults(only(said))


def test_two_runs_in_one_file_are_two() -> None:
    """Each has its own header, rows and footer."""
    runs = nccl_tests.read(recorded("all_reduce_2.17.txt") + recorded("sendrecv_2.17.txt"))

    assert ["all_reduce_perf", "sendrecv_perf"] == [run.program for run in runs]
    assert [(), ()] == [nccl_tests_result.faults(run) for run in runs]


def test_the_same_run_of_every_rank_is_not_one_run() -> None:
    """A build without MPI prints a whole output once a rank: each is of one rank."""
    runs = nccl_tests.read(recorded("one_rank_2.16.txt") * 3)

    assert [1, 1, 1] == [nccl_tests_result.ranks_of(run) for run in runs]
    assert (None, None, None) == nccl_tests_result.metrics(runs)["busbw_in_place_gbps"]


def test_without_a_header_the_average_misses_a_row() -> None:
    """An excerpt is whole if its rows give the footer's average."""
    excerpt = without("nThread")(recorded("all_reduce_2.17.txt"))

    assert () == nccl_tests_result.faults(only(excerpt))
    one_less = only(without(r"^ +16777216 ")(excerpt))
    assert "the average of the rows" in "".join(nccl_tests_result.faults(one_less))


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_the_header_says_how_many_rows_there_are(removed: int) -> None:
    """Also where the rows that are left give the footer's average."""
    run = only(recorded("all_reduce_2.17.txt"))
    fewer = replace(run, results=run.results[: len(run.results) - removed])

    assert (removed,) == nccl_tests_result.metrics([fewer])["rows_missing"]
    assert removed == 0 or not nccl_tests_result.is_whole(fewer)


def test_without_a_list_the_bandwidths_tell_the_ranks() -> None:
    """all_reduce has the factor 2 (n - 1) / n, which is 1.75 for eight."""
    assert 8 == nccl_tests_result.ranks_of(only(without("Rank  ")(recorded("all_reduce_2.17.txt"))))


def test_ranks_that_the_bandwidths_contradict_are_a_fault() -> None:
    """Seven listed, and the numbers of eight."""
    said = without("Rank  7")(recorded("all_reduce_2.17.txt")).replace("nGpus 8", "nGpus 7")

    assert "the bus bandwidth is not that of 7 ranks" in nccl_tests_result.faults(only(said))


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "oops", ""])
def test_a_bandwidth_that_is_no_number_is_a_fault(value: str) -> None:
    """Nothing can be compared with it."""
    said = re.sub(r"(-1 +\S+ +)\S+", rf"\g<1>{value}", recorded("all_reduce_2.16.txt"), count=1)

    assert "a row cannot be read" in "; ".join(nccl_tests_result.faults(only(said)))


def test_a_step_in_bytes_adds() -> None:
    """-i instead of -f."""
    plan = nccl_tests_result.NcclTestsPlan(1024, 10240, 1024, False, 1, 8)

    assert 10 == plan.sizes()
    assert 1 == nccl_tests_result.NcclTestsPlan(8, 1 << 30, 1, True, 1, 8).sizes()
