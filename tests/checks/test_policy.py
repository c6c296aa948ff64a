"""A policy that holds a check to nothing is refused, where a policy is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.catalog import CATALOG
from checks.model import Declared, Scope
from checks.model_details import DeclaredMachine
from checks.policy import CERTIFIABLE, JUDGED_BY_THE_ENGINE, load
from checks.value_types import DecodeError
from tasks.gate_file.references import read_policy

NVIDIA = Path(__file__).parents[2] / "deployments" / "policies" / "nvidia.toml"

POLICY = {"name": "site", "instance_types": ["cpu"], "on_warn": "go", "max_unfit_fraction": 0.25}
RULE = {"metric": "wrong_elements", "equals": 0, "source": "the test"}


@pytest.mark.parametrize("line", [{}, {"scope": "rank"}, {"rules": []}, {"required": False}])
def test_a_line_without_rules_is_refused_by_name(line: dict[str, object]) -> None:
    """Whatever the check measures would be "within the policy"."""
    with pytest.raises(DecodeError, match=r"the entry of compute\.gemm has no rules") as raised:
        load({**POLICY, "checks": {"compute.gemm": line}})

    assert "checks.compute.gemm.rules" == raised.value.path


def test_a_line_with_a_rule_is_taken() -> None:
    """The remedy that the refusal names."""
    made = load({**POLICY, "checks": {"compute.gemm": {"rules": [RULE]}}})

    assert 1 == len(made.checks["compute.gemm"].rules)


@pytest.mark.parametrize("name", JUDGED_BY_THE_ENGINE)
def test_policy_accepts_a_check_judged_by_the_engine_without_rules(name: str) -> None:
    """Its options are what it is held to."""
    made = load({**POLICY, "checks": {name: {"options": {"slow_ratio": 0.5}}}})

    assert () == made.checks[name].rules


def test_rules_for_listed_types_are_left_out_for_machines_of_ones_own() -> None:
    """The driver of EC2's network interfaces, and its MTU, are no matter of somebody's own data centre; all others hold."""
    policy = read_policy(NVIDIA)
    known = policy.for_machines(Declared("p5.48xlarge", 2, 8, 8))
    own = policy.for_machines(Declared("hgx-h100", 2, 8, 8, machine=DeclaredMachine("H100 80GB HBM3")))
    left_out = {
        (name, rule.metric)
        for name, line in policy.checks.items()
        for rule in line.rules
        if rule not in own.checks[name].rules
    }

    assert known == policy
    assert {("network.mtu", "interface_mtu_bytes"), ("network.counters", "allowance_counters")} == left_out
    mtu = [rule.same for rule in own.checks["network.mtu"].rules if rule.metric == "interface_mtu_bytes"]
    assert [True] == mtu, "one MTU on all nodes is required everywhere"


def test_a_certificate_may_stand_for_costly_checks_of_one_node_alone() -> None:
    """Everything that is cheap, and the kernel log, the inventory, identities and what nodes do together, is always measured."""
    certifiable = [check for check in CATALOG if check.name in CERTIFIABLE]

    assert {*CERTIFIABLE} == {check.name for check in certifiable}
    for check in certifiable:
        assert (Scope.NODE, 1) == (check.scope, check.min_nodes)
        assert check.cost in ("seconds", "minutes")
        assert not check.closing
        assert not check.beside_job
        assert not check.name.startswith(("kernel.", "gpu.", "network.", "system."))


@pytest.mark.parametrize(
    "name",
    ["kernel.xid", "gpu.inventory", "system.identity", "network.reachability", "nccl.all_reduce", "site.own"],
)
def test_valid_for_is_refused_where_it_would_have_no_effect(name: str) -> None:
    with pytest.raises(DecodeError, match="is measured at every gate") as raised:
        load({**POLICY, "checks": {name: {"rules": [RULE], "valid_for": 24}}})

    assert f"checks.{name}.valid_for" == raised.value.path


@pytest.mark.parametrize("hours", [-1, 169, 1e9])
def test_valid_for_is_at_most_a_week(hours: float) -> None:
    with pytest.raises(DecodeError):
        load({**POLICY, "checks": {"disk.io": {"rules": [RULE], "valid_for": hours}}})

    assert (
        168.0
        == load({**POLICY, "checks": {"disk.io": {"rules": [RULE], "valid_for": 168}}})
        .checks["disk.io"]
        .valid_for
    )


def test_no_policy_accepts_a_certified_check_without_a_certificate() -> None:
    line = {"rules": [RULE], "accept_skips": ["certified by an earlier gate"]}
    with pytest.raises(DecodeError, match="say with valid_for"):
        load({**POLICY, "checks": {"disk.io": line}})
