"""The numbers of a report as series: however they are stored, each value is there once, with its subject."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.documents.columns import CheckTable
from checks.judge.baseline import samples
from checks.judge.baseline.samples import OwnerRuns, Side, gather, side_of
from checks.model import Observation, Outcome, Value, node_of

VALUES = st.one_of(
    st.floats(0, 100),
    st.integers(0, 100),
    st.lists(st.floats(0, 100), max_size=4).map(tuple),
    st.lists(st.one_of(st.none(), st.floats(0, 100)), max_size=4).map(tuple),
)


def _rows(values: Sequence[Value]) -> CheckTable:
    rows = [
        Observation("network.pairs", f"node-{place // 2}", Outcome.MEASURED, 1.0, {"bandwidth_gbps": value})
        for place, value in enumerate(values)
    ]
    return CheckTable.collect("network.pairs", rows)


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_each_value_is_there_once_with_its_subject(values: list[Value]) -> None:
    """Against the plain definition: one after the other."""
    wanted, holes = list[tuple[str, object]](), list[str]()
    for place, value in enumerate(values):
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, (int, float)):
                wanted.append((f"node-{place // 2}", item))
            else:
                holes.append(f"node-{place // 2}")
    found = [s for (_, label), s in gather(_rows(values), None).items() if label == ""]

    assert wanted == [pair for one in found for pair in zip(one.subjects, one.values, strict=True)]
    assert holes == [subject for one in found for subject in one.holes]


def test_values_of_peers_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million pairs of a cluster cost as many looks as it has nodes, and not one for each pair."""
    looks: list[int] = []
    real = samples._sane

    def counted(values: Sequence[object]) -> bool:
        looks.append(len(values))
        return real(values)

    monkeypatch.setattr(samples, "_sane", counted)
    gather(_rows([tuple(float(peer) for peer in range(200 + node)) for node in range(10)]), None)

    assert 10 == len(looks)


@given(st.lists(st.sampled_from(["node-0/rank-0", "node-0/rank-1", "node-1/rank-2", "cluster"]), max_size=12))
def test_runs_cover_every_place_once(subjects: list[str]) -> None:
    """Each with its owner, in order; neighbours of one owner are one run, also when they are asked for again."""
    known, given_once = OwnerRuns(node_of), tuple(subjects)
    runs = known.by_owner(given_once)

    assert [node_of(one) for one in subjects] == [
        owner for owner, begin, end in runs for _ in range(begin, end)
    ]
    assert all(one[0] != other[0] and one[2] == other[1] for one, other in pairwise(runs))
    assert runs == known.by_owner(given_once)


@pytest.mark.parametrize(
    ("metric", "side"),
    [
        ("random_read_p99_s", Side.HIGH),
        ("own_check_takes_s", Side.HIGH),
        ("connect_ms", Side.HIGH),
        ("tokens_per_s", Side.LOW),
        ("network_gbit_s", Side.LOW),
        ("covers_s", None),
        ("thermal_s", None),
        ("slowest_s", None),
        ("free_bytes", None),
    ],
)
def test_the_unit_says_which_side_is_bad(metric: str, side: Side | None) -> None:
    """A duration is worse where it is longer; seconds that are none are not compared, and no rate is taken for a duration."""
    assert side is side_of(metric, None)
