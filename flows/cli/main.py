"""The `prelaunch` command. A command's module is imported only when that command is called."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from types import FrameType

from checks.command_line import Parser, UsageError
from checks.documents.decode import nearest
from checks.exit_codes import Exit
from checks.process import inheritance
from checks.process.collection import without_collection
from flows.cli.early_end import asks_for_json, write_early_cancellation, write_early_rejection
from flows.cli.intentions import intended, missing_verb
from flows.cli.output import (
    begin_output,
    json_text,
    quiet_stdout,
    rejection,
    stdout_has_something,
    write_stderr,
    write_stdout,
)
from flows.cli.verbs import VERBS, add_verb, empty_parser
from tasks.reports.command_line import StdoutUnwritable, Terminated

__all__ = ["VERBS", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code. Never a traceback, unless PRELAUNCH_DEBUG=1 asks for one."""
    words = list(sys.argv[1:] if argv is None else argv)
    inheritance.restore_defaults()
    _heed_sigterm()
    begin_output()
    try:
        return _run(words)
    except UsageError as error:
        return _refuse(words, error)
    except Terminated:
        return _end(words, signal.SIGTERM, Exit.TERMINATED)
    except KeyboardInterrupt:
        return _end(words, signal.SIGINT, Exit.INTERRUPTED)
    except BrokenPipeError:
        quiet_stdout()
        return Exit.CANNOT_TELL
    except StdoutUnwritable as error:  # what nobody can read was not said
        write_stderr(f"prelaunch: {error}")
        return Exit.CANNOT_TELL
    except Exception as error:  # the last resort: an error of ours must never read as a go
        if os.environ.get("PRELAUNCH_DEBUG") == "1":
            raise
        return _internal(words, error)


def _run(words: list[str]) -> int:
    parser, verbs = empty_parser()
    typed = words[0] if words and not words[0].startswith("-") else ""
    _require_verb_first(words, verbs)
    # Of a verb that is misspelt, the usage of the nearest one is printed.
    chosen = typed if typed in VERBS else intended(typed) or nearest(typed, list(VERBS))
    if chosen:
        with without_collection():
            add_verb(chosen, verbs[chosen])
    if chosen and typed not in VERBS and intended(typed):
        raise missing_verb(typed, verbs[chosen].format_usage().strip())
    try:
        arguments = parser.parse_args(words)
    except SystemExit:  # --help and --version have said what was asked
        return 0
    if not hasattr(arguments, "run"):
        parser.error("no command was given. The commands are: " + ", ".join(VERBS))
    try:
        return int(arguments.run(arguments))
    except SystemExit as exit_:  # a library that ends the program has judged nothing
        raise RuntimeError(f"a library asked to exit with {exit_.code!r}") from exit_


def _require_verb_first(words: list[str], verbs: Mapping[str, Parser]) -> None:
    """Refuse an option of a verb that was typed before it, which argparse would not name."""
    first = words[0].partition("=")[0] if words else ""
    verb = next((word for word in words if word in VERBS), "")
    if verb and len(first) > 2 and first.startswith("--") and first not in ("--help", "--version"):
        add_verb(verb, verbs[verb])
        meant = verbs[verb].meant_by
        instead = meant(first, "") if meant is not None else None
        usage, hint = verbs[verb].format_usage().strip(), "" if instead else "Options follow the command."
        raise UsageError(f"option {first[:60]!r} is typed before the command {verb}", usage, instead, hint)


def _refuse(words: list[str], error: UsageError) -> int:
    _error_document(words, error.message, error.nearest)
    write_early_rejection(words, error)
    write_stderr(error.usage)
    return Exit.REJECTED


def _internal(words: list[str], error: Exception) -> int:
    from flows.cli.prefect_server import fault_text  # few commands have a server

    if fault := fault_text(error):
        _error_document(words, fault)
        write_stderr(f"prelaunch: {fault}")
        return Exit.NO_CAPACITY
    first = f"{type(error).__name__}: {error}".splitlines()[0][:400]
    said = f"this is an error in prelaunch itself, so there is no verdict: {first}"
    _error_document(words, said)
    write_stderr(f"prelaunch: {said}. Set PRELAUNCH_DEBUG=1 to see the traceback.")
    return Exit.CANNOT_TELL


def _error_document(words: list[str], message: str, near: str | None = None) -> None:
    if asks_for_json(words) and not stdout_has_something():
        write_stdout(json_text(rejection(None, None, message, near)))


def _end(words: list[str], number: signal.Signals, code: int) -> int:
    for heeded in (signal.SIGINT, signal.SIGTERM):
        signal.signal(heeded, signal.SIG_IGN)  # a second one would interrupt what is said of the first
    said = f"cancelled by {number.name}"
    if not write_early_cancellation(words, said):
        _error_document(words, said)
    quiet_stdout()
    write_stderr(f"prelaunch: {said}")
    return code


def _heed_sigterm() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
