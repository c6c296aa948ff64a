"""A policy that holds a check to nothing is refused where it is read, and of an optional check nothing may FAIL."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks import policy
from checks.catalog import CATALOG
from checks.documents.columns import CheckTable
from checks.judge import completeness, reachability
from checks.judge.culprits import from_report
from checks.judge.rules.apply import apply
from checks.model import Declared, Level, Observation, Outcome, Planned, Scope, Value
from checks.model_details import DeclaredMachine
from checks.policy import CERTIFIABLE, JUDGED_BY_THE_ENGINE, CheckPolicy, Over, Rule, load
from checks.value_types import DecodeError
from tasks.gate_file.references import read_policy
from tests.sample_reports import POLICY, healthy, verdict_of, with_metric, without_row

NVIDIA = Path(__file__).parents[2] / "deployments" / "policies" / "nvidia.toml"

SITE = {"name": "site", "instance_types": ["cpu"], "on_warn": "go", "max_unfit_fraction": 0.25}
RULE = {"metric": "wrong_elements", "equals": 0, "source": "the test"}

SHIPPED = sorted((Path(__file__).resolve().parents[2] / "deployments" / "policies").glob("*.toml"))
BASE: dict[str, Any] = {"metric": "m", "source": "s"}


@pytest.mark.parametrize("line", [{}, {"scope": "rank"}, {"rules": []}, {"required": False}])
def test_a_line_without_rules_is_refused_by_name(line: dict[str, object]) -> None:
    """Whatever the check measures would be "within the policy"."""
    with pytest.raises(DecodeError, match=r"the entry of compute\.gemm has no rules") as raised:
        load({**SITE, "checks": {"compute.gemm": line}})

    assert "checks.compute.gemm.rules" == raised.value.path


def test_a_line_with_a_rule_is_taken() -> None:
    """The remedy that the refusal names."""
    made = load({**SITE, "checks": {"compute.gemm": {"rules": [RULE]}}})

    assert 1 == len(made.checks["compute.gemm"].rules)


@pytest.mark.parametrize("name", JUDGED_BY_THE_ENGINE)
def test_policy_accepts_a_check_judged_by_the_engine_without_rules(name: str) -> None:
    """Its options are what it is held to."""
    made = load({**SITE, "checks": {name: {"options": {"slow_ratio": 0.5}}}})

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
        load({**SITE, "checks": {name: {"rules": [RULE], "valid_for": 24}}})

    assert f"checks.{name}.valid_for" == raised.value.path


@pytest.mark.parametrize("hours", [-1, 169, 1e9])
def test_valid_for_is_at_most_a_week(hours: float) -> None:
    with pytest.raises(DecodeError):
        load({**SITE, "checks": {"disk.io": {"rules": [RULE], "valid_for": hours}}})

    assert (
        168.0
        == load({**SITE, "checks": {"disk.io": {"rules": [RULE], "valid_for": 168}}})
        .checks["disk.io"]
        .valid_for
    )


def test_no_policy_accepts_a_certified_check_without_a_certificate() -> None:
    line = {"rules": [RULE], "accept_skips": ["certified by an earlier gate"]}
    with pytest.raises(DecodeError, match="say with valid_for"):
        load({**SITE, "checks": {"disk.io": line}})


def _table(required: bool, name: str = "made.check", **rule: Any) -> dict[str, Any]:
    rules = [{**BASE, **rule}] if rule else []
    return {
        "name": "x", "instance_types": ["cpu"], "on_warn": "go", "max_unfit_fraction": 0.25,
        "checks": {name: {"required": required, "rules": rules}},
    }  # fmt: skip


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
        policy.load(_table(False, **rule))

    assert "checks.made.check.rules[0]" == caught.value.path
    assert policy.load(_table(True, **rule)).checks["made.check"].required


@pytest.mark.parametrize(
    "rule", [{"warn_below": 1.0}, {"equals": 0, "level": "WARN"}, {"over": "cluster", "same": True, "level": "WARN"},
             {"over": "fleet", "warn_above": 1.1}], ids=str
)  # fmt: skip
def test_policy_accepts_warnings_in_an_optional_check(rule: dict[str, Any]) -> None:
    """Its loss is a WARN too."""
    assert not policy.load(_table(False, **rule)).checks["made.check"].required


@pytest.mark.parametrize("name", JUDGED_BY_THE_ENGINE)
def test_policy_rejects_an_optional_check_that_the_engine_judges(name: str) -> None:
    """Hosts and links are condemned by these without any rule."""
    with pytest.raises(DecodeError, match="the engine itself judges") as caught:
        policy.load(_table(False, name))

    assert f"checks.{name}.required" == caught.value.path


def test_the_engine_judges_just_these() -> None:
    """The list is that of localise and of the decoder."""
    assert (reachability.REACHABILITY, reachability.PAIRS, *from_report.CHECKS) == JUDGED_BY_THE_ENGINE


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_shipped_policies_let_nothing_off(path: Path) -> None:
    """Each is read as an operator's own would be."""
    assert policy.load(tomllib.loads(path.read_text(encoding="utf-8"))).checks


@pytest.mark.parametrize("over", [Over.PEERS, Over.SLOWEST])
def test_a_comparison_that_breaks_is_no_worse_than_a_loss(over: Over) -> None:
    """A median of 0 on an optional check is a WARN; on a required one nobody can tell."""
    rule = Rule("gflops", "s", over, warn_above=1.5, min_peers=2)
    rows = [row for row in healthy(2, 2).observations if row.check == "training.step"]
    zero = [with_metric(healthy(2, 2), row.check, row.subject, "gflops", 0.0) for row in rows]
    broken = [next(r for r in made.observations if (r.check, r.subject) == (row.check, row.subject))
              for made, row in zip(zero, rows, strict=True)]  # fmt: skip
    levels = [
        {
            finding.level
            for finding in apply("training.step", CheckPolicy(required=required, rules=(rule,)), broken, 4)
        }
        for required in (True, False)
    ]

    assert [{Level.FAIL}, {Level.WARN}] == levels


def test_two_rows_of_an_optional_subject_are_no_worse_than_none() -> None:
    """Taking both away must not help."""
    report = healthy(2, 2)
    row = next(row for row in report.observations if row.check == "storage.write")
    doubled = replace(report, observations=(*report.observations, row))

    assert not POLICY.checks["storage.write"].required
    assert [Level.WARN] * 2 == [
        verdict_of(doubled).level, verdict_of(without_row(report, row.check, row.subject)).level
    ]  # fmt: skip


def test_a_list_that_is_compared_place_by_place_is_as_long_as_the_labels_of_its_check() -> None:
    """A slow second device that falls off the list would else be nobody's."""
    line = CheckPolicy(
        rules=(Rule("lost", "s", equals=0, each="pairs"), Rule("rate_gbps", "s", Over.PEERS, warn_below=0.5))
    )
    metrics: dict[str, Value] = {"pairs": ("a", "b"), "lost": (0, 0), "rate_gbps": (9.0,)}
    rows = CheckTable.collect(
        "made.check", (Observation("made.check", "node-0", Outcome.MEASURED, 1.0, metrics),)
    )
    planned = Planned("made.check", Scope.NODE, ("pairs", "lost", "rate_gbps"))
    found = [*completeness.judge_lists(planned, rows, healthy(1, 2).declared, line)]

    assert ["not measured: rate_gbps has 1 values for 2 pairs"] == [finding.message for finding in found]
