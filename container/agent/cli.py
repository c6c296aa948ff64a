"""The agent's command line. SageMaker calls it with `train`; everything else names what it does."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from container.agent import life, sagemaker, settings
from container.agent.settings import Settings, SettingsError
from container.agent.signals import Signals

EXIT_REJECTED = 2


def main(argv: Sequence[str]) -> int:
    """Run the checks, or the checks and then a command; returns the exit code. A report is left in any case."""
    if argv and argv[0] == "checks":
        os.execv(sys.executable, (sys.executable, "-m", "checks", *argv[1:]))
    arguments = _parser().parse_args(argv)
    signals = Signals()
    signals.install()
    try:
        made = read(arguments)
    except SettingsError as error:
        life.reject(Path(arguments.root), str(error))
        return EXIT_REJECTED
    return life.live(made, signals)


def read(arguments: argparse.Namespace) -> Settings:
    """The settings from arguments, environment and SageMaker's hyperparameters. Raises SettingsError."""
    root = Path(arguments.root)
    command = arguments.command
    given = {
        "bundle": arguments.bundle,
        "out": arguments.out,
        "upload": arguments.upload,
        "confirm": arguments.confirm,
        "observe": "1" if arguments.observe else None,
    }
    hyperparameters = sagemaker.hyperparameters(root)
    made = settings.make(root, given, dict(os.environ), hyperparameters)
    if arguments.verb == "check":
        return settings.with_command(made, ())
    if arguments.verb == "gate":
        words = tuple(command[1:] if command[:1] == ["--"] else command)
        if not words:
            raise SettingsError("gate has no command. Give it after --, or say `check`.")
        return settings.with_command(made, words)
    return made


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="prelaunch-agent", description=__doc__)
    parser.set_defaults(command=[])
    verbs = parser.add_subparsers(required=True, dest="verb", metavar="VERB")
    verbs.add_parser("checks", help="`python -m checks` as it is: list, run, judge, gate", add_help=False)
    for name, said in (
        ("train", "what SageMaker calls: the checks, then PRELAUNCH_COMMAND where there is one"),
        ("check", "the checks alone; the exit code is the verdict's"),
        ("gate", "the checks, and the command after -- once every host holds the pass"),
    ):
        _options(verbs.add_parser(name, help=said))
    verbs.choices["gate"].add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    return parser


def _options(parser: argparse.ArgumentParser) -> None:
    root = os.environ.get("PRELAUNCH_ROOT") or sagemaker.ROOT
    parser.add_argument(
        "--root", default=root, help=f"the folder that SageMaker gives, default {sagemaker.ROOT}"
    )
    parser.add_argument("--bundle", help="the gate's bundle: a file or an s3:// URL (PRELAUNCH_BUNDLE)")
    parser.add_argument("--out", help="folder of the reports, default ROOT/output/data (PRELAUNCH_OUT)")
    parser.add_argument("--upload", help="a folder or an s3:// prefix to copy them to (PRELAUNCH_UPLOAD)")
    parser.add_argument(
        "--confirm", help="a pass: check only if these are not its machines (PRELAUNCH_CONFIRM)"
    )
    parser.add_argument(
        "--observe", action="store_true", help="start COMMAND whatever was seen (PRELAUNCH_OBSERVE)"
    )
