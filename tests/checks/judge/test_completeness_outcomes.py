"""An element whose own outcome says that it was not measured has no number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.documents.columns import CheckTable
from checks.judge.completeness import defect_of, unfit
from checks.model import Observation, Outcome, Planned, Scope, Value

CHECKS: dict[str, dict[str, Value]] = {
    "network.pairs": {"peers": ("b", "c"), "latency_us": (20.0, 21.0), "bandwidth_gbps": (5.0, 5.1)},
    "network.reachability": {"peers": ("b", "c"), "connect_ms": (0.2, 0.1), "refused": (0, 0)},
    "network.mtu": {"peers": ("b", "c"), "path_mtu_bytes": (9001, 9001), "narrowed_bytes": (0, 0), "full_size_lost": (0, 0)},
    "efa.pingpong": {"pairs": ("a", "b"), "rate_gbps": (11.0, 11.1), "latency_us": (16.0, 16.0), "acks_missing": (0, 0)},
}  # fmt: skip


def row(check: str, failures: tuple[str, ...], **metrics: Value) -> Observation:
    """A measurement of two elements."""
    return Observation(check, "a", Outcome.MEASURED, 1.0, {**CHECKS[check], "failures": failures, **metrics})


def defect(one: Observation) -> str:
    """What is said of it, "" if it is fit to be judged."""
    planned = Planned(one.check, Scope.NODE, ("failures",))
    found = defect_of(one, planned)
    assert bool(found.value) == bool(unfit(planned, CheckTable.collect(one.check, (one,))))
    return f"{found.value} {found.reason}".strip()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("said", ["no answer", "reset by peer", "not run"])
def test_a_failed_element_with_a_number_is_not_measured(check: str, index: int, said: str) -> None:
    """Whichever it is, and whatever it says."""
    failures = ("ok", said) if index else (said, "ok")

    assert defect(row(check, failures)).endswith(
        f"[{index}] has a number, but its outcome says that it was not measured"
    )


@pytest.mark.parametrize("check", CHECKS)
def test_a_healthy_or_an_honest_row_is_judged(check: str) -> None:
    """All went well; or the second failed and has no numbers beside its counts."""
    failed = row(check, ("ok", "no answer"))
    measured: dict[str, Value] = {
        name: (value[0], None)  # type: ignore[misc]
        for name, value in CHECKS[check].items()
        if isinstance(value, tuple)
        and name.endswith(("_us", "_ms", "_gbps", "path_mtu_bytes", "narrowed_bytes"))
    }
    honest = replace(failed, metrics={**failed.metrics, **measured})

    assert ("", "") == (defect(row(check, ("ok", "ok"))), defect(honest))


SPOILT = {
    "impossible": row("network.mtu", ("ok", "ok"), narrowed_bytes=(-1e9, 0), path_mtu_bytes=(-1e9, 9001)),
    "empty": row("network.mtu", ("ok", "ok"), peers=(), path_mtu_bytes=()),
    "a number that was not measured": row("network.pairs", ("ok", "no answer")),
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_the_order_of_the_metrics_does_not_change_the_defect(spoilt: Observation) -> None:
    backwards = dict(reversed([*spoilt.metrics.items()]))

    assert defect(spoilt) == defect(replace(spoilt, metrics=backwards)) != ""
