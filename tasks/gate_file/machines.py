"""Whether the machines of a gate file are known or described, and whether its policy is for them."""

from __future__ import annotations

from checks.facts.builtin import builtin
from checks.facts.instances import Facts
from checks.policy import Policy
from tasks.gate_file.model import Gate
from tasks.gate_file.read import GateFileError


def require_own_machine(file: str, gate: Gate) -> None:
    """Require of a machine that the file describes that no table describes it, and that its GPUs have a name."""
    declared, machine, known = gate.cluster.declared, gate.cluster.machine, builtin().instances
    if machine is None:
        return
    if declared.instance_type in known:
        said = f"{declared.instance_type} is a known instance type. Leave [cluster.machine] out, or choose a name of your own"
        raise GateFileError(file, "cluster.machine", said)
    if bool(declared.gpus_per_node) != bool(machine.gpu):
        said = f"{declared.gpus_per_node} GPUs are declared, and gpu = {machine.gpu!r}. Name the model of the GPUs, or declare none"
        raise GateFileError(file, "cluster.machine.gpu", said)


def wrong_policy(gate: Gate, policy: Policy, facts: Facts) -> str:
    """What to say of a policy that is not for the declared machines."""
    types = ", ".join(policy.instance_types[:5]) + ("..." if len(policy.instance_types) > 5 else "")
    said = (
        f"policy {policy.name!r} was not written for {gate.cluster.declared.instance_type}, but for {types}"
    )
    said += ". Name another in [policy] file"
    if gate.cluster.machine is None:
        return said
    models = {facts.instances[name].gpu for name in policy.instance_types if name in facts.instances} - {""}
    return f"{said}, add the type to a copy of this policy, or name a GPU that it is for: {', '.join(sorted(models)) or 'none'}"
