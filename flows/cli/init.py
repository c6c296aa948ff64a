"""`prelaunch init [FILE]`: writes a new gate file, which `prelaunch plan` accepts, from answers or from options."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import get_args

from checks.documents.decode import nearest
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.facts.instances import unknown_type
from checks.model import Declared
from checks.model_details import DeclaredMachine
from flows.cli.output import json_text, write_stderr, write_stdout
from flows.cli.rejection import report_rejection
from tasks.gate_file.folder import SHIPPED
from tasks.gate_file.model import Mode
from tasks.gate_file.people import NotifierName
from tasks.gate_file.placeholders import copied_keys
from tasks.gate_file.references import PolicyError, default_policy
from tasks.gate_file.starter import Wish, starter_text
from tasks.launchers.registry import LAUNCHERS
from tasks.reports.command_line import OutputError, write_file
from tasks.reports.read import InputError

NOTIFIERS = get_args(NotifierName)
MODE_QUESTION = "Mode (enforce: a refusal stops the training; observe: it is recorded and notified, and every training starts)"
MOST_NODES = 100_000
MAIL = {"mail", "email", "e-mail", "smtp"}
QUESTIONS = {
    "gpu": "Model of the GPUs, as `prelaunch facts` spells it",
    "gpus": "GPUs of a node",
    "gpu_memory_mib": "Memory of a GPU in MiB, as nvidia-smi prints it",
    "network_gbit_s": "What a node sends to the others in all, in Gbit/s",
}
Ask = Callable[[str], str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """FILE, the six answers, --force and --format."""
    parser.description = (
        "Writes a new gate file with comments, made of the shipped one that is nearest. On a terminal it asks for what no "
        "option says; elsewhere every option without a default is required."
    )
    parser.add_argument(
        "file", nargs="?", type=Path, default=Path("gate.toml"), metavar="FILE",
        help="the file to write (default gate.toml)",
    )  # fmt: skip
    parser.add_argument("--engine", choices=tuple(LAUNCHERS), help="what starts the jobs")
    parser.add_argument(
        "--instance-type", metavar="T", help="the instance type of every node, such as p5.48xlarge or cpu"
    )
    parser.add_argument("--nodes", type=int, metavar="N", help="how many nodes")
    parser.add_argument(
        "--machine", nargs="?", const="", metavar="KEY=VALUE,...",
        help="the type is a name of your own, for a machine that no table has: asks for gpu (as `prelaunch facts` spells it), gpus "
        "(of a node), gpu_memory_mib and network_gbit_s, or takes them from here",
    )  # fmt: skip
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="the policy (default: the shipped one of the instance type)",
    )
    parser.add_argument(
        "--notify",
        metavar="NAMES",
        help=f"who is notified, in order, with commas: {', '.join(NOTIFIERS)} (default log)",
    )
    parser.add_argument("--name", help="the name of the gate and its cluster (default: from engine and type)")
    parser.add_argument(
        "--observe",
        action="store_true",
        help="begin in observe mode: refusals are recorded and notified, and every training starts",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="format of stdout (default text)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Ask for what is missing, then write the file completely or not at all; exit code 2 for what cannot be used."""
    file: Path = arguments.file
    made: tuple[Path, ...] = ()
    try:
        if os.path.lexists(file) and not arguments.force:
            raise OutputError(file, "it exists already. Name another file, or replace it with --force.")
        made = _folder(file)
        write_file(file, None)  # nobody answers six questions for a file that cannot be written
        wish = _wish(arguments, _asker())
        text = starter_text(wish, builtin().of(_declared(wish)).instances, file)
        _require_accepted(file, text)
        write_file(file, text)
    except EOFError:
        _remove(made)
        return report_rejection(
            arguments.format, InputError(str(file), "the answers ended. Nothing was written.")
        )
    except (InputError, OutputError) as error:
        _remove(made)
        return report_rejection(arguments.format, error)
    left = copied_keys(text)
    if arguments.format == "json":
        write_stdout(json_text({"written": str(file), "to_replace": list(left), "error": None}))
    else:
        write_stdout(f"{file}\n")
    if left:
        write_stderr(f"prelaunch: replace the examples in {file}: {', '.join(left)}")
    if str(SHIPPED.parent) in text and not file.absolute().is_relative_to(SHIPPED.parents[1]):
        write_stderr(
            f"prelaunch: {file} names files of this installation by their absolute paths, which another machine does not have. Copy "
            f"them first (prelaunch examples deployments), and write the file again: prelaunch init --force {file}"
        )
    if _is_log_only(text):
        write_stderr(
            "prelaunch: missing evidence and a failed training would only be written to the log: name a notifier in owner of [notify] "
            "(docs/notify.md)"
        )
    write_stderr(f"prelaunch: next: prelaunch plan {file}; prelaunch doctor {file}")
    return int(Exit.GO)


