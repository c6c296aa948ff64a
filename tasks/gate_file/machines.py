"""Whether the machines of a gate file are known or described, and whether its policy can judge them."""

from __future__ import annotations

from checks import catalog
from checks.check import Check
from checks.documents.nearest import nearest
from checks.documents.report import plain
from checks.facts.builtin import builtin
from checks.facts.instances import Facts, types_text, unknown_type
from checks.policy import CheckPolicy, Policy
from tasks.gate_file.model import Gate
from tasks.gate_file.read import GateFileError


def require_known_type(file: str, gate: Gate, policy: Policy, facts: Facts) -> None:
    """Require an instance type that a table or the file itself describes; the error also says for which types the policy is."""
    instance_type = gate.cluster.declared.instance_type
    if instance_type in facts.instances:
        return
    message, near = unknown_type(instance_type, tuple(facts.instances))
    message += f". The policy {gate.policy.file} is for {types_text(policy.instance_types, instance_type)}"
    raise GateFileError(file, "cluster.declared.instance_type", message, near)


def require_own_machine(file: str, gate: Gate) -> None:
    """Require of a machine that the file describes that no table describes it, and that its GPUs have a name."""
    declared, machine, instances = gate.cluster.declared, gate.cluster.machine, builtin().instances
    if machine is None:
        return
    if declared.instance_type in instances:
        message = f"{declared.instance_type} is a known instance type. Leave [cluster.machine] out, or choose a name of your own"
        raise GateFileError(file, "cluster.machine", message)
    if bool(declared.gpus_per_node) != bool(machine.gpu):
        message = f"{declared.gpus_per_node} GPUs are declared, and gpu = {machine.gpu!r}. Name the model of the GPUs, or declare none"
        raise GateFileError(file, "cluster.machine.gpu", message)


def unfit_line(check: Check, line: CheckPolicy) -> str:
    """Why the policy's entry cannot judge a check that applies, or "". Otherwise the gate would find out only after the checks."""
    name = check.name
    for key in ("part", "min_nodes", "min_ranks"):
        written, true = plain(getattr(line, key)), plain(getattr(check, key))
        if written != true:
            return f"has {key} = {written} for check {name}, but the catalogue has {true}: correct the policy"
    unknown = [rule.metric for rule in line.rules if rule.metric not in check.metrics]
    if unknown and check in catalog.CATALOG:  # a site's own check may measure more than it must
        near = nearest(unknown[0], check.metrics)
        written = f"has a rule for {unknown[0]} of check {name}, which measures no such thing"
        return f"{written}: {f'did you mean {near}?' if near else 'it measures ' + ', '.join(check.metrics)}"
    more = [profile.value for profile in line.profiles if profile not in check.profiles]
    return f"asks for check {name} in profile {more[0]}, in which it never runs" if more else ""
