"""Reports on disk: what is written is what is read, and anything else is refused in words."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.documents.report import clip, dump, load
from checks.model import EVIDENCE_BYTES, KernelLog, Observation, Report
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
def test_report_survives_dump_and_load_unchanged(
    metrics: dict[str, bool | int | float | str], evidence: str
) -> None:
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
