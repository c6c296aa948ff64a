"""What failures cost a job: the formulas (pure). Times are hours; losses are accelerator-hours (or node-hours).

Sources: Young 1974 and Daly 2006 (checkpoint interval); arXiv:2410.21680, section on effective training time (its
mean time to failure, and its expected share of productive time); the lines on losses are derived from these.
"""

from __future__ import annotations

import math

from checks.facts.failures import Span


def job_mttf_hours(nodes: int, per_1000_node_days: float) -> float:
    """1 / (N r): 2,048 nodes at 6.5 failures per 1,000 node-days fail every 1.80 h (arXiv:2410.21680).

    Small jobs fail more often than this says: at 128 nodes 7.9 h were measured where it gives 28.8.
    """
    return 24 * 1000 / (nodes * per_1000_node_days)


def young_interval_hours(write_hours: float, mttf_hours: float) -> float:
    """The checkpoint interval that loses least, sqrt(2 w M): Young's first order, for writes w far shorter than M."""
    return math.sqrt(2 * write_hours * mttf_hours)


def lost_per_failure(units: int, detect: Span, restart: Span, checkpoint_hours: float) -> Span:
    """N (t_detect + t_restart + dt/2): everyone waits, then half a checkpoint interval is computed again.

    256 GPUs, 10 min, 15 min and an hourly checkpoint: 234.7 GPU-hours.
    """
    return detect.plus(restart).plus(Span(checkpoint_hours / 2, checkpoint_hours / 2)).scaled(units)


def lost_to_straggler(units: int, hours: float, slowdown: Span) -> Span:
    """N t s: in synchronous training every rank waits for the slowest, so its share s is lost by all."""
    return slowdown.scaled(units * hours)


def any_of(nodes: int, probability: float) -> float:
    """1 - (1 - p)^N: that at least one of N nodes is bad, where each is with probability p."""
    return float(1 - (1 - probability) ** nodes)


def break_even_probability(cost_of_check: float, loss: float) -> float:
    """Above this probability of a bad node the check is the cheaper choice: p L > cost, so p = cost / L, at most 1.

    A check of 15 min against a run that is dead for 6 h: 4.2 %.
    """
    return min(1.0, cost_of_check / loss) if loss > 0 else 1.0
