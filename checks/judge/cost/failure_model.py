"""What a finding would do to a training job, and what failures cost. Pure.

The effect of a finding follows from a closed table, by the check that found it. A finding whose cause is EVIDENCE has an unknown
effect. Wrong values corrupt the job, whichever check saw them, and a rate that is too low slows it; the metric in the message tells
both. Everything else follows from the family of the check.

The formulas: times are hours; losses are accelerator-hours (or node-hours). Source: arXiv:2410.21680, section on
effective training time (its expected share of productive time), from which the formulas for losses are derived.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.facts.failures import Fault, ValueSpan
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
    """Checks whose names begin in the same way."""

    start: str
    fault: Fault
    source: str


_LLAMA = "arXiv:2407.21783, table 5: these interruptions ended the job"
_NCCL = "NCCL user guide, troubleshooting: a peer that cannot be reached blocks the collective"
_THROTTLE = "arXiv:2402.15627 (MegaScale): slow machines hold the whole job back"
FAMILIES = (
    CheckFamily("system.identity", Fault.HANG, "ranks of unlike versions may disagree about a collective"),
    CheckFamily("system.", Fault.CRASH, "a process that runs out of memory, disk or descriptors dies"),
    CheckFamily(
        "environment.", Fault.SLOW, "NCCL user guide, environment variables: a fallback runs, slowly"
    ),
    CheckFamily("mounts.", Fault.HANG, "stat(2) on a dead mount does not return"),
    CheckFamily("cpu.", Fault.CORRUPTION, "stress-ng --verify: a wrong result"),
    CheckFamily("memory.", Fault.CORRUPTION, "stress-ng --verify: a wrong value was read back"),
    CheckFamily("disk.", Fault.CRASH, "a failed read or write ends the rank"),
    CheckFamily("kernel.", Fault.CRASH, _LLAMA),
    CheckFamily("gpu.fabric", Fault.HANG, _NCCL),
    CheckFamily("gpu.power", Fault.SLOW, _THROTTLE),
    CheckFamily("gpu.clocks", Fault.SLOW, _THROTTLE),
    CheckFamily("gpu.thermal", Fault.SLOW, _THROTTLE),
    CheckFamily("gpu.pcie", Fault.SLOW, "PCI Express: fewer lanes carry less"),
    CheckFamily("gpu.utilisation", Fault.SLOW, "another program has a share of the GPU"),
    CheckFamily("gpu.", Fault.CRASH, _LLAMA),
    CheckFamily("neuron.collectives", Fault.SLOW, _NCCL),
    CheckFamily("neuron.", Fault.CRASH, "as a GPU's: " + _LLAMA),
    CheckFamily("dcgm.", Fault.CRASH, _LLAMA),
    CheckFamily("efa.", Fault.SLOW, "aws-ofi-nccl: without EFA NCCL falls back to sockets, which run"),
    CheckFamily(
        "ib.",
        Fault.SLOW,
        "a lost or slow port leaves the others its share, and NCCL goes on; without all of them it falls back to sockets",
    ),
    CheckFamily("network.counters", Fault.SLOW, "what is dropped is sent again"),
    CheckFamily("network.", Fault.HANG, _NCCL),
    CheckFamily("nccl.", Fault.SLOW, _THROTTLE),
    CheckFamily("collective.", Fault.SLOW, _THROTTLE),
    CheckFamily("compute.sdc", Fault.CORRUPTION, "the same product gave another result"),
    CheckFamily("compute.", Fault.SLOW, _THROTTLE),
    CheckFamily("training.step", Fault.SLOW, _THROTTLE),
    CheckFamily("training.", Fault.CORRUPTION, "wrong loss, gradient or weights"),
)


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
    fitting = [family for family in FAMILIES if check.startswith(family.start)]
    return max(fitting, key=lambda family: len(family.start), default=None)


def lost_per_failure(units: int, detect: ValueSpan, restart: ValueSpan, checkpoint_hours: float) -> ValueSpan:
    """N (t_detect + t_restart + dt/2): all nodes wait, then half a checkpoint interval is computed again.

    256 GPUs, 10 min, 15 min and an hourly checkpoint: 234.7 GPU-hours.
    """
    return detect.plus(restart).plus(ValueSpan(checkpoint_hours / 2, checkpoint_hours / 2)).scaled(units)


def lost_to_straggler(units: int, hours: float, slowdown: ValueSpan) -> ValueSpan:
    """N t s: in synchronous training every rank waits for the slowest one, so all lose its share s."""
    return slowdown.scaled(units * hours)
