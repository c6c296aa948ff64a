"""Checks one node without a gate: `run --profile P --instance-type T --out FILE` and `judge REPORT`."""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks import bundle as bundles
from checks import policy as policies
from checks.bundle import Bundle
from checks.command_line import PlaceError
from checks.documents.decode import parse_json
from checks.documents.report import dump, load, plain
from checks.facts import own_machine, person_options
from checks.facts.builtin import builtin
from checks.facts.instances import Facts, not_for, unknown_type
from checks.judge.verdict import ANSWER_EXITS, decide, unreadable
from checks.merge import merge
from checks.model import ANSWER_WORDS, Declared, Finding, Profile, Verdict
from checks.policy import Policy
from checks.process.free_ports import free_ports
from checks.process.stderr import say
from checks.process.whole_file import write_whole
from checks.roster import Member, Roster
from checks.runner import node_run
from checks.runner.in_job.open_findings import settle_alone
from checks.runner.journal import Tick, now
from checks.runner.node_context import write_node_context
from checks.value_types import DecodeError

POLICIES = Path(__file__).parents[1] / "policies"


def run(arguments: argparse.Namespace) -> int:
    """Checks this node, writes the merged report to --out and prints the verdict. The exit code is the verdict's."""
    bundle = own_bundle("node", arguments)
    require_writable(arguments.out)
    with tempfile.TemporaryDirectory(prefix="prelaunch-") as name:
        report_bytes = checked(bundle, Path(name), settles=True)
        write_whole(arguments.out, report_bytes)
    report = load(report_bytes)
    if arguments.verbose:
        say("\n".join(person_options.lines_of(report)))
    return show(decide(report, bundle.policy, builtin()), "text")


def own_bundle(
    prefix: str,
    arguments: argparse.Namespace,
    nodes: int = 1,
    ranks_per_node: int | None = None,
    *,
    announced: bool = True,
    **fields: Any,
) -> Bundle:
    """The bundle of checks without a gate, from --instance-type, --profile, --policy and --option, with these further fields. Raises
    PlaceError.
    """
    implied = declare(arguments.instance_type, nodes, builtin())
    declared = replace(implied, ranks_per_node=ranks_per_node or implied.ranks_per_node)
    rules, profile = read_policy(arguments.policy, declared, announced=announced), Profile(arguments.profile)
    if not builtin().are_for(rules.instance_types, declared):
        fault = not_for(rules.instance_types, declared.instance_type)
        raise PlaceError(f"{arguments.policy}: the policy {fault}. Name another one, or leave --policy out.")
    try:
        rules = person_options.with_options(rules, profile, arguments.option, declared.gpus_per_node)
    except DecodeError as error:
        raise PlaceError(str(error)) from error
    gate_id, raised = f"{prefix}-{uuid.uuid4().hex[:8]}", tuple(arguments.option)
    return bundles.make(gate_id, declared, profile, rules, builtin(), raised=raised, **fields)


