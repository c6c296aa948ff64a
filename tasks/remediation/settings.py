"""What a gate file allows, in the terms of remediation, and the back end that it names."""

from __future__ import annotations

from tasks.gate_file.model import Gate
from tasks.machines.base import Machines, Rung
from tasks.machines.registry import machines_for
from tasks.remediation.model import Limits, RepairMode, RepairSettings

MINUTE_S = 60.0


def settings_of(gate: Gate) -> RepairSettings:
    """The mode, the repairs that need no question, and the limits."""
    table = gate.remediation
    limits = Limits(
        max_out_fraction=table.max_out_fraction,
        max_verdict_s=table.max_verdict_minutes * MINUTE_S,
        breaker_acts=table.breaker_acts,
        breaker_s=table.breaker_minutes * MINUTE_S,
    )
    return RepairSettings(RepairMode(table.mode), tuple(Rung(act) for act in table.acts), limits)


def machines_of(gate: Gate) -> Machines:
    """The back end that the gate file names. Raises UnknownMachines."""
    return machines_for(gate.remediation.machines, dict(gate.remediation.options), gate.cluster.launcher)
