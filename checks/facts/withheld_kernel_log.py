"""Engines that withhold the kernel log: which checks read it, and which checks replace it (tables).

The declaration says whether it is withheld (`Declared.kernel_log`, from the table in tasks/launchers/registry.py). If it is, a check
that reads the log may be skipped, and each check of STAND_INS that applies to the declared machines is required, in every profile,
whatever the policy says about skips. If the log is declared readable, none of this applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from checks.model import Declared, KernelLog, MachinePart, Skip

# The variable that put a file in place of a node's log, and the metric that says whether the log is the machine's own.
FILE_VARIABLE = "PRELAUNCH_KERNEL_LOG"
OWN_SOURCE = "own_source"
READERS = ("kernel.hardware", "kernel.xid", "kernel.sxid")
# The reasons that a container without the log gives. A check that ends in any other way is missing evidence, as always.
ACCEPTED = (Skip.NOT_PERMITTED, Skip.TOOL_MISSING)


@dataclass(frozen=True)
class StandIn:
    """A check that replaces the log: the part that it tests, and whether it is only planned if the log is withheld."""

    machine_part: MachinePart
    only: bool = False


STAND_INS: Mapping[str, StandIn] = {
    "gpu.inventory": StandIn(MachinePart.GPU),
    "gpu.start_and_end": StandIn(MachinePart.GPU, only=True),
    "gpu.xid_events": StandIn(MachinePart.GPU, only=True),
    "gpu.recovery_action": StandIn(MachinePart.GPU),
    "gpu.ecc": StandIn(MachinePart.GPU),
    "gpu.row_remap": StandIn(MachinePart.GPU),
    "gpu.nvlink": StandIn(MachinePart.NVLINK),
    "dcgm.xid_events": StandIn(MachinePart.GPU, only=True),
    "dcgm.health": StandIn(MachinePart.GPU),
    "dcgm.policy": StandIn(MachinePart.GPU),
    "neuron.devices": StandIn(MachinePart.NEURON),
    "neuron.ecc": StandIn(MachinePart.NEURON),
    "neuron.runtime": StandIn(MachinePart.NEURON, only=True),
    "system.error_counters": StandIn(MachinePart.ANY, only=True),
}

# What the stand-ins cannot show, and who says so. The maintainers of DCGM: Xid 79, 119 and 120 do not reach it, for a
# limit of NVML's (issue 162); a user's Xid 62 was in the kernel's log alone (issue 235).
SOURCE = "NVIDIA/DCGM issues 162 and 235 on GitHub"
CANNOT_SHOW: Mapping[MachinePart, str] = {
    MachinePart.GPU: "They cannot show SXids, disk errors or what happened before the job, and NVML and DCGM miss Xid 62, 79, "
    "119 and 120 at times.",
    MachinePart.NEURON: "They cannot show disk errors, or what happened before the job and left no counter.",
    MachinePart.ANY: "They cannot show disk errors, machine checks that no counter shows, or what happened before the job.",
}


def required(check: str, declared: Declared) -> bool:
    """Whether the check replaces a log that is declared withheld. Its part may still not be there."""
    return declared.kernel_log is KernelLog.WITHHELD and check in STAND_INS


def needless(check: str, declared: Declared) -> bool:
    """Whether the check is only there to replace a log, and the log is declared readable."""
    return check in STAND_INS and STAND_INS[check].only and declared.kernel_log is KernelLog.READABLE


def accepts(check: str, skip: Skip | None, declared: Declared) -> bool:
    """Whether the check may be skipped for this reason because the engine withholds what it reads."""
    return declared.kernel_log is KernelLog.WITHHELD and check in READERS and skip in ACCEPTED


def note(nodes: int, declared: Declared, measured: Iterable[str], neuron: bool) -> str:
    """The note of a verdict on `nodes` whose log could not be read; `measured` are the stand-ins with an observation."""
    device = MachinePart.NEURON if neuron else MachinePart.ANY
    device = MachinePart.GPU if declared.gpus_per_node else device
    names = ", ".join(measured) or "nothing"
    where = f"{nodes} of {declared.nodes} nodes" if declared.nodes > 1 else "the node"
    return (
        f"The kernel log of {where} could not be read: this launcher's jobs cannot read it. "
        f"Observed in its place: {names}. {CANNOT_SHOW[device]}"
    )