def _folder(file: Path) -> tuple[Path, ...]:
    """Make the folder of the file; returns those that were not there, the deepest first. Raises OutputError."""
    folder = file.absolute().parent
    new = tuple(one for one in (folder, *folder.parents) if not one.exists())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(file, f"its folder cannot be made: {error.strerror}") from error
    return new


def _remove(folders: tuple[Path, ...]) -> None:
    """Remove the folders that were made for a file which was not written, where they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _is_log_only(text: str) -> bool:
    """Whether somebody is notified about hardware, and nobody about the gate."""
    notify = tomllib.loads(text).get("notify", {})
    return bool(notify.get("owner") == ["log"] and notify.get("order") != ["log"])


def _asker() -> Ask | None:
    """The function that asks on the terminal; None where there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: str) -> str:
        sys.stderr.write(question)
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()

    return ask


def _wish(arguments: argparse.Namespace, ask: Ask | None) -> Wish:
    """Every answer, from an option or a person. Raises InputError, for missing options with all their names."""
    given = {
        "--engine": arguments.engine,
        "--instance-type": arguments.instance_type,
        "--nodes": None if arguments.nodes is None else str(arguments.nodes),
    }
    missing = [name for name, value in given.items() if value is None]
    if ask is None and missing:
        said = f"there is no terminal to ask on, and these options are missing: {', '.join(missing)}."
        raise InputError("init", said)
    engine = _answer(given["--engine"], ask, f"Engine ({', '.join(LAUNCHERS)})", "local", _engine)
    default = "cpu" if engine == "local" else ""
    own = arguments.machine is not None
    question = "Name for this type of machine" if own else "Instance type of the nodes, such as p5.48xlarge"
    kind = _answer(given["--instance-type"], ask, question, default, _own_name if own else _type)
    nodes = int(_answer(given["--nodes"], ask, "Number of nodes", "2", _nodes))
    gpus, machine = _machine(arguments.machine, ask) if own else (0, None)
    shipped = _shipped_policy(Declared(kind, nodes, gpus, max(gpus, 1), machine=machine))
    typed = None if arguments.policy is None else str(arguments.policy)
    suggested = "" if shipped is None else str(shipped)
    policy = _answer(typed or (suggested if ask is None else None), ask, "Policy", suggested, _policy)
    names = _answer(
        arguments.notify or ("log" if ask is None else None), ask, f"Notifiers, in order ({', '.join(NOTIFIERS)})", "log", _names
    )  # fmt: skip
    given_mode = Mode.OBSERVE if arguments.observe else Mode.ENFORCE if ask is None else None
    mode = _answer(given_mode, ask, MODE_QUESTION, Mode.ENFORCE, _mode)
    made = re.sub(r"[^a-z0-9]+", "-", f"{engine}-{kind.partition('.')[0]}".lower())[:19].strip("-")
    return Wish(
        arguments.name or made,
        engine,
        kind,
        nodes,
        Path(policy),
        tuple(names.split(",")),
        mode == Mode.OBSERVE,
        gpus,
        machine,
    )


