"""A re-test measures everything itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from checks.model import Profile
from tasks.gate.context import open_gate_context
from tasks.gate_file.request import GateRequest
from tasks.machines.base import Retest
from tasks.retest import retest_context
from tests.flows.gates import write_gate


def test_no_certificate_stands_for_a_check_of_a_retest(tmp_path: Path) -> None:
    """Its other nodes would lack what they skip, and then it proves nothing."""
    setting = open_gate_context(GateRequest(gate_file=str(write_gate(tmp_path))))
    case: Any = SimpleNamespace(gate_id="g1", node="node-0", profile=Profile.QUICK)

    assert setting.certifies
    assert not retest_context(setting, case, Retest(("node-0", "node-1"), {})).certifies
