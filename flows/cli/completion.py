"""`prelaunch site completion SHELL`: the script that completes verbs, options and their values, made of the real parser by shtab."""

from __future__ import annotations

import argparse
from pathlib import Path

from checks.exit_codes import Exit
from checks.process.collection import without_collection
from flows.cli.output import write_stdout
from flows.cli.verbs import whole_parser

SHELLS = ("bash", "zsh", "fish")
# Arguments that name files or folders, besides those whose type is a path.
PATHS = ("FILE", "GATE_FILE", "REPORT", "STORE", "DIR", "CONFIG", "NEW")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.description = (
        'Prints a script that completes verbs, options and their values. bash: eval "$(prelaunch site completion bash)" in ~/.bashrc. '
        "zsh: the same in ~/.zshrc, after compinit. fish: prelaunch site completion fish > ~/.config/fish/completions/prelaunch.fish."
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    with without_collection():
        parser = whole_parser()
    for action in _actions(parser):
        if action.type is Path or action.metavar in PATHS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    write_stdout(shtab.complete(parser, arguments.shell))
    return int(Exit.GO)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The result lists the actions of the parser and of every parser below it."""
    actions = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            actions += [inner for below in action.choices.values() for inner in _actions(below)]
    return actions
