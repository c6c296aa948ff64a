"""`prelaunch facts [TYPE]`: what is known about an instance type, on one screen; --verbose adds every threshold that applies to it.
JSON has every fact.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from textwrap import shorten

from checks.command_line import InputError
from checks.documents.report import plain, plain_table
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.facts.instances import Instance, lacks
from checks.judge.ledger import limits_text
from checks.model import Declared
from checks.policy import RELATIVE, CheckPolicy, Policy, Rule
from flows.cli.output import write_result
from flows.cli.shared_arguments import add_format, add_policy
from tasks.gate_file.references import default_policy, read_policy
from tasks.reports.facts import InstanceFact, instance_facts
from tasks.reports.read import instance_named
from tasks.text.tables import counted

WIDTH = 114
# How a row of a table is written, by the table's name; the others are in the whole list alone.
RATES = {
    "collectives": "{collective} over {transport}, {ranks} ranks on {machines}: {rate:g} GB/s at {size}",
    "gemm": "matrix products in {precision}: {tflops:g} TFLOP/s",
    "memory": "GPU memory, {test}: {gbps:,} GB/s",
    "transfer": "copy, {way}: {gbps:g} GB/s",
    "prices": "{purchase} in {region}: {usd_per_node_hour:.2f} USD per node-hour",
    "durations": "profile {profile}: at least {seconds} s",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[TYPE] --policy FILE --verbose --format text|json."""
    parser.add_argument(
        "type", nargs="?", metavar="TYPE", help="such as cpu or p5.48xlarge (default: list the types)"
    )
    add_policy(parser, "whose thresholds are shown (default: the shipped policy)")
    text = "also print every threshold, and each source as a whole"
    parser.add_argument("--verbose", action="store_true", help=text)
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the facts of a type, or all types; exit code 2 for an unknown type."""
    if arguments.type is None:
        return _list(arguments.format)
    instance = instance_named(arguments.type, "facts")
    policy = _policy(arguments.type, arguments.policy)
    facts = instance_facts(arguments.type, builtin())
    text = "\n".join(_lines(arguments.type, instance, facts, policy, arguments.verbose)) + "\n"
    write_result(arguments.format, _document(arguments.type, instance, facts, policy), text)
    return int(Exit.GO)


def _list(form: str) -> int:
    instances = builtin().instances
    width = max(len(name) for name in instances)
    text = "".join(f"{name:{width}}  {_gpus(instance)}\n" for name, instance in instances.items())
    write_result(form, {"types": list(instances)}, text)
    return int(Exit.GO)


def _gpus(instance: Instance) -> str:
    if instance.neuron_devices:
        return counted(instance.neuron_devices, "Neuron device")
    return f"{instance.gpus} x {instance.gpu or 'GPU'}" if instance.gpus else "no GPU"


def _policy(name: str, path: Path | None) -> Policy | None:
    try:
        return read_policy(path) if path is not None else default_policy(name)[1]
    except InputError as error:
        if path is None and error.path == "instance_types":
            return None
        raise


def _document(
    name: str, instance: Instance, facts: Sequence[InstanceFact], policy: Policy | None
) -> dict[str, object]:
    entries = [{**_flat(fact), **_flat(fact.provenance)} for fact in facts]
    return {"type": name, "instance": plain(instance), "facts": entries, "policy": plain(policy)}


def _flat(value: object) -> dict[str, object]:
    return {key: item for key, item in plain_table(value).items() if key not in ("provenance", "fields")}


def _lines(
    name: str, instance: Instance, facts: Sequence[InstanceFact], policy: Policy | None, verbose: bool
) -> list[str]:
    """What people ask first, on one screen; verbose: with whole sources, and all thresholds. JSON has every row of every table."""
    memory = f", {instance.gpu_memory_mib:,} MiB each" if instance.gpu_memory_mib else ""
    lines = [f"{name}: {_gpus(instance)}{memory}"]
    lines += [f"Host:    {instance.vcpus} vCPUs, {instance.memory_gib:,} GiB"] if instance.memory_gib else []
    efa = f", {counted(instance.efa_devices, 'EFA device')}" if instance.efa_devices else ""
    lines += [f"Network: {instance.network_gbit_s:,} Gbit/s{efa}"] if instance.network_gbit_s else []
    shortened = [fact for fact in facts if fact.name in RATES]
    for section, entries in groupby(shortened, key=lambda fact: fact.section):
        rates = [(RATES[fact.name].format_map(_largest(fact)), fact) for fact in entries]
        width = max(len(text) for text, _ in rates)
        lines += ["", f"{section}, each with its source:"]
        for text, fact in rates:
            short = shorten(fact.provenance.source, max(WIDTH - width, 40), placeholder=" …")
            lines.append(f"  {text:{width}}  {fact.provenance if verbose else short}")
    if verbose or policy is None:
        return [*lines, *_policy_lines(instance, policy)]
    rules = [rule for line in policy.checks.values() for rule in line.rules]
    thresholds = f"{counted(len(rules), 'threshold')} for {counted(len(policy.checks), 'check')}"
    more = "--verbose prints the thresholds and whole sources, --format json every known fact."
    return [*lines, "", f"Policy {policy.name} has {thresholds}. A WARN means {policy.on_warn.value}.", more]


def _largest(fact: InstanceFact) -> dict[str, object]:
    """The row; of a rate that depends on the size of a message, that at the largest one."""
    size, rate = fact.fields.get("points", [(0, 0)])[-1]
    machines = counted(fact.fields.get("nodes", 1), "node")
    return {**fact.fields, "size": f"{size >> 20:,} MiB", "rate": rate, "machines": machines}


def _policy_lines(instance: Instance, policy: Policy | None) -> list[str]:
    if policy is None:
        return ["", "No shipped policy covers this type. Give a policy with --policy."]
    lines = ["", f"Policy {policy.name}: a WARN means {policy.on_warn.value}."]
    declared = Declared("type", 2, instance.gpus, max(instance.gpus, 2))
    applying = {
        name: line for name, line in policy.checks.items() if lacks(line.part, declared, instance) is None
    }
    for check, line in applying.items():
        lines += ["", f"{check} ({_applies(line)})"]
        lines += [text for rule in line.rules for text in _rule(rule)] or [
            "  no threshold: it must only be measured"
        ]
        lines += [f"  option {key} = {value:g}" for key, value in line.options.items()]
    return lines


def _applies(line: CheckPolicy) -> str:
    terms = ["required" if line.required else "optional"]
    terms += [f"with {line.min_nodes} or more nodes"] if line.min_nodes > 1 else []
    terms += [f"with {line.min_ranks} or more ranks"] if line.min_ranks > 1 else []
    return ", ".join(terms)


def _rule(rule: Rule) -> tuple[str, str]:
    limits = [limits_text(rule)]
    if rule.fact:
        limits.append(f"WARN above it or if the table does not say it (tolerance {rule.tolerance:.0%})")
    if rule.deviations:
        limits.append(f"only if more than {rule.deviations:g} scaled median absolute deviations away")
    if rule.over in RELATIVE:
        limits.append(f"only if {rule.min_peers} or more are compared")
    return f"  {rule.metric}: {', '.join(limits)}", f"    source: {rule.source}"
