"""The strict reader: nothing is coerced, nothing unknown gets through, every refusal says where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.documents.decode import MAX_DEPTH, decode, parse_json
from checks.value_types import DecodeError, Range, Text


class Colour(Enum):
    """Two of them."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    """One bounded number."""

    count: Annotated[int, Range(1, 8)] = 1


@dataclass(frozen=True)
class Outer:
    """One of every kind."""

    name: Annotated[str, Text("[a-z]+", 5)]
    colour: Colour = Colour.RED
    inner: Inner | None = None
    share: float = 0.0
    flag: bool = False
    many: tuple[Inner, ...] = ()
    named: Mapping[str, float] | None = None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_a_whole_value_is_read() -> None:
    """Nested tables, lists, enums and defaults."""
    value = {"name": "abc", "colour": "blue", "inner": {"count": 3}, "many": [{}, {"count": 2}], "share": 1}

    assert Outer("abc", Colour.BLUE, Inner(3), 1.0, False, (Inner(), Inner(2))) == decode(Outer, value)


@pytest.mark.parametrize(
    ("value", "path", "near"),
    [
        ({}, "name", None),
        ({"name": "abc", "colur": "red"}, "colur", "colour"),
        ({"name": "abc", "colour": "rd"}, "colour", "red"),
        ({"name": "ABC"}, "name", None),
        ({"name": "abc\n"}, "name", None),
        ({"name": "a", "inner": {"count": 9}}, "inner.count", None),
        ({"name": "a", "inner": {"count": True}}, "inner.count", None),
        ({"name": "a", "inner": {"count": 8.0}}, "inner.count", None),
        ({"name": "a", "inner": []}, "inner", None),
        ({"name": "a", "many": [{}, {"cont": 1}]}, "many[1].cont", "count"),
        ({"name": "a", "many": {}}, "many", None),
        ({"name": "a", "flag": 0}, "flag", None),
        ({"name": "a", "share": True}, "share", None),
        ({"name": "a", "share": float("nan")}, "share", None),
        ({"name": "a", "share": 10**400}, "share", None),
        ({"name": "a", "named": {"x": "1"}}, "named.x", None),
        ([], "", None),
    ],
)
def test_decoder_rejects_a_misfit_with_its_path_and_nearest_word(
    value: object, path: str, near: str | None
) -> None:
    """The dotted path, and the nearest valid word where there is one."""
    with pytest.raises(DecodeError) as caught:
        decode(Outer, value)

    assert (path, near) == (caught.value.path, caught.value.nearest)


@given(JSON)
def test_anything_is_read_or_refused(value: object) -> None:
    """No other exception, whatever comes."""
    for kind in (Outer, Inner):
        try:
            decode(kind, value)
        except DecodeError as error:
            assert str(error)


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_json_or_refused(text: str | bytes) -> None:
    """No other exception for any bytes."""
    try:
        parse_json(text, 1000)
    except DecodeError as error:
        assert str(error)


def test_more_than_the_limit_is_not_even_parsed() -> None:
    """A bound on the bytes comes first."""
    with pytest.raises(DecodeError, match="more than the 10"):
        parse_json("[" * 11, 10)


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}"), ("[1,", "]")])
def test_json_reader_reads_up_to_the_depth_limit_and_no_deeper(opened: str, closed: str) -> None:
    """Lists, tables, and lists beside numbers."""
    deepest = opened * MAX_DEPTH + "1" + closed * MAX_DEPTH

    assert parse_json(deepest, 1 << 20) is not None
    with pytest.raises(DecodeError, match="nested deeper"):
        parse_json(f"[{deepest}]", 1 << 20)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    "kind", [tuple[float, ...], tuple[float | None, ...], Mapping[str, tuple[float, ...]]]
)
def test_a_number_that_is_not_finite_is_refused_in_a_list_of_thousands(kind: object, number: float) -> None:
    """Long lists are read at once, and not one by one."""
    items = [1.0] * 5000 + [number]

    with pytest.raises(DecodeError):
        decode(kind, {"a": items} if kind == Mapping[str, tuple[float, ...]] else items)  # type: ignore[arg-type]