def judge(path: Path, policy: Path | None, form: str) -> int:
    """Prints the verdict on a report file. The exit code is the verdict's."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlaceError(f"{path}: {error.strerror}") from error
    facts = builtin()
    try:
        report = load(data)
    except DecodeError as error:
        return show(unreadable(str(error), read_policy(policy, declare("cpu", 1, facts)), facts, data), form)
    return show(decide(report, read_policy(policy, report.declared), facts), form)


def declare(instance_type: str | None, nodes: int, facts: Facts) -> Declared:
    """The declaration that follows from an instance type, with one rank per GPU, or one rank. Raises
    PlaceError for an unknown type. A name that ends in .json is a file that describes a machine of one's own.
    """
    if instance_type is not None and own_machine.is_file(instance_type):
        try:
            return own_machine.read(Path(instance_type), nodes)
        except OSError as error:
            raise PlaceError(f"{instance_type}: {error.strerror}") from error
        except DecodeError as error:
            raise PlaceError(f"{instance_type}: {error}") from error
    if instance_type is None:
        raise PlaceError("the instance type of this machine is not given. Give --instance-type, such as cpu.")
    instance = facts.instances.get(instance_type)
    if instance is None:
        problem, near = unknown_type(instance_type, tuple(facts.instances))
        raise PlaceError(f"{problem}.{f' Did you mean {near}?' if near else ''}")
    return Declared(instance_type, nodes, instance.gpus, max(instance.gpus, 1))


def read_policy(path: Path | None, declared: Declared | None = None, *, announced: bool = True) -> Policy:
    """The policy in a file, or the shipped one for the declared machines; `announced` on stderr. Raises PlaceError."""
    for file in [path] if path is not None else sorted(POLICIES.glob("*.json")):
        try:
            policy = policies.load(_table(file))
        except OSError as error:
            raise PlaceError(f"{file}: {error.strerror}") from error
        except (DecodeError, ValueError) as error:
            raise PlaceError(f"{file}: {error}") from error
        if path is not None or (declared is not None and builtin().are_for(policy.instance_types, declared)):
            if announced:
                say(f"policy: {policy.name} ({file})")
            return policy
    raise PlaceError(
        f"there is no shipped policy for {declared.instance_type if declared else 'these machines'}. Give --policy FILE."
    )


def show(verdict: Verdict, form: str) -> int:
    """Prints a verdict, as text with one line per check and cause. Returns its exit code."""
    if form == "json":
        print(json.dumps(plain(verdict), sort_keys=True))
        return ANSWER_EXITS[verdict.answer]
    c = verdict.coverage
    observed = f"{c.nodes.observed} of {c.nodes.required} nodes, {c.checks.observed} of {c.checks.required} observations"
    print(f"{ANSWER_WORDS[verdict.answer]}: {observed} ({verdict.level.value})")
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in verdict.findings:
        groups.setdefault((finding.level.value, finding.cause.value, finding.check), []).append(finding)
    for (level, cause, check), findings in groups.items():
        more = f" (and {len(findings) - 1} more findings of this check)" if len(findings) > 1 else ""
        print(f"{level} {cause} {findings[0].subject} {check}: {findings[0].message!a}{more}")
    return ANSWER_EXITS[verdict.answer]


def checked(bundle: Bundle, folder: Path, tick: Tick | None = None, *, settles: bool = False) -> bytes:
    """Runs the bundle's checks on this node and returns the merged report. `tick` gets each observation as it comes. `settles`: they
    count as a gate for the open findings of this machine.
    """
    name = host_name()
    ports = free_ports(2, "127.0.0.1")
    roster = Roster((Member(name, "127.0.0.1", ports[0]),), ports[1], "lo")
    node_context = write_node_context(folder, bundle, roster, name)
    begun, token = now(), uuid.uuid4().hex
    journal = node_run.run(node_context, token, folder / "out", tick)
    if settles:
        settle_alone(bundle.policy, journal.report)
    return dump(merge(bundle, token, {name: journal.path.read_bytes()}, begun))


def host_name() -> str:
    """The machine's name is returned in the form of a node's name."""
    letters = (c if c.isascii() and (c.isalnum() or c in "-.") else "-" for c in socket.gethostname())
    return "".join(letters).strip("-.") or "node"


def _table(file: Path) -> object:
    data = file.read_bytes()
    if file.suffix != ".toml":
        return parse_json(data, 1 << 20)
    try:
        import tomllib
    except ImportError as error:
        raise PlaceError(f"{file}: TOML needs Python 3.11. Give the policy as JSON.") from error
    return tomllib.loads(data.decode())


def require_writable(path: Path) -> None:
    """Raises PlaceError if the report cannot be written."""
    if path.is_dir():
        raise PlaceError(f"{path} is a folder. Set --out to a file.")
    probe = path.with_name(f".{path.name}.{os.getpid()}.probe")
    try:
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise PlaceError(f"{path} cannot be written: {error.strerror}. Choose another --out.") from error
