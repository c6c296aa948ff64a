"""The policies that travel with the node checks are those that people edit, and the list of checks is that of the catalogue."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from checks.catalog import CATALOG, WATCH_ONLY
from checks.cli import LISTING
from checks.documents.report import dump_plain
from checks.facts.builtin import builtin
from checks.facts.instances import lacks
from checks.model import Action, Cause, Declared
from tasks.gate_file.references import read_policy

ROOT = Path(__file__).resolve().parents[2]
ACTIONS = {
    "restart the": Action.REBOOT,
    "reboot": Action.REBOOT,
    "reset the gpu": Action.RESET_GPU,
    "replace the": Action.REPLACE,
}
# The first clause, or what follows it; not one of two repairs, and none that waits for something.
REPAIR = re.compile(
    rf"(?:[^.;:]*[;:] )?(?P<repair>{'|'.join(ACTIONS)})\b(?! adapter| device| part)(?![^.;:]* (?:or|if) )"
)
POLICIES = sorted((ROOT / "deployments" / "policies").glob("*.toml"))


def test_the_json_policies_are_current() -> None:
    """checks/policies/*.json are deployments/policies/*.toml; UPDATE_GOLDEN=1 writes them."""
    texts = {path.with_suffix(".json").name: dump_plain(read_policy(path)) for path in POLICIES}
    folder = ROOT / "checks" / "policies"
    if os.environ.get("UPDATE_GOLDEN"):
        for name, text in texts.items():
            (folder / name).write_bytes(text)

    copies = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    stale = sorted(name for name in {*texts, *copies} if texts.get(name) != copies.get(name))
    assert not stale, f"not made from deployments/policies: {stale}; UPDATE_GOLDEN=1 writes them again"


def test_the_list_of_checks_is_current() -> None:
    """checks/catalog.json, which `checks list` prints, is the catalogue; UPDATE_GOLDEN=1 writes it."""
    rows = [
        {
            "name": check.name,
            "scope": check.scope.value,
            "cost": check.cost,
            "needs": check.needs,
            "timeout_s": check.timeout_s,
            "profiles": [profile.value for profile in check.profiles],
            "summary": check.summary,
            "beside_job": check.beside_job,
            "watch_only": check in WATCH_ONLY,
        }
        for check in (*CATALOG, *WATCH_ONLY)
    ]
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    if os.environ.get("UPDATE_GOLDEN"):
        LISTING.write_text(text, encoding="utf-8")

    assert text == LISTING.read_text(encoding="utf-8"), "stale: UPDATE_GOLDEN=1 writes it again"


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_a_policy_and_the_catalogue_agree(path: Path) -> None:
    """A line for every check that applies to one of its types, or to machines of one's own with the same GPUs, restating to which
    declarations it applies.
    """
    policy, facts = read_policy(path), builtin()
    wrong = []
    for check in CATALOG:
        line = policy.checks.get(check.name)
        applies = any(
            lacks(check.part, Declared(name, 1, instance.gpus, max(instance.gpus, 1)), instance) is None
            for name, row in facts.instances.items()
            if name in policy.instance_types
            for instance in (row, *([replace(row, ib_ports=8, ib_rate_gbit_s=400)] if row.gpu else []))
        )
        if applies != (line is not None):
            wrong.append(f"{check.name}: {'no line' if applies else 'a line, and it never applies'}")
        elif line is not None:
            said = (line.scope, line.part, line.min_nodes, line.min_ranks, set(line.profiles))
            if said != (check.scope, check.part, check.min_nodes, check.min_ranks, set(check.profiles)):
                wrong.append(f"{check.name}: scope, part, min_nodes, min_ranks or profiles differ")
    wrong += [f"{name}: no such check" for name in policy.checks if name not in {c.name for c in CATALOG}]

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_policy_rules_look_at_declared_metrics_and_have_remedies(path: Path) -> None:
    """A rule on a metric that a check need not return would be blind on some node; each says what to do."""
    metrics = {check.name: set(check.metrics) for check in CATALOG}
    rules = [(name, rule) for name, line in read_policy(path).checks.items() for rule in line.rules]
    loose = [f"{name}: {rule.metric}" for name, rule in rules if rule.metric not in metrics.get(name, ())]
    mute = [f"{name}: {rule.metric}" for name, rule in rules if not rule.remedy]

    assert not loose, "\n".join(loose)
    assert not mute, "\n".join(mute)


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_a_rule_asks_for_the_repair_that_its_remedy_names_first(path: Path) -> None:
    """Else the text says one thing, and the command and the plan of a repair another: that a person inspects the node."""
    rules = [rule for check in read_policy(path).checks.values() for rule in check.rules]
    named = {(r.metric, r.remedy): REPAIR.match(r.remedy.lower()) for r in rules if r.cause is Cause.HARDWARE}
    wanted = {key: ACTIONS[match["repair"]] for key, match in named.items() if match}
    other = [r.metric for r in rules if wanted.get((r.metric, r.remedy), r.action) is not r.action]

    assert wanted and not other
