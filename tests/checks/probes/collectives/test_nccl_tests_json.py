"""The JSON of nccl-tests -J: what is missing is missed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checks.probes.collectives import nccl_tests_json, nccl_tests_result
from tests.corpus.nccl_cases import recorded


def value() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(recorded("written.json"))
    return made


def test_a_whole_file_is_read() -> None:
    """It tells what the text does."""
    run = nccl_tests_json.read(recorded("written.json"))

    assert ("all_reduce_perf", 8, 6) == (run.program, nccl_tests_result.ranks_of(run), len(run.rows))
    assert () == nccl_tests_result.faults(run)


def test_okay_is_a_text() -> None:
    """ "false" is true for whoever asks Python."""
    run = nccl_tests_json.read(recorded("written_wrong.json"))

    assert run.footer is not None and not run.footer.passed
    assert 8192 == nccl_tests_result.wrong_elements(run)


def test_results_that_were_not_compared_are_null() -> None:
    """They are not 0."""
    made = value()
    made["results"][2]["in_place"]["nwrong"] = None

    assert (1,) == nccl_tests_result.metrics([nccl_tests_json.read(json.dumps(made))])["rows_unverified"]


@pytest.mark.parametrize(
    "key", ["results", "config", "out_of_bounds", "average_bus_bandwidth", "errors", "end_time", "args"]
)
def test_a_file_without_a_part_is_none(key: str) -> None:
    """Nothing is assumed."""
    made = value()
    del made[key]

    with pytest.raises(nccl_tests_json.IncompleteFile, match=key):
        nccl_tests_json.read(json.dumps(made))


@pytest.mark.parametrize("wrong", ["nan", None, True, -1, [1]])
def test_a_bandwidth_that_is_no_number_is_refused(wrong: object) -> None:
    """The writer writes "nan" as a text."""
    made = value()
    made["results"][0]["out_of_place"]["bus_bw"] = wrong

    with pytest.raises(nccl_tests_json.IncompleteFile):
        nccl_tests_json.read(json.dumps(made))


def test_another_schema_is_refused() -> None:
    """What its fields mean is not known."""
    with pytest.raises(nccl_tests_json.IncompleteFile, match="schema version is not 3"):
        nccl_tests_json.read(json.dumps({**value(), "version": 4}))


def test_a_file_that_is_cut_is_recognised_and_refused() -> None:
    """It ends in the middle of its rows."""
    cut = recorded("written.json")[:4000]

    assert nccl_tests_json.recognised(cut)
    with pytest.raises(nccl_tests_json.IncompleteFile, match="truncated or garbled"):
        nccl_tests_json.read(cut)


def test_errors_that_it_lists_are_faults() -> None:
    """Whatever its footer says."""
    assert any(
        "errors: " in fault
        for fault in nccl_tests_result.faults(nccl_tests_json.read(json.dumps({**value(), "errors": ["x"]})))
    )
