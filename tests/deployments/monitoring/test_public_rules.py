"""The same situations under the rules of published guides, with the counters that dcgm-exporter exports by default.

docs/monitoring.md has the result as a table; UPDATE_GOLDEN=1 writes it again.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from tests.deployments.monitoring.rule_cases import SITUATIONS, without
from tests.deployments.monitoring.test_rules import promtool

RULES = Path(__file__).with_name("public_rules.yml")
ALERTS = ("Xid", "UncorrectableEcc", "HealthyGpus", "TargetDown")
PAGE = Path(__file__).parents[3] / "docs" / "monitoring.md"
BEGIN, END = "| situation | published rules | Prelaunch |\n| --- | --- | --- |\n", "\n\n"
# In all others nothing of theirs fires.
THEIRS: dict[str, set[str]] = {
    "an exporter stopped": {"TargetDown"},
    "the watch stopped": {"TargetDown"},
    "Slurm's exporter stopped": {"TargetDown"},
    "the EFA exporter stopped": {"TargetDown"},
    "a node is cut off": {"TargetDown"},
    "all nodes of a cluster are down": {"TargetDown"},
    "three of four nodes are down: each is named": {"TargetDown"},
    "an Xid, after which the GPU was reset": {"Xid", "HealthyGpus"},
}


def fired(folder: Path) -> dict[str, set[str]]:
    """Which of their rules fire in which situation; promtool says what it got where nothing is expected."""
    tests = [
        {
            "name": one.name,
            "interval": "15s",
            "input_series": [
                {"series": key, "values": values}
                for key, values in without(one.series, "^DCGM_FI_DEV_ECC").items()
            ],
            "alert_rule_test": [{"eval_time": "8m", "alertname": name, "exp_alerts": []} for name in ALERTS],
        }
        for one in SITUATIONS
    ]
    test = {"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": tests}
    (folder / "test.yml").write_text(yaml.safe_dump(test, width=500))
    done = promtool("test", "rules", folder / "test.yml")
    found: dict[str, set[str]] = {}
    for name, alert in re.findall(r"name: (.+),\n\s+alertname: (\w+), time: 8m", done.stdout + done.stderr):
        found.setdefault(name, set()).add(alert)
    assert bool(found) == bool(done.returncode), done.stdout + done.stderr
    return found


@pytest.mark.needs("promtool")
def test_what_their_rules_say_of_each_situation(tmp_path: Path) -> None:
    """A target that is down they see, where somebody added that rule; nearly nothing else."""
    assert THEIRS == fired(tmp_path)
    assert set(THEIRS) <= {one.name for one in SITUATIONS}


@pytest.mark.needs("promtool")
def test_their_rules_can_fire(tmp_path: Path) -> None:
    """With the counters that the defaults lack, the one about memory errors does too."""
    text = RULES.read_text()
    assert 0 == promtool("check", "rules", RULES).returncode
    assert all(f"alert: {name}" in text for name in ALERTS)
    [error] = [one for one in SITUATIONS if "double-bit" in one.name]

    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": key, "values": values} for key, values in error.series.items()],
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{alertname="UncorrectableEcc", alertstate="firing"})',
                        "eval_time": "4m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    }
                ],
            }
        ],
    }
    (tmp_path / "ecc.yml").write_text(yaml.safe_dump(test, width=500))
    done = promtool("test", "rules", tmp_path / "ecc.yml")

    assert 0 == done.returncode, done.stdout + done.stderr


def table() -> str:
    """The rows of the page."""
    rows = []
    for one in SITUATIONS:
        theirs = ", ".join(name for name in ALERTS if name in THEIRS.get(one.name, ())) or "nothing"
        ours = ", ".join(dict.fromkeys(name for name, _ in one.alerts)) or "nothing"
        rows.append(f"| {one.name} | {theirs} | {ours} |")
    return "\n".join(rows)


def test_the_page_has_the_result() -> None:
    """Row by row."""
    text = PAGE.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    rows, _, after = rest.partition(END)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(f"{before}{begin}{table()}{END}{after}", encoding="utf-8")
        rows = table()

    assert begin and table() == rows
