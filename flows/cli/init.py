"""`prelaunch init [FILE]`: writes a new gate file, which `prelaunch plan` accepts, from options."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from checks.command_line import InputError
from checks.documents.nearest import nearest
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.model import Declared
from checks.model_details import DeclaredMachine
from flows.cli.output import write_result, write_stderr
from flows.cli.shared_arguments import add_force, add_format, whole_number
from tasks.gate_file.folder import SHIPPED
from tasks.gate_file.people import NotifierName
from tasks.gate_file.placeholders import copied_keys
from tasks.gate_file.references import default_policy
from tasks.gate_file.starter import Wish, starter_text
from tasks.launchers.registry import LAUNCHERS
from tasks.reports.command_line import OutputError, write_file
from tasks.reports.read import instance_named

NOTIFIERS = get_args(NotifierName)
OWN = " (cpu: a machine without accelerators; --machine: a machine of your own)"
EXAMPLE = "Example: `prelaunch init --engine slurm --instance-type p5.48xlarge --nodes 16`"
MACHINE = ("gpu", "gpus", "gpu_memory_mib", "network_gbit_s")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE, the answers, --force and --format."""
    parser.description = "Writes a new gate file, made of the nearest shipped one. --engine, --instance-type and --nodes are required."
    add = parser.add_argument
    text = "the file to write (default gate.toml)"
    add("file", nargs="?", type=Path, default=Path("gate.toml"), metavar="FILE", help=text)
    add("--engine", choices=tuple(LAUNCHERS), help="what starts the jobs; becomes [cluster] launcher")
    add("--instance-type", metavar="T", help="the type of every node, such as p5.48xlarge or cpu")
    add("--nodes", metavar="N", type=whole_number, help="how many nodes")
    add(
        "--machine", metavar="KEY=VALUE,...",
        help="the type is a name of your own, for a machine that no table has: its gpu (as `prelaunch facts` spells it), gpus "
        "(of a node), network_gbit_s, and gpu_memory_mib (default: that of the tables)",
    )  # fmt: skip
    text = "the policy (default: the shipped one of the instance type)"
    add("--policy", type=Path, metavar="FILE", help=text)
    text = f"who is notified, in order, with commas: {', '.join(NOTIFIERS)} (default log)"
    add("--notify", default="log", metavar="NAMES", help=text)
    add("--name", help="the name of the gate and its cluster (default: from engine and type)")
    add_force(parser)
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the file completely or not at all; exit code 2 for what is missing or cannot be used."""
    file: Path = arguments.file
    if os.path.lexists(file) and not arguments.force:
        raise OutputError(file, "it exists already. Name another file, or replace it with --force.")
    needed = {
        "--engine": arguments.engine,
        "--instance-type": arguments.instance_type,
        "--nodes": arguments.nodes,
    }
    if missing := [option for option, value in needed.items() if value is None]:
        raise InputError("init", f"these options are missing: {', '.join(missing)}. {EXAMPLE}")
    wish = _wish(arguments)
    declared = Declared(wish.instance_type, wish.nodes, wish.gpus, max(wish.gpus, 1), machine=wish.machine)
    text = starter_text(wish, builtin().merged(declared).instances, file)
    _require_accepted(file, text)
    write_file(file, text)
    left = copied_keys(text)
    document = {"written": str(file), "to_replace": list(left), "error": None}
    write_result(arguments.format, document, f"{file}\n")
    if left:
        write_stderr(f"prelaunch: replace the examples in {file}: {', '.join(left)}")
    if str(SHIPPED.parent) in text and not file.absolute().is_relative_to(SHIPPED.parents[1]):
        write_stderr(
            f"prelaunch: {file} refers to files of this installation in {SHIPPED.parent}. To use it on another machine, run there "
            f"`prelaunch site examples deployments`, then `prelaunch init deployments/gates/{file.name}` with the same options"
        )
    write_stderr(f"prelaunch: next: prelaunch plan {file}; prelaunch doctor {file}")
    return int(Exit.GO)


def _wish(arguments: argparse.Namespace) -> Wish:
    """What is wanted. Raises InputError for what cannot be used."""
    engine, type_name, nodes = arguments.engine, arguments.instance_type, arguments.nodes
    gpus, machine = (0, None) if arguments.machine is None else _machine(arguments.machine, type_name)
    if machine is None:
        instance_named(type_name, "--instance-type", OWN)
    usual = re.sub(r"[^a-z0-9]+", "-", f"{engine}-{type_name.partition('.')[0]}".lower())[:19].strip("-")
    policy = _policy(arguments.policy, Declared(type_name, nodes, gpus, max(gpus, 1), machine=machine))
    names = _notifiers(arguments.notify)
    return Wish(arguments.name or usual, engine, type_name, nodes, policy, names, gpus, machine)


def _machine(text: str, name: str) -> tuple[int, DeclaredMachine]:
    """How many GPUs a node of this type has, and what else is said of it. Raises InputError."""
    if name in builtin().instances or not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", name):
        message = f"{name!r:.80} is a known type, which --machine does not describe, or no name of lower case letters, digits and dots"
        raise InputError("--instance-type", f"{message}.")
    values = dict(pair.strip().partition("=")[::2] for pair in text.split(",") if pair.strip())
    for key in values:
        _require_one_of("--machine", key, MACHINE)
    models = {entry.gpu: entry.gpu_memory_mib for entry in builtin().instances.values() if entry.gpu}
    gpu = values.get("gpu", "")
    family = re.split("[ _-]", gpu.upper().removeprefix("NVIDIA "))[0]
    alike = [model for model in models if family and model.upper().startswith(family)]
    # Another family has other rates, so a name that only looks similar is none to guess.
    _require_one_of("--machine", gpu, tuple(models), alike if len(alike) == 1 else ())
    values.setdefault("gpu_memory_mib", str(models[gpu] or ""))
    gpus, memory, network = (_count(f"--machine {key}", values.get(key, "")) for key in MACHINE[1:])
    return gpus, DeclaredMachine(gpu, gpu_memory_mib=memory, network_gbit_s=network)


def _count(option: str, text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,5}", text):
        raise InputError(option, f"{text!r:.40} is not a number from 1 to 999999.")
    return int(text)


def _policy(path: Path | None, declared: Declared) -> Path:
    """The policy that was named, or the shipped one. Raises InputError."""
    if path is not None:
        if not path.expanduser().is_file():
            raise InputError("--policy", f"there is no file {str(path)!r:.200}. Name a policy file.")
        return path
    try:
        return default_policy(declared.instance_type, declared)[0]
    except InputError as error:
        message = "no shipped policy is for this instance type. Name a policy file."
        raise InputError("--policy", message) from error


def _notifiers(text: str) -> tuple[str, ...]:
    names = [name for name in re.split(r"[,\s]+", text) if name]
    if not names:
        raise InputError("--notify", f"name at least one of {', '.join(NOTIFIERS)}.")
    for name in names:
        _require_one_of("--notify", name, NOTIFIERS)
    return tuple(dict.fromkeys(names))


def _require_one_of(
    option: str, text: str, choices: Sequence[str], alike: Sequence[str] | None = None
) -> None:
    if text not in choices:
        near = nearest(text, choices) if alike is None else next(iter(alike), None)
        raise InputError(option, f"{text!r:.80} is none of {', '.join(choices)}.", "", near)


def _require_accepted(file: Path, text: str) -> None:
    """Require that `prelaunch plan --offline` accepts the text at that place. Raises InputError."""
    from flows.cli.plan import plans_of
    from tasks.gate.context import open_gate_context
    from tasks.gate_file.read import GateFileError
    from tasks.gate_file.request import GateRequest

    with tempfile.NamedTemporaryFile(
        "w", suffix=".toml", prefix=".init-", dir=file.absolute().parent, encoding="utf-8"
    ) as tried:
        tried.write(text)
        tried.flush()
        try:
            plans_of(open_gate_context(GateRequest(gate_file=tried.name)), 0)
        except GateFileError as error:
            raise InputError(file, error.message, error.path, error.nearest) from error
