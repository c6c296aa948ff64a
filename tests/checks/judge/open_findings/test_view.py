"""Which checks are safe beside a job, and which rules mean an idle machine: both are literal lists."""

from __future__ import annotations

import pytest

from checks.catalog import CATALOG
from checks.check import Check
from checks.judge.open_findings.view import IDLE, view, watched
from checks.model import Cause, MachinePart, Scope
from checks.policy import Policy
from checks.runner.single_node import POLICIES, read_policy

SAFE = (
    "system.identity", "system.resources", "system.clock", "mounts.responsive", "kernel.hardware", "kernel.xid", "kernel.sxid",
    "system.error_counters", "gpu.inventory", "neuron.devices", "neuron.ecc", "dcgm.policy", "gpu.memory", "gpu.modes", "gpu.power",
    "gpu.fabric", "gpu.nvlink", "gpu.ecc", "gpu.row_remap", "gpu.retired_pages", "gpu.recovery_action", "efa.devices",
    "ib.ports", "efa.counters", "ib.counters", "network.counters",
)  # fmt: skip
# dcgm.health sets watches in the host engine; the others load the machine, or fail on every GPU that is in use.
NEVER = {
    "dcgm.health", "dcgm.diag", "gpu.processes", "gpu.utilisation",
    "cpu.stress", "memory.stress", "disk.io", "nccl.tests",
}  # fmt: skip
# What these checks measure at one moment; all else that they judge is counted between the start of a run and its end.
STATES = {
    ("dcgm.health", "driver_failures"), ("dcgm.health", "gpus_missing"), ("dcgm.xid_events", "earlier"),
    ("gpu.nvlink", "links_active"), ("gpu.start_and_end", "action_at_end"), ("gpu.start_and_end", "action_at_start"),
    ("gpu.start_and_end", "missing"), ("system.error_counters", "fatal_before"),
}  # fmt: skip
SHIPPED = {path.stem: read_policy(path, announced=False) for path in sorted(POLICIES.glob("*.json"))}


def rules_of(policy: Policy) -> set[tuple[str, str]]:
    """Check and metric of each rule."""
    return {(check, rule.metric) for check, line in policy.checks.items() for rule in line.rules}


def test_the_list_is_literal() -> None:
    """A check gets onto it by a decision, and not by its cost or its family."""
    assert [*SAFE] == [check.name for check in CATALOG if check.beside_job]
    assert not NEVER & {*SAFE}


@pytest.mark.parametrize(
    "check", [check for check in CATALOG if check.beside_job], ids=lambda check: check.name
)
def test_a_check_beside_a_job_takes_nothing_from_it(check: Check) -> None:
    assert check.scope is Scope.NODE
    assert not check.serial
    assert not check.group
    assert check.watch is None
    assert check.cost != "minutes"


@pytest.mark.parametrize("name", SHIPPED)
def test_the_view_has_no_rule_about_an_idle_machine(name: str) -> None:
    policy = SHIPPED[name]
    viewed = view(policy, CATALOG)
    dropped = {rule for rule in rules_of(policy) - rules_of(viewed) if rule[0] in viewed.checks}

    assert not rules_of(viewed) & IDLE
    assert dropped == {rule for rule in IDLE if rule[0] in policy.checks}
    assert {*viewed.checks} == {check.name for check in watched(CATALOG, policy)} <= {*SAFE}


def test_every_rule_of_the_list_is_in_a_shipped_policy() -> None:
    """An entry that names no rule would be a rule that is silently kept."""
    assert set[tuple[str, str]]().union(*map(rules_of, SHIPPED.values())) >= IDLE


def test_what_is_counted_during_a_run_is_an_event() -> None:
    """A later run that counts nothing does not answer it. Missing evidence is answered by any measurement."""
    comparing = {check.name for check in CATALOG if check.before or check.watch}
    judged = {
        (check, rule.metric)
        for policy in SHIPPED.values()
        for check, line in policy.checks.items()
        for rule in line.rules
        if check in comparing and rule.cause is not Cause.EVIDENCE
    }

    events = {(check.name, metric) for check in CATALOG for metric in check.events}
    assert judged - events == STATES
    assert all({*check.events} <= {*check.metrics} for check in CATALOG)


def test_gpu_machines_are_watched_for_what_breaks_between_gates() -> None:
    policy: Policy = SHIPPED["nvidia"]
    names = {check.name for check in watched(CATALOG, policy)}
    parts = {MachinePart.GPU, MachinePart.NVLINK, MachinePart.EFA, MachinePart.INFINIBAND}
    gpu = {check.name for check in CATALOG if check.beside_job and check.part in parts}

    assert names >= gpu
    assert names >= {"kernel.xid", "kernel.sxid", "kernel.hardware", "network.counters"}
