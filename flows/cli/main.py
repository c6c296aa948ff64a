"""The `prelaunch` command. A command's module is imported only when that command is called."""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from checks.command_line import UsageError, quoted
from checks.exit_codes import Exit
from checks.process import inheritance
from checks.process.collection import without_collection
from flows.cli import output
from flows.cli.verbs import VERBS, add_arguments, command_of, empty_parser, help_text, nearest_command
from tasks.reports.command_line import StdoutUnwritable, Terminated

# The commands that start a gate, and what is known of it if a signal ends them here.
GATES = {
    "gate": "before the gate began: nothing was started",
    "run start": "before the run was followed: Prefect shows whether one was started",
}
FILES = ("junit", "summary", "html")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code. Never a traceback, unless PRELAUNCH_DEBUG=1 asks for one."""
    typed = list(sys.argv[1:] if argv is None else argv)
    inheritance.restore_defaults()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)
    output.begin_output()
    try:
        return _run(typed)
    except UsageError as error:
        return _refuse(typed, error)
    except Terminated:
        return _end(typed, signal.SIGTERM, Exit.TERMINATED)
    except KeyboardInterrupt:
        return _end(typed, signal.SIGINT, Exit.INTERRUPTED)
    except BrokenPipeError:
        output.quiet_stdout()
        return Exit.CANNOT_TELL
    except StdoutUnwritable as error:  # what nobody can read was not said
        output.write_stderr(f"prelaunch: {error}")
        return Exit.CANNOT_TELL
    except Exception as error:  # noqa: BLE001 - an error of ours must never read as a go
        return _failed(typed, error)


def _run(argv: list[str]) -> int:
    if argv[:1] in (["-h"], ["--help"]):
        output.write_stdout(help_text())
        return Exit.GO
    parser, parsers = empty_parser()
    command = command_of(argv)
    typed = next(iter(argv[len(command.split()) :]), "")
    near = nearest_command(command, typed)
    if chosen := near or command:
        with without_collection():
            add_arguments(chosen, parsers[chosen])
    if near:  # the usage of the nearest command is printed where one is misspelt
        usage, hint = parsers[near].format_usage().strip(), f"Did you mean prelaunch {near}?"
        raise UsageError(f"unknown command {quoted(typed)}", usage, near, hint)
    try:
        arguments = parser.parse_args(argv)
    except SystemExit:  # --help of a command and --version have said what was asked
        return 0
    if not hasattr(arguments, "run"):
        parser.error("no command was given. The commands are: " + ", ".join(VERBS))
    try:
        return int(arguments.run(arguments))
    except SystemExit as exit_:  # a library that ends the program has judged nothing
        raise RuntimeError(f"a library asked to exit with {exit_.code!r}") from exit_


def _refuse(argv: list[str], error: UsageError) -> int:
    _error_document(argv, error.message, error.nearest)
    output.say_rejected(error)
    output.write_rejected(_page_files(argv), _gate_name(argv), error)
    output.write_stderr(error.usage)
    return Exit.REJECTED


def _failed(argv: list[str], error: Exception) -> int:
    """Report an error that ended a verb: one of its input or its store, of the Prefect server, or one of ours."""
    from flows.cli.rejection import report_error

    form = "json" if _asks_for_json(argv) and not output.stdout_has_something() else "text"
    code = report_error(form, error) if command_of(argv) not in GATES else None
    if code is not None:
        return code
    if os.environ.get("PRELAUNCH_DEBUG") == "1":
        raise error
    from flows.cli.prefect_server import fault_text  # few commands have a server

    if fault := fault_text(error):
        return output.report_failure(form, fault, Exit.NO_CAPACITY)
    first = f"{type(error).__name__}: {error}".splitlines()[0][:400]
    text = f"this is an error in prelaunch itself, so there is no verdict: {first}. Set PRELAUNCH_DEBUG=1 to see the traceback."
    return output.report_failure(form, text, Exit.CANNOT_TELL)


def _error_document(argv: list[str], message: str, near: str | None = None) -> None:
    if _asks_for_json(argv) and not output.stdout_has_something():
        output.write_stdout(output.json_text(output.rejection(None, None, message, near)))


def _end(argv: list[str], number: signal.Signals, code: int) -> int:
    for heeded in (signal.SIGINT, signal.SIGTERM):
        signal.signal(heeded, signal.SIG_IGN)  # a second one would interrupt what is said of the first
    message = f"cancelled by {number.name}"
    if not _write_cancellation(argv, message):
        _error_document(argv, message)
    output.quiet_stdout()
    output.write_stderr(f"prelaunch: {message}")
    return code


def _asks_for_json(argv: Sequence[str]) -> bool:
    """Whether one JSON document is to be printed."""
    return "json" in _typed_values(argv, "--format")


def _write_cancellation(argv: Sequence[str], message: str) -> bool:
    """Write how a gate ended before it began, to stdout if JSON was asked for, and to the files; False for other commands."""
    if command_of(argv) not in GATES or output.stdout_has_something():
        return False
    from tasks.gate.outcome import CANCELLED, unjudged_json

    reason = f"{message} {GATES[command_of(argv)]}"
    line = f"{CANCELLED} {_gate_name(argv)}: {reason}"
    if _asks_for_json(argv):
        output.write_stdout(output.json_text(unjudged_json(reason, line), by_name=False))
    output.write_cancelled(_page_files(argv), _gate_name(argv), reason)
    output.annotate_end(line, 1)
    return True


def _page_files(argv: Sequence[str]) -> argparse.Namespace:
    typed = {name: _typed_values(argv, f"--{name}") for name in FILES}
    return argparse.Namespace(**{name: Path(paths[-1]) if paths else None for name, paths in typed.items()})


def _typed_values(argv: Sequence[str], option: str) -> list[str]:
    values = [value for name, value in itertools.pairwise(argv) if name == option]
    return values + [argument.partition("=")[2] for argument in argv if argument.startswith(f"{option}=")]


def _gate_name(argv: Sequence[str]) -> str:
    """The gate's name, as far as it is known: its file's."""
    if len(argv) > 1 and argv[0] == "gate" and not argv[1].startswith("-"):
        return Path(argv[1]).stem
    return command_of(argv) or "prelaunch"


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
