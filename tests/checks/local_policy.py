"""What deployments/policies/local.toml makes of given metrics, and of recorded reports."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from checks import policy
from checks.bundle import Bundle
from checks.documents import report as reports
from checks.judge.rules import apply
from checks.model import Finding, FindingKind, Observation, Outcome, Report, Value
from checks.roster import Member, Roster
from checks.runner.node_context import NodeContext, write_node_context

LOCAL = Path(__file__).parents[2] / "deployments/policies/local.toml"
SILENT_NODE = Path(__file__).parents[1] / "recordings" / "silent_node"


def local_policy() -> policy.Policy:
    return policy.load(tomllib.loads(LOCAL.read_text(encoding="utf-8")))


def silent_node(name: str) -> tuple[Report, policy.Policy]:
    """A recorded gate of two nodes on one machine, and the entries of its own checks. In all but "busy" the second node's process was
    ended with SIGKILL.
    """
    report = reports.load((SILENT_NODE / f"{name}.json").read_bytes())
    local, planned = local_policy(), {one.check for one in report.plan}
    entries = {check: line for check, line in local.checks.items() if check in planned}
    return report, replace(local, checks=entries)


def findings(check: str, *metrics: Mapping[str, Value]) -> list[Finding]:
    """The findings about each rank's metrics ("node-0/rank-0" ...), but those of a rule that cannot read."""
    rows = [
        Observation(check, f"node-0/rank-{rank}", Outcome.MEASURED, 1.0, values)
        for rank, values in enumerate(metrics)
    ]
    line = local_policy().checks[check]
    found = apply.apply(check, line, rows, len(rows))
    heard = dict.fromkeys(found)  # as the verdict does: equal findings are one
    return [finding for finding in heard if finding.kind is not FindingKind.NOT_MEASURED]


def verdicts(check: str, *metrics: Mapping[str, Value]) -> list[tuple[str, str, str]]:
    """(level, cause, metric) of each finding."""
    return [
        (finding.level.value, finding.cause.value, finding.metric) for finding in findings(check, *metrics)
    ]


def lone_node(folder: Path, made: Bundle) -> NodeContext:
    """node-0, which is alone in the gate of this bundle; its files lie in the folder."""
    roster = Roster((Member("node-0", "127.0.0.1", 1000),), 2000, "lo")
    return write_node_context(folder, made, roster, "node-0")
