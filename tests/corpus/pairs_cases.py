"""collective.pairs and nccl.pairs. Constructed rows: what real ranks write is tested in tests/checks/probes/pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.judge.culprits.from_report import COLLECTIVE, NCCL
from checks.model import Cause, Level, Observation, Outcome, Profile
from tests.checks.culprit.rows import Change, row
from tests.corpus.case import Case, Sort

NODES = 4
RATE = {COLLECTIVE: 1.0, NCCL: 45.0}
PER_NODE = {COLLECTIVE: 1, NCCL: 8}
KIND = {COLLECTIVE: "cpu", NCCL: "p5.48xlarge"}
VAIN = {
    "failures": "no answer within 4 s", "bandwidth_gbps": None, "latency_us": None, "slowest_us": None,
    "wrong_elements": None, "retransmits": None,
}  # fmt: skip
NEVER = {**VAIN, "failures": "not run: the check's time was used up"}


def rows(name: str, change: Change, silent: tuple[int, ...] = ()) -> Sequence[Observation]:
    """Of four nodes; the silent ranks have none."""
    per, rate = PER_NODE[name], RATE[name]
    ranks = [rank for rank in range(NODES * per) if rank not in silent]
    return [row(rank, NODES, per, change, name, Profile.STANDARD, rate) for rank in ranks]


def errored(name: str) -> Sequence[Observation]:
    """No rank met anybody."""
    return [
        replace(one, outcome=Outcome.ERRORED, metrics={}, reason="rank met nobody in 3 rounds")
        for one in rows(name, lambda a, b: {})
    ]


def of_check(name: str) -> Iterator[Case]:
    """The same faults for both."""
    per, rate = PER_NODE[name], RATE[name]

    def case(sort: Sort, title: str, change: Change, silent: tuple[int, ...] = (), **of: Any) -> Case:
        def observe(_: Path) -> Sequence[Observation]:
            return rows(name, change, silent)

        return Case(name, sort, title, observe, KIND[name], NODES, **of)

    def on_node(*nodes: int, **metrics: float | int | str | None) -> Change:
        return lambda a, b: metrics if {a // per, b // per} & set(nodes) else {}

    def on_link(**metrics: float | int | str | None) -> Change:
        return lambda a, b: metrics if {a // per, b // per} == {1, 2} else {}

    slow = rate / 20
    whole: dict[str, Any] = {"cause": Cause.CONFIGURATION}
    yield case(Sort.HEALTHY, "all alike", lambda a, b: {})
    yield case(Sort.FAULTY, "a slow node", on_node(2, bandwidth_gbps=slow), names="is slow to and from its peers")  # fmt: skip
    yield case(Sort.FAULTY, "a slow link", on_link(bandwidth_gbps=slow), names="<->node-2  is slow")
    yield case(Sort.FAULTY, "a dead link", on_link(**VAIN), names="no answer within 4 s")
    corrupt: dict[str, float | int | str | None] = {"wrong_elements": 1, "failures": "1 wrong elements"}
    yield case(Sort.FAULTY, "one sends wrong data", lambda a, b: corrupt if b // per == 3 else {},
        names="delivers wrong data to its peers")  # fmt: skip
    yield case(Sort.FAULTY, "one pauses", on_node(1, slowest_us=1.1e5), names="pauses for long to and from its peers")  # fmt: skip
    late = on_node(1, latency_us=50_000.0)
    yield case(Sort.FAULTY, "one answers late", late, names="answers late to and from its peers", level=Level.WARN)  # fmt: skip
    yield case(Sort.FAULTY, "all slow", lambda a, b: {"bandwidth_gbps": rate / 1000}, names="as a whole", **whole)  # fmt: skip
    yield case(Sort.FAULTY, "half of them slow", on_node(0, 1, bandwidth_gbps=slow), names="as a whole", **whole)  # fmt: skip
    yield case(Sort.UNMEASURABLE, "one is silent", lambda a, b: VAIN if per in (a, b) else {}, silent=(per,))
    yield case(Sort.UNMEASURABLE, "one pair was never measured", lambda a, b: NEVER if {a, b} == {0, per} else {})  # fmt: skip
    yield case(Sort.UNMEASURABLE, "nothing has a number", lambda a, b: NEVER)
    yield Case(name, Sort.UNMEASURABLE, "met nobody", lambda _: errored(name), KIND[name], NODES)


CASES = (*of_check(COLLECTIVE), *of_check(NCCL))
