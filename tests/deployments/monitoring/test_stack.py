"""The CloudFormation stack for Amazon's Prometheus and Grafana, by cfn-lint, promtool and amtool; it was never deployed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.monitoring.config import SHIPPED
from tests.deployments.monitoring.test_rules import input_series, promtool, require_success, tried


class Template(yaml.SafeLoader):
    """YAML with the short forms of CloudFormation's functions, as {"!Name": value}."""


def _function(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {f"!{tag}": loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {f"!{tag}": loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {f"!{tag}": loader.construct_mapping(node, deep=True)}


Template.add_multi_constructor("!", _function)
STACK: dict[str, Any] = yaml.load((SHIPPED / "cluster-observability.yaml").read_text(), Loader=Template)
RESOURCES: dict[str, Any] = STACK["Resources"]


def test_cfn_lint_has_nothing_to_say() -> None:
    """Not even a warning."""
    program = Path(sys.executable).parent / "cfn-lint"
    words = (program, "--non-zero-exit-code", "informational", SHIPPED / "cluster-observability.yaml")
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stdout)


@pytest.mark.needs("promtool")
def test_the_rules_inside_of_the_template_work(tmp_path: Path) -> None:
    """cfn-lint does not look into them. Nothing arrives, or nothing of one cluster; and while all is well they are quiet."""
    rules = yaml.safe_load(RESOURCES["SilenceRules"]["Properties"]["Data"])
    (tmp_path / "shipped.yml").write_text(yaml.safe_dump(rules))
    for rule in rules["groups"][0]["rules"]:
        del rule["annotations"]

    def situation(c: str, d: str, alerts: Mapping[str, list[dict[str, str]]]) -> dict[str, object]:
        series = {f'up{{job="prelaunch-watch",cluster="{n}",node="n"}}': up for n, up in (("c", c), ("d", d))}
        due = {name: [{"exp_labels": one} for one in labels] for name, labels in alerts.items()}
        wanted = [{"eval_time": "10m", "alertname": name, "exp_alerts": rows} for name, rows in due.items()]
        return {"interval": "15s", "input_series": input_series(series), "alert_rule_test": wanted}

    silent = {"notify": "on-call"}
    both = [{"cluster": name, **silent} for name in "cd"]
    nothing = {"job": "prelaunch-watch", **silent}
    tests = [
        situation("1x60", "0x60", {"PrelaunchNothingArrives": [], "PrelaunchClusterSilent": []}),
        situation("1x60", "1x8 stale", {"PrelaunchNothingArrives": [], "PrelaunchClusterSilent": both[1:]}),
        situation("1x8 stale", "1x8 stale", {"PrelaunchNothingArrives": [nothing], "PrelaunchClusterSilent": both}),
    ]  # fmt: skip

    require_success(promtool("check", "rules", tmp_path / "shipped.yml"))
    require_success(tried(tmp_path, yaml.safe_dump(rules), tests))


@pytest.mark.needs("amtool")
def test_the_alertmanager_inside_of_the_template_is_one(tmp_path: Path) -> None:
    """Amazon's outer key apart, and with the names filled in."""
    text = RESOURCES["Workspace"]["Properties"]["AlertManagerDefinition"]["!Sub"]
    filled = text.replace("${OnCallTopic}", "arn:aws:sns:us-west-2:123456789012:t")
    filled = filled.replace("${AWS::Region}", "us-west-2")
    (tmp_path / "am.yml").write_text(yaml.safe_load(filled)["alertmanager_config"])
    done = subprocess.run(("amtool", "check-config", tmp_path / "am.yml"), capture_output=True, text=True)

    assert 0 == done.returncode, done.stdout + done.stderr


def test_the_outputs_are_those_that_installers_ask_for() -> None:
    """The names of the HyperPod samples, and the words by which they find the stack."""
    assert {"AMPRemoteWriteURL", "Region", "GrafanaWorkspaceURL"} <= set(STACK["Outputs"])
    assert "monitor sagemaker hyperpod" in STACK["Description"]
    assert ["AWS_SSO"] == RESOURCES["Grafana"]["Properties"]["AuthenticationProviders"]
    assert ["PROMETHEUS"] == RESOURCES["Grafana"]["Properties"]["DataSources"]
    assert "role=ADMIN" in json.dumps(STACK["Outputs"]["GrafanaAdminCommand"])


def statements(value: object) -> list[dict[str, Any]]:
    """Every statement of a policy in the template."""
    if isinstance(value, Mapping):
        own = value.get("Statement")
        found = list(own) if isinstance(own, list) else []
        return found + [one for item in value.values() for one in statements(item)]
    return [one for item in value for one in statements(item)] if isinstance(value, list) else []


def test_the_policies_grant_no_more_than_is_used() -> None:
    """Writing, and nothing that reads, for the cluster; reading for Grafana. Only the list of workspaces has no resource."""
    found = statements(RESOURCES)
    actions = [one["Action"] if isinstance(one["Action"], list) else [one["Action"]] for one in found]

    assert {
        "aps:RemoteWrite", "aps:ListWorkspaces", "aps:DescribeWorkspace", "aps:QueryMetrics", "aps:GetLabels", "aps:GetSeries",
        "aps:GetMetricMetadata", "cloudformation:DescribeStacks", "sns:Publish", "sns:GetTopicAttributes", "sts:AssumeRole",
    } == {action for row in actions for action in row}  # fmt: skip
    everywhere = [row for row, one in zip(actions, found, strict=True) if one.get("Resource") == "*"]
    assert [["aps:ListWorkspaces"]] == everywhere
    writes = [one["Action"] for one in statements(RESOURCES["WritePolicy"])]
    assert ["aps:RemoteWrite", "cloudformation:DescribeStacks"] == writes
    assert all("Condition" in one for one in found if "Principal" in one)
