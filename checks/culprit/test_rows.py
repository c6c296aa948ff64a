"""The results of a rank's pair tests, and the row that is made of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from checks.model import Value
from checks.model_details import PairOutcome

# Two measurements of a pair differ in the third digit, and a node of a large cluster has thousands of numbers in its report.
DIGITS = 5
# A test that lost nothing counts as this many percent, so that there can be a ratio to it.
NOTHING_LOST = 0.001
# What a row must have of its tests; it also has cpu_wait, and where TCP is counted TCP_METRICS.
MEASURED = ("bandwidth_gbps", "message_bytes", "latency_us", "slowest_us", "wrong_elements", "in_round")
METRICS = ("peers", "results", "failures", *MEASURED, "began_s", "rounds", "rounds_left_out")
# What a host counts of its TCP segments during a test.
TCP_METRICS = ("retransmits", "data_segments", "needless_retransmits")


def lost_percent(resent: object, data: object, needless: object) -> float | None:
    """How many segments were lost, in percent of those that carried new data; None if that was not counted, or none was sent.

    A segment that was sent again too early, because its receiver was busy, was not lost.
    """
    if not (_is_count(resent) and _is_count(data) and _is_count(needless)) or data < 1:
        return None
    return 100 * max(0.0, resent - needless) / data


def _is_count(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15


@dataclass(frozen=True)
class PairEnding:
    """How a test ended, as an outcome and in words."""

    outcome: PairOutcome
    message: str

    @property
    def is_ok(self) -> bool:
        """Whether the test has its numbers, and its data was right."""
        return self.outcome is PairOutcome.OK


FINE = PairEnding(PairOutcome.OK, "ok")


@dataclass
class Trial:
    """One test with one peer, as this rank saw it; None for what the test did not reach. For units see checks.probes.pairs.pairs.

    `in_round` counts all rounds of the job; `began_s` is when the test began, in seconds since this rank's first round; `cpu_wait` is
    the share of its time for which threads of this process waited for a CPU, 0 where that is not known.
    """

    peer: int = -1
    ending: PairEnding = FINE
    bandwidth_gbps: float | None = None
    latency_us: float | None = None
    slowest_us: float | None = None
    retransmits: int | None = None
    wrong_elements: int | None = None
    in_round: int = 0
    began_s: float = 0.0
    data_segments: int | None = None
    needless_retransmits: int | None = None
    message_bytes: int | None = None
    cpu_wait: float = 0.0


def metrics(tests: Sequence[Trial], done: int, left_out: int, with_segments: bool) -> dict[str, Value]:
    """The row's metrics. The entries of a list are in the order of the tests."""
    measured = MEASURED + (TCP_METRICS if with_segments else ())
    return {
        "peers": tuple(test.peer for test in tests),
        "results": tuple(test.ending.outcome.value for test in tests),
        "failures": tuple(test.ending.message for test in tests),
        **{name: tuple(_rounded(getattr(test, name)) for test in tests) for name in measured},
        "began_s": tuple(round(test.began_s, 3) for test in tests),
        "cpu_wait": tuple(round(test.cpu_wait, 2) for test in tests),
        "rounds": done,
        "rounds_left_out": left_out,
    }


def _rounded(value: float | None) -> float | None:
    return short(value) if isinstance(value, float) else value


def short(value: float | None) -> float | None:
    """The number with DIGITS digits, None for None."""
    return None if value is None else float(f"{value:.{DIGITS}g}")
