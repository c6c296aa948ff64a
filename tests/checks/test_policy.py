"""A policy that holds a check to nothing is refused where it is read, and of an optional check nothing may FAIL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.catalog import CATALOG
from checks.judge import reachability
from checks.judge.culprits import from_report
from checks.judge.rules.apply import apply
from checks.model import Declared, Level, Scope
from checks.model_details import DeclaredMachine
from checks.policy import CERTIFIABLE, JUDGED_BY_THE_ENGINE, CheckPolicy, Over, Rule, load
from checks.value_types import DecodeError
from tasks.gate_file.references import read_policy
from tests.sample_reports import POLICY, healthy, verdict_of, without_row

NVIDIA = Path(__file__).parents[2] / "deployments" / "policies" / "nvidia.toml"

SITE = {"name": "site", "instance_types": ["cpu"], "on_warn": "go", "max_unfit_fraction": 0.25}
RULE = {"metric": "wrong_elements", "equals": 0, "source": "the test"}


def line_of(name: str, **line: object) -> CheckPolicy:
    """The one line of a policy, as it is read."""
    return load({**SITE, "checks": {name: line}}).checks[name]


@pytest.mark.parametrize("line", [{}, {"scope": "rank"}, {"rules": []}, {"required": False}])
def test_a_line_without_rules_is_refused_by_name(line: dict[str, object]) -> None:
    """Whatever the check measures would be "within the policy"."""
    with pytest.raises(DecodeError, match=r"the entry of compute\.gemm has no rules") as raised:
        line_of("compute.gemm", **line)

    assert "checks.compute.gemm.rules" == raised.value.path


@pytest.mark.parametrize("name", JUDGED_BY_THE_ENGINE)
def test_policy_accepts_a_check_judged_by_the_engine_without_rules(name: str) -> None:
    """Its options are what it is held to."""
    assert () == line_of(name, options={"slow_ratio": 0.5}).rules


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
        line_of(name, rules=[RULE], valid_for=24)

    assert f"checks.{name}.valid_for" == raised.value.path


@pytest.mark.parametrize("hours", [-1, 169, 1e9])
def test_valid_for_is_at_most_a_week(hours: float) -> None:
    with pytest.raises(DecodeError):
        line_of("disk.io", rules=[RULE], valid_for=hours)

    assert 168.0 == line_of("disk.io", rules=[RULE], valid_for=168).valid_for


def test_no_policy_accepts_a_certified_check_without_a_certificate() -> None:
    with pytest.raises(DecodeError, match="say with valid_for"):
        line_of("disk.io", rules=[RULE], accept_skips=["certified by an earlier gate"])


def _made(required: bool, **rule: Any) -> CheckPolicy:
    return line_of("made.check", required=required, rules=[{"metric": "m", "source": "s", **rule}])


FAILING: tuple[dict[str, Any], ...] = (
    {"fail_below": 1.0},
    {"warn_above": 1.0, "fail_above": 2.0},
    {"fail_below": 0.5, "level": "WARN"},
    {"equals": 0},
    {"over": "cluster", "same": True},
    {"uniform": True},
    {"fact": "gpus"},
    {"equals": 0, "cause": "EVIDENCE"},
    {"over": "peers", "fail_below": 0.5},
    {"over": "expected", "expect": "memory", "warn_below": 0.9},
)


@pytest.mark.parametrize("rule", FAILING, ids=str)
def test_a_rule_that_can_fail_needs_a_required_check(rule: dict[str, Any]) -> None:
    """Named with its place and the remedy; required, the same rule is taken."""
    with pytest.raises(
        DecodeError, match=r"better result than a bad value.*Require the check, or let its rules WARN"
    ) as caught:
        _made(False, **rule)

    assert "checks.made.check.rules[0]" == caught.value.path
    assert _made(True, **rule).required


@pytest.mark.parametrize(
    "rule", [{"warn_below": 1.0}, {"equals": 0, "level": "WARN"}, {"over": "cluster", "same": True, "level": "WARN"},
             {"over": "fleet", "warn_above": 1.1}], ids=str
)  # fmt: skip
def test_policy_accepts_warnings_in_an_optional_check(rule: dict[str, Any]) -> None:
    """Its loss is a WARN too."""
    assert not _made(False, **rule).required


@pytest.mark.parametrize("name", JUDGED_BY_THE_ENGINE)
def test_policy_rejects_an_optional_check_that_the_engine_judges(name: str) -> None:
    """Hosts and links are condemned by these without any rule."""
    with pytest.raises(DecodeError, match="the engine itself judges") as caught:
        line_of(name, required=False)

    assert f"checks.{name}.required" == caught.value.path


def test_the_engine_judges_just_these() -> None:
    """The list is that of localise and of the decoder."""
    assert (reachability.REACHABILITY, reachability.PAIRS, *from_report.CHECKS) == JUDGED_BY_THE_ENGINE


@pytest.mark.parametrize("over", [Over.PEERS, Over.SLOWEST])
def test_a_comparison_that_breaks_is_no_worse_than_a_loss(over: Over) -> None:
    """A median of 0 on an optional check is a WARN; on a required one nobody can tell."""
    rule = Rule("gflops", "s", over, warn_above=1.5, min_peers=2)
    rows = [row for row in healthy(2, 2).observations if row.check == "training.step"]
    broken = [replace(row, metrics={**row.metrics, "gflops": 0.0}) for row in rows]
    for required, level in ((True, Level.FAIL), (False, Level.WARN)):
        line = CheckPolicy(required=required, rules=(rule,))
        assert {level} == {finding.level for finding in apply("training.step", line, broken, 4)}


def test_two_rows_of_an_optional_subject_are_no_worse_than_none() -> None:
    """Taking both away must not help."""
    report = healthy(2, 2)
    row = next(row for row in report.observations if row.check == "storage.write")
    doubled = replace(report, observations=(*report.observations, row))

    assert not POLICY.checks["storage.write"].required
    assert [Level.WARN] * 2 == [
        verdict_of(doubled).level, verdict_of(without_row(report, row.check, row.subject)).level
    ]  # fmt: skip
