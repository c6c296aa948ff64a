"""The agent's command line. SageMaker calls it with `train`; everything else names what it does."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from checks.exit_codes import Exit
from checks.process import inheritance
from checks.process.environment import for_checks
from checks.process.tree import as_started
from container.agent import agent_run, check_command, sagemaker, settings
from container.agent.files import inputs
from container.agent.machine import cuda_compat
from container.agent.settings import Settings, SettingsError, Verb
from container.agent.supervisor import Signals

COMMAND_BYTES = 1 << 20


def main(argv: Sequence[str]) -> int:
    """Run the checks, or the checks and then a command; returns the exit code. A report is left in any case."""
    inheritance.restore_defaults()
    if argv and argv[0] == "checks":
        _compatible()
        environment = for_checks(as_started(os.environ), str(check_command.PACKAGES), {})
        os.execve(sys.executable, (sys.executable, "-m", "checks", *argv[1:]), environment)
    arguments = _parser().parse_args(argv)
    signals = Signals()
    signals.install()
    _compatible()
    try:
        configured = read(arguments)
    except SettingsError as error:
        agent_run.reject(Path(arguments.root), str(error))
        return Exit.REJECTED
    return agent_run.live(configured, signals)


def _compatible() -> None:
    if problem := cuda_compat.prepare():
        print(f"prelaunch: {problem}", file=sys.stderr)


def read(arguments: argparse.Namespace) -> Settings:
    """The settings from arguments and environment. Raises SettingsError."""
    base = settings.make(Path(arguments.root), _settings_of(arguments), os.environ)
    if arguments.verb == "train":
        return base
    verb = Verb(arguments.verb)
    if verb is Verb.CHECK:
        return replace(base, verb=verb, command=())
    command = _command_of(arguments)
    if not command:
        raise SettingsError(
            f"{verb.value} has no command. Give it after --"
            + (", or say `check`." if verb is Verb.GATE else ".")
        )
    return replace(base, verb=verb, command=command)


def _settings_of(arguments: argparse.Namespace) -> dict[str, str | None]:
    """The options by the names of the settings; what was not given, or is none of the verb's, is None."""
    names = ("bundle", "out", "upload", "confirm", "ask_s", "answers", "observe", "keep", "pooled")
    values = {name: getattr(arguments, name, None) for name in names}
    return {name: "1" if value is True else value or None for name, value in values.items()}


def _command_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The command: after --, or in the file. Raises SettingsError."""
    typed = arguments.command
    command = tuple(typed[1:] if typed[:1] == ["--"] else typed)
    file = arguments.command_file or os.environ.get("PRELAUNCH_COMMAND_FILE", "")
    if command or not file:
        return command
    try:
        text = inputs.fetch(file, COMMAND_BYTES).decode()
    except (inputs.FetchError, UnicodeDecodeError) as error:
        raise SettingsError(f"the command's file cannot be read: {error}") from error
    return settings.parse_command(file, text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="prelaunch-agent", description=__doc__)
    parser.set_defaults(command=[], command_file=None)
    verbs = parser.add_subparsers(required=True, dest="verb", metavar="VERB")
    verbs.add_parser("checks", help="run `python -m checks`: list, run, judge, gate", add_help=False)
    for name, help_text in (
        ("train", "the entry point on SageMaker: run the checks, then PRELAUNCH_COMMAND if it is set"),
        (
            "check",
            "run the checks only; the exit code is that of the verdict. With --instance-type T no bundle is needed "
            "(`check --instance-type T --help`)",
        ),
        ("gate", "run the checks, and the command after -- if every host has the same PASS"),
        ("exec", "run the command after -- on every host without checks, once all hosts are there"),
    ):
        _options(verbs.add_parser(name, help=help_text))
    _keep(verbs.choices["train"])
    _keep(verbs.choices["check"])
    for name in ("train", "gate"):
        _gate_options(verbs.choices[name])
    for name in ("gate", "exec"):
        _command(verbs.choices[name])
    return parser


def _options(parser: argparse.ArgumentParser) -> None:
    root = os.environ.get("PRELAUNCH_ROOT") or sagemaker.ROOT
    text = f"the folder that SageMaker provides (default {sagemaker.ROOT})"
    parser.add_argument("--root", default=root, help=text)
    parser.add_argument("--bundle", help="the bundle of the gate: a file or an s3:// URL (PRELAUNCH_BUNDLE)")
    parser.add_argument("--out", help="the folder for the reports (default ROOT/output/data; PRELAUNCH_OUT)")
    text = "a folder or an s3:// prefix to copy the reports to (PRELAUNCH_UPLOAD)"
    parser.add_argument("--upload", help=text)


def _keep(parser: argparse.ArgumentParser) -> None:
    text = (
        "write a token to this machine, by which the next job of the warm pool recognises it (PRELAUNCH_KEEP)"
    )
    parser.add_argument("--keep", action="store_true", help=text)


def _gate_options(parser: argparse.ArgumentParser) -> None:
    text = "the file of a pass: run the checks only if these are not the machines of the pass (PRELAUNCH_CONFIRM)"
    parser.add_argument("--confirm", help=text)
    text = "accept the machines of the pass in any order, recognised by the token that --keep wrote (PRELAUNCH_POOLED)"
    parser.add_argument("--pooled", action="store_true", help=text)
    text = "start COMMAND whatever the verdict is (PRELAUNCH_OBSERVE)"
    parser.add_argument("--observe", action="store_true", help=text)
    text = "how many seconds to wait for an approval if the policy requires one (PRELAUNCH_ASK_S)"
    parser.add_argument("--ask-s", help=text)
    text = "the folder or s3:// prefix where the approval appears as <attempt>.json (PRELAUNCH_ANSWERS)"
    parser.add_argument("--answers", help=text)


def _command(parser: argparse.ArgumentParser) -> None:
    text = "a file that holds the command as a JSON list of words (PRELAUNCH_COMMAND_FILE)"
    parser.add_argument("--command-file", help=text)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
