"""What a gate on this node does to the open findings of the machine: it opens what it found, and closes what its pass answers.

Only a machine that is watched has such a file, and no gate makes one. That the file cannot be written stops no training: what is not
closed stays open, which is the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from checks.bundle import Pass, load_pass
from checks.documents.columns import by_check
from checks.documents.open_findings import OpenFindings
from checks.judge.open_findings.gate import moment, seen_by
from checks.judge.open_findings.update import after_gate, after_pass
from checks.model import Finding, Outcome, Report
from checks.probes.host import machine, system
from checks.process import machine_state
from checks.process.stderr import log
from checks.runner.deadline import limited
from checks.value_types import DecodeError

# A disk that hangs, or a process that was stopped while it had the lock, must not stop the training.
WRITE_S = 2.0


def open_found(name: str, report: Report, findings: Sequence[Finding]) -> None:
    """Brings the open findings of this node up to date with the verdict that it made."""
    node = next((node for node in report.nodes if node.name == name), None)
    if node is None:
        return
    rows = by_check([row for row in report.observations if row.outcome is Outcome.MEASURED])
    seen = seen_by(node, report, rows, findings)
    _change(lambda known: after_gate(known, seen))


def close_answered(pass_path: Path) -> None:
    """Closes what the pass says about this machine, under whatever name it passed."""
    try:
        proven = load_pass(pass_path.read_bytes())
    except (OSError, DecodeError) as error:
        log(f"the pass cannot be read, so no open finding is closed: {error}")
        return
    names, at = _answered_here(proven, machine.boot_id(system.ROOT)), moment(proven.measured_at)
    if names and math.isfinite(at):
        _change(lambda known: after_pass(known, names, proven.gate_id, at))


def _answered_here(proven: Pass, boot_id: str) -> frozenset[str]:
    mine = [node for node in proven.nodes if boot_id and node.identity.get("boot_id") == boot_id]
    return frozenset(name for node in mine for name in node.answered)


def _change(make: Callable[[OpenFindings], OpenFindings]) -> None:
    state = machine_state.folder()

    def change() -> None:
        if (state / machine_state.FINDINGS).exists():
            machine_state.change(state, make)

    try:
        limited(WRITE_S, change)
    except (OSError, DecodeError) as error:
        log(f"the open findings of this machine stay as they are: {error}")
