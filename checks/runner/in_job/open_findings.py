"""What checks on this node do to the open findings of the machine: a gate in a job opens what it found and closes what its pass
answers; checks whose verdict is made elsewhere settle what the node shows by itself.

Only a machine that is watched has such a file, and no gate makes one. That the file cannot be written stops no training: what is not
closed stays open, which is the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from checks import catalog
from checks.bundle import load_pass
from checks.documents.columns import measured_by_check
from checks.documents.open_findings import OpenFindings
from checks.documents.report import NodeReport
from checks.facts.builtin import builtin
from checks.judge.open_findings.prior_findings import moment
from checks.judge.open_findings.update import LatestEvidence, after_gate, after_pass, seen_on
from checks.judge.open_findings.view import seen_alone, view, watched
from checks.model import Finding, Report
from checks.policy import Policy
from checks.probes.host import machine, system
from checks.process import machine_state
from checks.process.stderr import log
from checks.runner.deadline import limited
from checks.value_types import DecodeError

# A disk that hangs, or a process that was stopped while it had the lock, must not stop the training.
WRITE_S = 2.0


def open_found(
    own: NodeReport, findings: Sequence[Finding], nodes: Mapping[str, int], subjects: Mapping[str, int]
) -> None:
    """Brings the open findings of this node up to date with the verdict. `own` is the report of this node, and `nodes` and `subjects`
    say how many measured each check in the whole job.
    """

    def changed(current: OpenFindings) -> OpenFindings:
        at, boot_id = moment(own.measured_at), own.node.identity.get("boot_id", "")
        measured = measured_by_check(own.observations)
        latest = seen_on(own.node.name, at, own.gate_id, boot_id, findings, measured, own.plan)
        return after_gate(current, replace(latest, nodes=nodes, subjects=subjects))

    _change(changed)


def settle_alone(policy: Policy, own: NodeReport) -> None:
    """Brings the open findings of this node up to date with what it shows by itself, by the rules of its watch: the verdict of these
    checks is made elsewhere and does not come back to this node.
    """
    _change(lambda current: after_gate(current, _seen_here(policy, own)))


def _seen_here(policy: Policy, own: NodeReport) -> LatestEvidence:
    names = {check.name for check in watched(catalog.CATALOG, policy)}
    plan = tuple(line for line in own.plan if line.check in names)
    observations = tuple(observation for observation in own.observations if observation.check in names)
    declared = replace(own.declared, nodes=1, node_names=(own.node.name,) if own.declared.node_names else ())
    report = Report(
        own.gate_id, own.node.attempt, own.measured_at, own.profile, declared, own.node.catalogue, plan, (own.node,), observations
    )  # fmt: skip
    seen_by, boot_id = view(policy, catalog.CATALOG), own.node.identity.get("boot_id", "")
    return seen_alone(report, seen_by, builtin(), moment(own.measured_at), own.gate_id, boot_id)


def close_answered(pass_path: Path) -> None:
    """Closes what the pass says about this machine, under whatever name it passed."""
    try:
        proven = load_pass(pass_path.read_bytes())
    except (OSError, DecodeError) as error:
        log(f"the pass cannot be read, so no open finding is closed: {error}")
        return
    boot_id = machine.boot_id(system.ROOT)
    for node in proven.nodes:
        at = moment(node.measured_at or proven.measured_at)
        if node.answered and boot_id and node.identity.get("boot_id") == boot_id and math.isfinite(at):
            _change(partial(after_pass, names=node.answered, gate_id=proven.gate_id, at=at))


def _change(make: Callable[[OpenFindings], OpenFindings]) -> None:
    state = machine_state.folder()

    def change() -> None:
        if (state / machine_state.FINDINGS).exists():
            machine_state.change(state, make)

    try:
        limited(WRITE_S, change)
    except (OSError, DecodeError) as error:
        log(f"the open findings of this machine stay as they are: {error}")
