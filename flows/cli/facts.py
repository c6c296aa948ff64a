"""`prelaunch facts TYPE`: what is known of an instance type, and each line it is held to, with its source."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from checks.decode import nearest
from checks.facts.shipped import builtin
from checks.facts.table import Instance
from checks.policy import Policy, Rule
from checks.report import plain
from flows.cli.output import Exit, json_text, write_stdout
from flows.cli.rejected import rejected
from tasks.inputs import InputError
from tasks.policies import PolicyError, default_policy, read_policy

_BOUNDS = (
    ("fail_below", "FAIL below"),
    ("warn_below", "WARN below"),
    ("fail_above", "FAIL above"),
    ("warn_above", "WARN above"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TYPE --policy FILE --format text|json."""
    parser.add_argument("type", metavar="TYPE", help="an instance type, such as cpu or p5.48xlarge")
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="show this policy's lines (default: the shipped one)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """Print the row and the rules; 2 for a type that nothing is known of."""
    try:
        instance = _instance(arguments.type)
        policy = _policy(arguments.type, arguments.policy)
    except InputError as error:
        return rejected(arguments.format, error)
    if arguments.format == "json":
        write_stdout(json_text(_document(arguments.type, instance, policy)))
    else:
        write_stdout("\n".join(_lines(arguments.type, instance, policy)) + "\n")
    return int(Exit.GO)


def _instance(name: str) -> Instance:
    known = builtin().instances
    if name not in known:
        near = nearest(name, list(known))
        alike = [other for other in known if other.startswith(name[:2])] or list(known)
        said = f"nothing is known of instance type {name:.64}" + (
            "" if near else f". Known: {', '.join(alike)}."
        )
        raise InputError("facts", said, "instance_types", near)
    return known[name]


def _policy(name: str, path: Path | None) -> Policy | None:
    try:
        if path is not None:
            return read_policy(path)
        return default_policy(name)[1]
    except PolicyError as error:
        if path is None and error.path == "instance_types":
            return None
        raise InputError(str(error.file), error.message, error.path, error.nearest) from error


def _document(name: str, instance: Instance, policy: Policy | None) -> dict[str, object]:
    return {"type": name, "instance": plain(instance), "policy": plain(policy)}


def _lines(name: str, instance: Instance, policy: Policy | None) -> list[str]:
    gpu = f"{instance.gpus} x {instance.gpu}" if instance.gpus else "none"
    efa = "not stated" if instance.efa_devices is None else str(instance.efa_devices)
    lines = [name, f"  GPUs            {gpu}", f"  EFA devices     {efa}"]
    lines += [f"  Neuron devices  {instance.neuron_devices}", f"  source          {instance.source}"]
    if policy is None:
        return [*lines, "", "No shipped policy was written for this type: give one with --policy."]
    lines += ["", f"Policy {policy.name}: a WARN means {policy.on_warn.value}."]
    for check, line in policy.checks.items():
        lines += ["", f"{check} ({'required' if line.required else 'optional'})"]
        lines += [text for rule in line.rules for text in _rule(rule, instance)] or [
            "  held to nothing but being measured"
        ]
        lines += [f"  option {key} = {value:g}" for key, value in line.options.items()]
    return lines


def _rule(rule: Rule, instance: Instance) -> tuple[str, str]:
    bounds = [(word, getattr(rule, name)) for name, word in _BOUNDS]
    held = [f"{word} {_number(value)}" for word, value in bounds if value is not None]
    if rule.equals is not None:
        held.append(f"{rule.level} unless {json.dumps(rule.equals)}")
    if rule.same:
        held.append(f"{rule.level} unless the same everywhere")
    if rule.uniform:
        held.append(f"{rule.level} unless alike within the node")
    if rule.fact:
        held.append(_fact(rule, getattr(instance, rule.fact)))
    over = {"subject": "", "cluster": " (over the cluster)", "peers": " (times the peers' median)"}[
        rule.over.value
    ]
    return f"  {rule.metric}: {', '.join(held)}{over}", f"    source: {rule.source}"


def _fact(rule: Rule, expected: object) -> str:
    if not isinstance(expected, int):
        return f"WARN: the table does not say what {rule.fact} is"
    share = f" by more than {rule.tolerance:.0%}" if rule.tolerance else ""
    return f"{rule.level} below {_number(expected)}{share}, WARN above ({rule.fact})"


def _number(value: float) -> str:
    """Whole numbers are written out: 2,000,000,000 and not 2e+09."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e17 else f"{value:g}"
