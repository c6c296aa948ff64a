"""The tables of what machines reach: each row has a source, a part that can reach it, and one that could miss it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checks.facts.builtin import builtin
from checks.facts.expected_tables import FILES, HERE, load
from checks.judge.rules.expected_values import expected_busbw, most_busbw
from checks.value_types import DecodeError

FACTS = builtin()


def changed(table: str, **keys: object) -> dict[str, bytes]:
    """The shipped texts, the first row of one table with other keys; None takes a key away."""
    texts = {name: (HERE / f"{name}.json").read_bytes() for name in FILES}
    document: dict[str, Any] = json.loads(texts[table])
    row = {**document[table][0], **keys}
    document[table][0] = {key: value for key, value in row.items() if value is not None}
    return {**texts, table: json.dumps(document).encode()}


@pytest.mark.parametrize("table", FILES)
def test_a_row_without_a_provenance_is_refused(table: str) -> None:
    """Nobody could say what it rests on."""
    with pytest.raises(DecodeError, match=rf"{table}\[0\]"):
        load(changed(table, provenance=None))


@pytest.mark.parametrize(
    ("table", "keys", "why"),
    [
        ("gemm", {"model": "H200", "tflops": 990}, "above what a H200 can do"),
        ("memory", {"gbps": 1600}, "above what a A100-SXM4-40GB can do"),
        ("transfer", {"model": "A100", "gbps": 32}, "above what a A100 can do"),
        ("gemm", {"model": "H9000"}, "no part 'H9000'"),
        ("memory", {"gbps": 137.5}, "no A100-SXM4-40GB could miss"),
        ("memory", {"model": "H200", "gbps": 2.333}, "no H200 could miss"),
        ("transfer", {"model": "A100", "gbps": 0.5}, "no A100 could miss"),
    ],
)
def test_a_row_that_no_part_reaches_or_fits_is_refused(table: str, keys: dict[str, object], why: str) -> None:
    """DCGM's 137500 and 2333 MB/s for A100 and H200 among them: both lost digits."""
    with pytest.raises(DecodeError, match=why):
        load(changed(table, **keys))


@pytest.mark.parametrize(
    "points", [[], [[1, 2, 3]], [[4, 2], [4, 3]], [[4, 3], [8, 2]], [[4, 2], [8, 5]], [[0, 1]]]
)
def test_a_curve_that_does_not_rise_is_refused(points: list[list[float]]) -> None:
    """In size, in bandwidth, and in time."""
    with pytest.raises(DecodeError, match="points"):
        load(changed("collectives", points=points))


def test_no_known_bandwidth_is_above_its_roofline() -> None:
    """At any point of any type that it stands for."""
    for row in FACTS.expected.collectives:
        for kind in row.types:
            most = most_busbw(FACTS, kind, row.nodes, row.ranks, row.collective, row.transport)
            assert most is None or row.points[-1][1] <= most, (kind, row)


def test_every_type_of_a_curve_is_one_of_the_instance_table() -> None:
    """With that many GPUs a node."""
    for row in FACTS.expected.collectives:
        for kind in row.types:
            gpus = FACTS.instances[kind].gpus
            assert row.ranks == (row.nodes if "rails" in row.collective else row.nodes * gpus), (kind, row)


# A public threshold that fails every machine: the AWS sample suite's checks/5-nccl-allreduce.sh.
@pytest.mark.parametrize(
    ("kind", "fail_below"),
    [("p4d.24xlarge", 300.0), *((f"{kind}.48xlarge", 800.0) for kind in ("p5", "p5e", "p5en"))],
)
def test_a_threshold_above_what_was_ever_measured_is_none(kind: str, fail_below: float) -> None:
    """No healthy machine passes it; nor is it in the tables."""
    expected = expected_busbw(FACTS, kind, 2, 16, "all_reduce", 128 << 20, "efa")

    assert expected is not None and fail_below > 2 * expected.high
