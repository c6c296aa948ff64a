"""A policy that cannot judge what the gate file plans is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import catalog
from tasks.gate.context import open_gate_context
from tasks.gate_file.machines import unfit_line
from tasks.gate_file.read import GateFileError
from tasks.gate_file.references import read_policy
from tasks.gate_file.request import GateRequest
from tests.flows.gates import write_gate

POLICIES = Path(__file__).parents[3] / "deployments" / "policies"


def test_gate_file_error_names_all_checks_that_the_policy_lacks(tmp_path: Path) -> None:
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


def test_a_rule_for_what_its_check_does_not_measure_is_refused(tmp_path: Path) -> None:
    """Every gate would end as CANNOT TELL. A site's own check may measure more than it must."""
    gate = write_gate(tmp_path)
    policy = tmp_path / "policy.toml"
    text = policy.read_text(encoding="utf-8")
    wrong = text.replace('metric = "wrong_elements"', 'metric = "wrong_element"', 1)
    policy.write_text(wrong, encoding="utf-8")

    said = "has a rule for wrong_element of check compute.gemm, which measures no such thing: did you mean wrong_elements"
    with pytest.raises(GateFileError, match=said):
        open_gate_context(GateRequest(gate_file=str(gate)))


def test_the_rules_of_the_shipped_policies_are_about_what_checks_measure() -> None:
    """A rule for what nobody measures would never be applied."""
    known = {check.name: check for check in catalog.CATALOG}
    for path in sorted(POLICIES.glob("*.toml")):
        for name, line in read_policy(path).checks.items():
            assert unfit_line(known[name], line) == "", path.name


def test_a_policy_that_is_not_there_is_a_mistake_of_the_gate_file(tmp_path: Path) -> None:
    """It names the gate file, the line of its key, and the nearest file; a path that does not exist is no place of an error."""
    gate = write_gate(tmp_path)
    text = gate.read_text(encoding="utf-8").replace('"policy.toml"', '"polcy.toml"')
    gate.write_text(text, encoding="utf-8")
    with pytest.raises(GateFileError) as caught:
        open_gate_context(GateRequest(gate_file=str(gate)))

    assert (str(gate), "policy.file", "policy.toml") == (
        caught.value.file,
        caught.value.path,
        caught.value.nearest,
    )
    assert caught.value.line == text[: text.index('"polcy.toml"')].count("\n") + 1
    assert str(tmp_path / "polcy.toml") in caught.value.message


def test_a_policy_that_is_wrong_says_whose_it_is(tmp_path: Path) -> None:
    """Its own line, and the gate file that names it."""
    gate = write_gate(tmp_path)
    policy = tmp_path / "policy.toml"
    policy.write_text(policy.read_text(encoding="utf-8").replace("on_warn", "on_wran", 1), encoding="utf-8")
    with pytest.raises(GateFileError) as caught:
        open_gate_context(GateRequest(gate_file=str(gate)))

    assert (str(policy), "on_wran") == (caught.value.file, caught.value.path)
    assert caught.value.line is not None and f"the [policy] file of {gate}" in str(caught.value)
