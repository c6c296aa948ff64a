"""A policy that cannot judge what the gate file plans is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate.context import open_gate_context
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import GateRequest
from tests.flows.gates import write_gate


def test_all_checks_that_a_policy_lacks_are_named_at_once(tmp_path: Path) -> None:
    """One at a time would take as many rounds as there are checks; the whole policy is taken."""
    gate = write_gate(tmp_path)
    open_gate_context(GateRequest(gate_file=str(gate)))
    (tmp_path / "policy.toml").write_text(
        'name = "own"\ninstance_types = ["cpu"]\non_warn = "go"\nmax_unfit_fraction = 0.25\n'
        '[checks."system.clock"]\nrules = [{ metric = "year", fail_below = 2026, source = "s", remedy = "r" }]\n',
        encoding="utf-8",
    )

    with pytest.raises(GateFileError, match=r"the checks system.identity, system.resources, .* and \d+ more"):
        open_gate_context(GateRequest(gate_file=str(gate)))
