"""Counters of a watch: an Xid is counted once, however long the log shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from checks.model import Observation, Outcome, Value
from checks.probes.kernel.xid_catalogue import Need
from checks.probes.kernel.xid_rows import AGES, ARRAYS, LISTED
from checks.watch.counters import Totals

GPU = "GPU 0 (0000:53:00.0)"


def xids(*events: tuple[int, int, float], need: Need = Need.ACT) -> Observation:
    """An observation of kernel.xid: (code, lines, age of the last one)."""
    texts = ("none", "", "", "", "NVRM: Xid")
    columns: dict[str, Value] = {}
    if events:
        kinds: dict[str, tuple[object, ...]] = {
            "event_gpus": tuple(GPU for _ in events),
            "event_codes": tuple(code for code, _, _ in events),
            "event_counts": tuple(lines for _, lines, _ in events),
            "event_needs": tuple(need.value for _ in events),
            **{name: tuple(text for _ in events) for name, text in zip(ARRAYS[4:], texts, strict=True)},
        }
        columns = {name: kinds[name] for name in ARRAYS}  # type: ignore[misc]
        columns[AGES] = tuple(age for _, _, age in events)
    return row("kernel.xid", {"incidents": len(events), **columns})


def row(check: str, metrics: Mapping[str, Value]) -> Observation:
    return Observation(check, "node-0", Outcome.MEASURED, 0.1, metrics)


def counted(*rounds: tuple[float, Observation]) -> dict[tuple[str, str, str], int]:
    totals = Totals()
    for at, seen in rounds:
        totals.add([seen], at)
    return dict(totals.xids)


def test_one_xid_is_one_however_often_it_is_read() -> None:
    """DCGM's gauge shows the last code for ever; this counter grows once."""
    key = (GPU, "79", "act")
    assert {key: 1} == counted(*((60.0 * n, xids((79, 1, 60.0 * n))) for n in range(1, 20)))


def test_two_equal_xids_are_two() -> None:
    assert {(GPU, "31", "act"): 2} == counted((100.0, xids((31, 1, 10.0))), (160.0, xids((31, 2, 5.0))))


def test_a_new_one_counts_even_if_an_old_one_left_the_window() -> None:
    assert {(GPU, "31", "act"): 2} == counted((100.0, xids((31, 1, 90.0))), (160.0, xids((31, 1, 5.0))))


def test_the_same_line_read_with_a_slightly_other_age_is_no_new_one() -> None:
    assert {(GPU, "31", "act"): 1} == counted((100.0, xids((31, 1, 90.0))), (160.0, xids((31, 1, 149.6))))


def test_lines_that_leave_the_window_do_not_count_backwards() -> None:
    left = counted((100.0, xids((31, 5, 90.0))), (160.0, xids((31, 2, 150.0))), (220.0, xids()))

    assert {(GPU, "31", "act"): 5} == left


def test_a_reset_does_not_count_the_same_lines_again() -> None:
    answered = xids((79, 1, 70.0), need=Need.HANDLED)

    assert 1 == sum(counted((100.0, xids((79, 1, 10.0))), (160.0, answered)).values())


def test_more_incidents_than_are_listed_are_counted_as_far_as_they_are() -> None:
    many = xids(*((code, 1, 5.0) for code in range(1, LISTED + 1)))
    more = replace(many, metrics={**many.metrics, "incidents": LISTED + 9})

    assert LISTED == sum(counted((100.0, more)).values())


def test_growth_is_summed_and_a_reset_counter_adds_nothing() -> None:
    totals = Totals()
    for grown in (2, None, 3, -4):
        devices: dict[str, Value] = {"devices": ("rdmap0",), "rx_drops": (grown,), "error_events": (0,)}
        totals.add([row("efa.counters", {**devices, "retransmitted_packets": (grown,)})], 0.0)
        totals.add([row("gpu.nvlink", {"gpus": (GPU,), "link_recoveries": (grown,)})], 0.0)

    assert (
        5 == totals.efa_errors["rdmap0", "rx_drops"] == totals.efa_errors["rdmap0", "retransmitted_packets"]
    )
    assert {GPU: 5} == dict(totals.nvlink_recoveries)


def test_what_was_not_measured_is_not_counted() -> None:
    totals = Totals()
    totals.add([Observation("kernel.xid", "node-0", Outcome.ERRORED, 0.1, xids((79, 1, 5.0)).metrics)], 100.0)

    assert not totals.xids
