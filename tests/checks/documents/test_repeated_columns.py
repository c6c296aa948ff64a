"""The parser of reports with repeated columns: the same values and the same refusals as the ordinary parser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.documents.decode import MAX_DEPTH, decode, decode_shared, parse_json
from checks.documents.repeated_columns import BEGINNING, parse
from checks.documents.report import REPORT_BYTES, ReportFile, dump
from checks.value_types import DecodeError
from tests.sample_reports import healthy

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
# A column may occur again, also as the beginning of a longer text.
COLUMNS = VALUES | st.lists(VALUES, max_size=3).map(lambda few: ["x" * BEGINNING, *few])
DOCUMENTS = st.lists(COLUMNS, min_size=1, max_size=3).flatmap(
    lambda columns: st.dictionaries(
        st.text(max_size=3),
        st.dictionaries(st.text(max_size=3), st.sampled_from(columns), max_size=3) | st.sampled_from(columns),
        max_size=4,
    )
)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _read(text: str, shared: bool) -> object:
    """The value with its types, or what is wrong with it."""
    try:
        return repr(parse_json(text, 1 << 24, shared=shared))
    except DecodeError as error:
        return str(error)


@given(DOCUMENTS, st.sampled_from([",", ", "]), st.sampled_from(["", "\n", " \t\r\n", "x", "{}"]))
def test_every_document_is_read_as_by_the_ordinary_parser(document: Any, comma: str, rest: str) -> None:
    """Compact or not, and with something after it."""
    text = json.dumps(document, separators=(comma, ":")) + rest

    assert _read(text, shared=False) == _read(text, shared=True)


@given(DOCUMENTS, st.integers(0, 400), st.text(alphabet='[]{}",:0\\ \n\x1f', max_size=2), st.booleans())
def test_a_damaged_document_is_refused_in_the_same_words(
    document: Any, place: int, inserted: str, cut: bool
) -> None:
    """Something is inserted, or the rest is missing."""
    text = _compact(document)
    damaged = text[:place] + inserted + ("" if cut else text[place:])

    assert _read(damaged, shared=False) == _read(damaged, shared=True)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":[1],"a":[1]}',
        '{"a":{"b":[1],"b":[2]}}',
        '{"a":[{"b":1,"b":2}]}',
        '{"a":[NaN]}',
        '{"a":-Infinity}',
        '{"a":[1],"b":[1],}',
        '{"a":[1],"b":[1]',
        '{"a":[1 ,2],"b":[1 ,2]}',
        '{"a" :[1]}',
        '{"a":[1]]}',
        "{}",
        "[]",
        "",
        "{",
        '{"',
        '{"a":',
        '{"a":[',
    ],
)
def test_what_is_no_report_is_refused_in_the_same_words(text: str) -> None:
    """Duplicate keys, constants that JSON lacks, and texts that end too early."""
    assert _read(text, shared=False) == _read(text, shared=True)


@pytest.mark.parametrize("around", [0, 1, 2, 3, 4, 5])
def test_the_limit_of_the_depth_counts_the_tables_around_a_list(around: int) -> None:
    """At the limit both read it; beyond it both refuse."""
    for depth in (MAX_DEPTH - around - 1, MAX_DEPTH - around, MAX_DEPTH - around + 1):
        text = '{"a":' * around + "[" * depth + "]" * depth + "}" * around

        assert _read(text, shared=False) == _read(text, shared=True)


def test_equal_columns_are_one_object_and_are_decoded_once() -> None:
    """The subjects of two checks; a list that only begins like another one stays apart."""
    document = parse_json(dump(healthy(3, 2)), REPORT_BYTES, shared=True)
    file = decode_shared(ReportFile, document)
    many = [*range(99)]
    text = _compact({"a": many, "b": [*many, 3], "c": many, "d": [many, many], "e": [1], "f": [1]})
    found: Any = parse_json(text, 1 << 20, shared=True)

    assert file.checks["compute.gemm"].subjects is file.checks["training.ddp"].subjects
    assert found["a"] is found["c"]
    assert ([*many, 3], [many, many], [1]) == (found["b"], found["d"], found["f"])
    assert decode(ReportFile, document) == file


def test_lists_of_the_same_text_and_other_types_are_decoded_by_their_own_type() -> None:
    """[1] as a list of seconds is (1.0,), as a metric it is (1,)."""
    report = json.loads(dump(healthy(2, 1)))
    columns = report["checks"]["compute.gemm"]
    columns["seconds"] = columns["metrics"]["gflops"] = [1] * len(columns["subjects"])
    text = _compact(report)
    read = decode_shared(ReportFile, parse_json(text, 1 << 24, shared=True)).checks["compute.gemm"]

    assert ["float"] * 2 == [type(value).__name__ for value in read.seconds]
    assert ["int"] * 2 == [type(value).__name__ for value in read.metrics["gflops"]]


def test_a_report_that_was_made_to_be_compared_for_ever_is_read_by_the_ordinary_parser() -> None:
    """One long list, and many short ones that begin alike and end where it might end, each time after a long comparison."""
    short = "[" + "0.0," * 17 + "0.0]"
    pairs = [f'"k{number:07}":{short}' for number in range(600)]
    period = len(pairs[0]) + 1
    long = "[" + "0.0," * ((300 * period) // 4)
    long += " " * ((len(short) - len(long) - 4) % period) + "0.0]"
    text = f'{{"a":{long},{",".join(pairs)}}}'

    assert json.loads(text) == parse_json(text.encode(), REPORT_BYTES, shared=True)
    scan = json.JSONDecoder().raw_decode
    assert parse(text, scan, lambda value, depth: None) is None
    assert parse(f"{{{','.join(pairs)}}}", scan, lambda value, depth: None) is not None


@pytest.mark.parametrize(
    "hidden", ["[[1],%s]", '[["],["],%s]', '[["[","]"],%s]', '[[1],["],[],["],%s]', '["[",%s]']
)
def test_a_deep_list_behind_lists_and_brackets_in_texts_is_refused(hidden: str) -> None:
    """Brackets are counted to find lists of scalars; whatever texts contain, a deep list is never taken for one."""
    text = '{"a":' + hidden % ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)) + "}"

    with pytest.raises(DecodeError, match="nested deeper"):
        parse_json(text, REPORT_BYTES, shared=True)


def test_lists_of_scalars_are_not_walked() -> None:
    """Only what may be deep is given to the check of the depth."""
    walked: list[object] = []
    scan = json.JSONDecoder().raw_decode
    parse(
        '{"a":[1,2],"b":[[1],[2]],"c":[["[x]"]],"d":[[[1]]]}', scan, lambda value, depth: walked.append(value)
    )

    assert [[["[x]"]], [[[1]]]] == walked
