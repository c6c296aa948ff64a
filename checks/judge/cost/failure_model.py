"""What a finding would do to a training job, and what failures cost. Pure.

The effect of a finding follows from a closed table, by the check that found it. A finding whose cause is EVIDENCE has an unknown
effect. Wrong values corrupt the job, whichever check saw them, and a rate that is too low slows it; the metric in the message tells
both. Everything else follows from the family of the check.

The formulas: times are hours; losses are accelerator-hours (or node-hours). Source: arXiv:2410.21680, section on
effective training time (its expected share of productive time), from which the formulas for losses are derived.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from checks.documents.decode import decode
from checks.facts.failures import Fault, ValueSpan
from checks.facts.provenance import table_bytes
from checks.model import Cause, Finding

# Metrics that count wrong data: what was computed, moved or stored is not what it should be.
CORRUPTING = frozenset(
    {
        "wrong_elements", "wrong_checksums", "wrong_words", "wrong_products", "wrong_sums", "wrong_results",
        "out_of_bounds", "corrupt", "digest", "weights_digest", "gradient_error", "gradient_error_last",
        "unsteady_repeats", "nonfinite_losses", "unequal_losses", "loss_ratio",
    }
)  # fmt: skip
_RATE = re.compile(r"[a-z0-9_]*(_gbps|_gbit_s|flops|_iops|_per_s|_per_s_per_cpu|latency_us|_ratio|_share)")


@dataclass(frozen=True)
class CheckFamily:
    """Checks whose names begin alike: what a finding of theirs does to a training, and why."""

    fault: Fault
    source: str


_TABLE = json.loads(table_bytes(Path(__file__).with_name("families.json")))
FAMILIES = {start: decode(CheckFamily, family) for start, family in _TABLE.items()}


def fault_of(finding: Finding) -> Fault:
    """What the finding's defect would do to the job; UNKNOWN for what was not observed, and for a site's own checks."""
    if finding.cause is Cause.EVIDENCE:
        return Fault.UNKNOWN
    family = family_of(finding.check)
    if family is None:
        return Fault.UNKNOWN
    if finding.metric in CORRUPTING:
        return Fault.CORRUPTION
    return Fault.SLOW if _RATE.fullmatch(finding.metric) else family.fault


def family_of(check: str) -> CheckFamily | None:
    """The family whose beginning of the name is the longest; None for checks that are not Prelaunch's own."""
    fitting = [start for start in FAMILIES if check.startswith(start)]
    return FAMILIES[max(fitting, key=len)] if fitting else None


def lost_per_failure(units: int, detect: ValueSpan, restart: ValueSpan, checkpoint_hours: float) -> ValueSpan:
    """N (t_detect + t_restart + dt/2): all nodes wait, then half a checkpoint interval is computed again.

    256 GPUs, 10 min, 15 min and an hourly checkpoint: 234.7 GPU-hours.
    """
    return detect.plus(restart).plus(ValueSpan(checkpoint_hours / 2, checkpoint_hours / 2)).scaled(units)


def lost_to_straggler(units: int, hours: float, slowdown: ValueSpan) -> ValueSpan:
    """N t s: in synchronous training every rank waits for the slowest one, so all lose its share s."""
    return slowdown.scaled(units * hours)
