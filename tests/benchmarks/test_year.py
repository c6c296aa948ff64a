"""The replay of a year of faults."""

from __future__ import annotations

import random

from tests.benchmarks.year import Year, faults


def test_spares_save_what_a_queue_costs() -> None:
    """And where no fault comes, the checks are all that is lost."""
    trace = faults(random.Random(1))
    gate, spares, healthy = (
        Year(events, 128, number, 0.9, 24.0, random.Random(1)).run()
        for events, number in ((trace, 0), (trace, 4), ([], 4))
    )

    assert 584 == len(trace)
    assert 0.4 < gate < 0.6 < 0.8 < spares < healthy < 1
