"""Reports on disk: what is written is what is read, and anything else is refused in words."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.documents.report import REPEATED, clip, dump, load
from checks.model import EVIDENCE_BYTES, KernelLog, Observation, Report, Value
from checks.value_types import DecodeError
from tests.sample_reports import healthy, with_metric, with_row, wrong_sums

WHOLE = dump(wrong_sums(healthy(3, 2)))
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
GEMM = ("checks", "compute.gemm")
VALUES = st.one_of(
    st.booleans(),
    NUMBERS,
    st.text(max_size=20),
    st.lists(NUMBERS | st.none(), min_size=1, max_size=5).map(tuple),
    st.lists(st.text(max_size=10), min_size=1, max_size=5).map(tuple),
)


def _sorted(report: Report) -> list[Observation]:
    return sorted(report.observations, key=lambda row: (row.check, row.subject))


def _set(value: object, *path: str | int) -> bytes:
    document = json.loads(WHOLE)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(document).encode()


@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, max_size=4), st.text(max_size=40))
def test_report_survives_dump_and_load(metrics: dict[str, bool | int | float | str], evidence: str) -> None:
    """Any value that a metric may have, any text in the evidence; the bytes are canonical."""
    place = ("compute.gemm", "node-0/rank-0")
    report = with_row(healthy(), *place, lambda row: replace(row, metrics=metrics, evidence=evidence))
    read = load(dump(report))

    assert _sorted(report) == _sorted(read)
    assert replace(report, observations=()) == replace(read, observations=())
    assert dump(report) == dump(read)


def test_whole_numbers_stay_whole_in_arrays() -> None:
    """A size of 1024 bytes is not 1024.0: the digest of what was read is that of what was written."""
    report = with_metric(healthy(), "compute.gemm", "node-0/rank-0", "sizes", (1024, 2.5, None, -1))
    row = next(r for r in load(dump(report)).observations if "sizes" in r.metrics)

    assert repr((1024, 2.5, None, -1)) == repr(row.metrics["sizes"])


@pytest.mark.parametrize("tenth", range(10))
def test_a_truncated_report_is_refused(tenth: int) -> None:
    """Wherever it ends."""
    with pytest.raises(DecodeError):
        load(WHOLE[: len(WHOLE) * tenth // 10])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="no version"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b"\xef\xbb\xbf" + WHOLE, id="byte order mark"),
        pytest.param(WHOLE + WHOLE, id="two documents"),
        pytest.param(b"[" * 200_000, id="deep and open"),
        pytest.param(WHOLE.replace(b'"attempt":', b'"attempt":"x","attempt":', 1), id="duplicate key"),
        pytest.param(WHOLE.replace(b"0.25", b"NaN", 1), id="NaN"),
        pytest.param(WHOLE.replace(b"0.25", b"1e999", 1), id="infinite"),
        pytest.param(WHOLE.replace(b"0.25", b"9" * 5000, 1), id="more digits than Python reads"),
        pytest.param(_set(2, "schema_version"), id="a later version"),
        pytest.param(_set(1, "extra"), id="unknown key"),
        pytest.param(_set(10**6, "declared", "nodes"), id="a million nodes"),
        pytest.param(_set("<img src=x>", "nodes", 0, "name"), id="markup in a name"),
        pytest.param(_set(["cluster"], *GEMM, "subjects"), id="ragged columns"),
        pytest.param(_set(-1, *GEMM, "seconds", 0), id="negative time"),
        pytest.param(_set("OK", *GEMM, "outcomes", 0), id="unknown outcome"),
        pytest.param(_set(10**400, *GEMM, "metrics", "gflops", 0), id="a number past every range"),
        pytest.param(_set({"a": 1}, *GEMM, "metrics", "gflops", 0), id="a table as a metric"),
        pytest.param(_set([True], *GEMM, "metrics", "gflops", 0), id="truth in a list of numbers"),
        pytest.param(_set(["a", None], *GEMM, "metrics", "gflops", 0), id="a hole in a list of words"),
    ],
)
def test_report_loader_rejects_other_data_briefly_and_quickly(data: bytes) -> None:
    """As a DecodeError, at once; not as a crash, and without repeating all of it."""
    begun = time.process_time()
    with pytest.raises(DecodeError) as caught:
        load(data)

    assert len(str(caught.value)) < 1000
    assert time.process_time() - begun < 10


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_flipped_byte_is_refused_or_read(at: int, byte: int) -> None:
    """Never anything but a report or a DecodeError."""
    try:
        load(WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])
    except DecodeError as error:
        assert str(error)


@given(st.text(max_size=3000), st.integers(0, 3))
def test_evidence_is_cut_to_its_limit_and_flagged(text: str, times: int) -> None:
    """Start and end stay; what fits is left alone."""
    text *= times
    cut, truncated = clip(text)

    assert len(cut.encode()) <= EVIDENCE_BYTES
    assert truncated or cut == text.encode("utf-8", "replace").decode()


def test_a_report_that_does_not_say_it_says_that_the_kernel_log_is_readable() -> None:
    """A missing log refuses there."""
    document = json.loads(WHOLE)
    del document["declared"]["kernel_log"]

    assert load(json.dumps(document).encode()).declared.kernel_log is KernelLog.READABLE


def _fleet(values: list[Value], count: int = REPEATED) -> Report:
    """One check of so many nodes that only differ in this metric, whose values repeat."""
    row = replace(healthy(1, 1).observations[0], check="a.check", reason="")
    rows = [
        replace(row, subject=f"node-{index:04}", metrics={"metric": values[index % len(values)]})
        for index in range(count)
    ]
    return replace(healthy(1, 1), observations=tuple(rows))


@pytest.mark.parametrize(
    ("values", "short"),
    [
        ([0.02], True),
        (["text"], True),
        ([(1.5, None, -2)], True),
        ([("a", "b")], True),
        ([True, 1], False),
        ([1, 1.0], False),
        ([0.0, -0.0], False),
        ([(1,), (1.0,)], False),
        ([(1, 2), (2, 1)], False),
        ([1, 2], False),
    ],
)
def test_a_value_that_all_subjects_share_is_written_once(values: list[Value], short: bool) -> None:
    """Equal is not enough: what is read has the types that were written."""
    report = _fleet(values)
    data = dump(report)
    read = load(data)
    column = json.loads(data)["checks"]["a.check"]["metrics"]["metric"]

    assert isinstance(column, dict if short else list)
    assert repr([*read.observations]) == repr([*report.observations])
    assert dump(read) == data


def test_a_column_of_few_subjects_is_written_out() -> None:
    """A person reads those."""
    column = json.loads(dump(_fleet([0.02], REPEATED - 1)))["checks"]["a.check"]["metrics"]["metric"]

    assert column == [0.02] * (REPEATED - 1)


@pytest.mark.parametrize(("metrics", "value"), [(1, [0] * 20_000), (20_000, 0)])
def test_a_short_file_is_no_report_that_fills_the_memory(metrics: int, value: Value) -> None:
    """It repeats more values than a file of the greatest size could list."""
    document = json.loads(dump(_fleet([0])))
    check = document["checks"]["a.check"]
    check["subjects"] = [f"n{index}" for index in range(20_000)]
    check["metrics"] = {f"m{index}": {"all": value} for index in range(metrics)}

    with pytest.raises(DecodeError, match=r"repeats 400,[0-9,]* values"):
        load(json.dumps(document).encode())


def test_an_observation_that_is_there_twice_stays_twice() -> None:
    """The subjects are never written once, also where all are one."""
    rows = [replace(row, subject="node-0") for row in _fleet([1]).observations]

    assert [
        row.subject for row in load(dump(replace(healthy(1, 1), observations=tuple(rows)))).observations
    ] == ["node-0"] * REPEATED


@pytest.mark.parametrize(
    "spoil",
    [
        lambda check: check["metrics"].update(metric={"all": 1, "else": 2}),
        lambda check: check["metrics"].update(metric={"every": 1}),
        lambda check: check["metrics"].update(metric={"all": {}}),
        lambda check: check["metrics"].update(metric={"all": float("1e999")}),
        lambda check: check["metrics"].update(metric=[1]),
        lambda check: check.update(outcomes={"all": "FINE"}),
        lambda check: check.update(subjects={"all": "node-0"}),
        lambda check: check.update(subjects=5),
        lambda check: check.pop("subjects"),
        lambda check: check.update(metrics={"all": 5}),
    ],
)
def test_a_column_that_is_no_list_and_not_one_value_is_refused(spoil: Callable[[Any], object]) -> None:
    """Nothing is guessed from it."""
    document = json.loads(dump(_fleet([0.02])))
    spoil(document["checks"]["a.check"])

    with pytest.raises(DecodeError):
        load(json.dumps(document).encode())
