"""Healthy nodes of each driver branch: the checks' own bodies over a stand-in for NVML that knows what a driver knows.

Constructed from NVML's change log and from captures of nvidia-smi (checks/facts/drivers.json); no machine was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from checks.check import Check
from checks.facts.builtin import builtin
from checks.model import Node, Observation, Outcome, Planned, Profile, Report, Value
from checks.probes.gpu import inventory, state
from tests.corpus.case import context, declared, observed
from tests.corpus.gpu_machines import COUNTS, TYPES
from tests.fakes import gpu_node

# What AWS's images have today, one release of each branch.
DRIVERS = ("535.183.01", "550.163.01", "570.133.20", "580.105.08")
NODE_CHECKS: tuple[Check, ...] = (
    state.memory, state.processes, state.power, state.modes, state.fabric, state.ecc, state.row_remap,
    state.retired_pages,
    state.recovery_action,
)  # fmt: skip
NODE = "node-0"


def observations(folder: Path, driver: str, model: str = "H100", **dials: object) -> tuple[Observation, ...]:
    """What every check that reads NVML on a node sees of a healthy one with this driver."""
    count = COUNTS[model]
    kind = TYPES[model]
    dials = {"driver": driver, "model": model, "gpus": count, "cuda": count, **dials}
    with gpu_node.gpu_node(folder, proc=count, dev=count, **dials) as root:
        checks = [check for check in NODE_CHECKS if model in ("H100", "B200") or check is not state.fabric]
        rows = [observed(check, context(check, folder, kind), NODE)[0] for check in checks]
        measured = inventory.measure(root, count, builtin().instances[kind].gpu, 20.0)
    seen = Observation(
        "gpu.inventory", NODE, Outcome.MEASURED, 1.0, measured.metrics, evidence=measured.evidence
    )
    return (seen, *rows)


def report_of(
    rows: tuple[Observation, ...], model: str = "H100", *, identity: Mapping[str, str] | None = None
) -> Report:
    """A report of one node in which these rows were planned."""
    checks = {check.name: check for check in (*NODE_CHECKS, inventory.inventory)}
    plan = tuple(Planned(row.check, checks[row.check].scope, checks[row.check].metrics, None) for row in rows)
    said = replace(declared(TYPES[model]), ranks_per_node=1)
    node = Node(NODE, 0, "one", "", True, dict(identity or {}))
    return Report("drivers", "one", "2026-11-01T00:00:00Z", Profile.STANDARD, said, "", plan, (node,), rows)


def changed(rows: tuple[Observation, ...], check: str, **metrics: Value) -> tuple[Observation, ...]:
    """The rows with these metrics of one check replaced."""
    return tuple(
        replace(row, metrics={**row.metrics, **metrics}) if row.check == check else row for row in rows
    )