def _machine(given: str, ask: Ask | None) -> tuple[int, DeclaredMachine]:
    """How many GPUs a node has, and what else is said of it. Raises InputError."""
    said = dict(part.strip().partition("=")[::2] for part in given.split(",") if part.strip())
    if unknown := [key for key in said if key not in QUESTIONS]:
        raise InputError(
            "--machine",
            f"{unknown[0]!r:.80} is none of {', '.join(QUESTIONS)}.",
            "",
            nearest(unknown[0], tuple(QUESTIONS)),
        )
    models = {row.gpu: row.gpu_memory_mib for row in builtin().instances.values() if row.gpu}
    gpu = _answer(
        said.get("gpu"),
        ask,
        QUESTIONS["gpu"],
        "H100 80GB HBM3",
        partial(_one_of, "--machine", choices=tuple(models)),
    )
    usual = {"gpus": "8", "gpu_memory_mib": str(models[gpu] or ""), "network_gbit_s": ""}
    gpus, memory, network = (
        int(_answer(said.get(key), ask, QUESTIONS[key], default, partial(_count, key)))
        for key, default in usual.items()
    )
    return gpus, DeclaredMachine(gpu, gpu_memory_mib=memory, network_gbit_s=network)


def _count(key: str, text: str) -> str:
    if not re.fullmatch("[1-9][0-9]{0,6}", text):
        raise InputError("--machine", f"{key} is {text!r:.40}, and not a number from 1 to 9999999.")
    return text


def _own_name(text: str) -> str:
    if text in builtin().instances or not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", text):
        said = f"{text!r:.80} is a known type, which --machine does not describe, or no name of lower case letters, digits and dots"
        raise InputError("--instance-type", f"{said}.")
    return text


def _declared(wish: Wish) -> Declared:
    return Declared(wish.instance_type, wish.nodes, wish.gpus, max(wish.gpus, 1), machine=wish.machine)


def _answer(
    given: str | None, ask: Ask | None, question: str, default: str, check: Callable[[str], str]
) -> str:
    """The option's value, or the first answer that can be used. Raises InputError for an option that cannot."""
    if given is not None or ask is None:
        return check(given or "")
    while True:
        typed = ask(f"{question}{f' [{default}]' if default else ''}: ") or default
        try:
            return check(typed)
        except InputError as error:
            hint = f" Did you mean {error.nearest}?" if error.nearest else ""
            sys.stderr.write(f"{error.message}{hint}\n")


def _engine(text: str) -> str:
    return _one_of("--engine", text, tuple(LAUNCHERS))


def _type(text: str) -> str:
    names = tuple(builtin().instances)
    if text not in names:
        said, near = unknown_type(text, names)
        own = "cpu: a machine without accelerators; --machine: a machine of your own"
        raise InputError("--instance-type", f"{said} ({own}).", "", near)
    return text


def _nodes(text: str) -> str:
    if not re.fullmatch("[0-9]{1,6}", text) or not 1 <= int(text) <= MOST_NODES:
        raise InputError("--nodes", f"{text!r:.40} is not a number from 1 to {MOST_NODES}.")
    return text


def _policy(text: str) -> str:
    if not text:
        raise InputError("--policy", "no shipped policy is for this instance type. Name a policy file.")
    if not Path(text).expanduser().is_file():
        raise InputError("--policy", f"there is no file {text!r:.200}. Name a policy file.")
    return text


def _mode(text: str) -> str:
    return _one_of("--observe", text, tuple(mode.value for mode in Mode))


def _names(text: str) -> str:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    if MAIL & set(words):
        raise InputError("--notify", "mail is sent by apprise: name that (docs/notify.md).", "", "apprise")
    if not words:
        raise InputError("--notify", f"name at least one of {', '.join(NOTIFIERS)}.")
    return ",".join(dict.fromkeys(_one_of("--notify", word, NOTIFIERS) for word in words))


def _one_of(option: str, text: str, choices: Sequence[str]) -> str:
    if text not in choices:
        raise InputError(option, f"{text!r:.80} is none of {', '.join(choices)}.", "", nearest(text, choices))
    return text


def _shipped_policy(declared: Declared) -> Path | None:
    try:
        return default_policy(declared.instance_type, declared)[0]
    except PolicyError:
        return None


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
            raise InputError(str(file), error.message, error.path, error.nearest) from error
