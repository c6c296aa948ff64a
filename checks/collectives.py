"""collective.all_reduce and collective.all_gather: the collectives over gloo, where no GPUs are declared."""

from __future__ import annotations

from checks import kinds
from checks.check import Context, Measurement, Part, check
from checks.model import Scope
from checks.sweep import METRICS, measure


@check(
    "collective.all_reduce",
    Scope.RANK,
    timeout_s=60,
    metrics=METRICS,
    needs="torch",
    cost="seconds",
    min_ranks=2,
    part=Part.NO_GPU,
    group=True,
)
def all_reduce(context: Context) -> Measurement:
    """Sums across all ranks, compares every element, and takes the bus bandwidth by size.

    `wrong_elements` is this rank's. Arrays have one entry a size: bandwidths in 10^9 bytes/s from the
    median time of the slowest rank. `sizes_left_out` are the largest, which would not have fitted into the
    budget.
    """
    return measure(context, kinds.ALL_REDUCE)


@check(
    "collective.all_gather",
    Scope.RANK,
    timeout_s=60,
    metrics=METRICS,
    needs="torch",
    cost="seconds",
    min_ranks=2,
    part=Part.NO_GPU,
    group=True,
)
def all_gather(context: Context) -> Measurement:
    """Gathers from all ranks, compares every element, and takes the bus bandwidth by size.

    As collective.all_reduce; a size is what each rank receives.
    """
    return measure(context, kinds.ALL_GATHER)
