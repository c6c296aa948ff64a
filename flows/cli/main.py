"""The `prelaunch` command. A verb's module is imported when that verb is asked for, and not before.

UsageError          the command line is wrong: exit 2
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

# verb -> (module with add_arguments(parser) and run(arguments) -> int, what --help says of it)
VERBS = {
    "gate": ("flows.cli.gate", "check the nodes, decide, then launch the training, ask, or page"),
    "plan": ("flows.cli.plan", "print what a gate would run, and start nothing"),
    "judge": ("flows.cli.judge", "the verdict on reports, from the reports alone"),
    "render": ("flows.cli.render", "a report as HTML, Markdown or JUnit, for people"),
    "facts": ("flows.cli.facts", "what is known of an instance type, and what it is held to"),
}
EXIT_CODES = (
    "exit codes: 0 go, 1 no-go, 2 rejected before anything started, 3 cannot tell, "
    "4 launch or training failed after a go, 5 no capacity or a service error, 130 and 143 interrupted"
)
REJECTED, CANNOT_TELL, INTERRUPTED, TERMINATED = 2, 3, 130, 143


class UsageError(Exception):
    """The command line is wrong. `usage` is the line that shows how it goes."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


class Terminated(KeyboardInterrupt):
    """SIGTERM: the same way out as Ctrl-C, with its own exit code."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage().strip())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code. Never a traceback, unless PRELAUNCH_DEBUG=1 asks for one."""
    words = list(sys.argv[1:] if argv is None else argv)
    _heed_sigterm()
    try:
        return _run(words)
    except UsageError as error:
        return _refuse(words, error)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 0
    except Terminated:
        return _end("terminated", TERMINATED)
    except KeyboardInterrupt:
        return _end("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _quiet()
        return CANNOT_TELL
    except Exception as error:  # the last resort: an error of ours must never read as a go
        if os.environ.get("PRELAUNCH_DEBUG") == "1":
            raise
        return _internal(words, error)


def _run(words: list[str]) -> int:
    parser, verbs = _parser()
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen in VERBS and words[0] == chosen:
        module = importlib.import_module(VERBS[chosen][0])
        module.add_arguments(verbs[chosen])
        verbs[chosen].set_defaults(run=module.run)
    arguments = parser.parse_args(words)
    if not hasattr(arguments, "run"):
        parser.error("which verb? One of " + ", ".join(VERBS))
    code: int = arguments.run(arguments)
    sys.stdout.flush()
    return code


def _parser() -> tuple[_Parser, dict[str, _Parser]]:
    from checks.version import ENGINE

    parser = _Parser(
        prog="prelaunch",
        description="Go or no-go for a distributed training job, proven on the machines it will use.",
        epilog=EXIT_CODES,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"prelaunch {ENGINE}")
    group = parser.add_subparsers(metavar="VERB", title="verbs")
    made = {
        verb: group.add_parser(verb, help=text, description=text, epilog=EXIT_CODES, allow_abbrev=False)
        for verb, (_, text) in VERBS.items()
    }
    return parser, made


def _refuse(words: list[str], error: UsageError) -> int:
    from flows.cli.output import write_stderr

    _error_document(words, str(error))
    write_stderr(f"{error.usage}\nprelaunch: {error}")
    return REJECTED


def _internal(words: list[str], error: Exception) -> int:
    from flows.cli.output import write_stderr

    said = f"an error of prelaunch itself, so it cannot tell: {type(error).__name__}: {error}".splitlines()[
        0
    ][:500]
    _error_document(words, said)
    write_stderr(f"prelaunch: {said}. PRELAUNCH_DEBUG=1 shows where.")
    return CANNOT_TELL


def _error_document(words: list[str], message: str) -> None:
    pairs = zip(words, [*words[1:], ""], strict=True)
    if "--format=json" in words or ("--format", "json") in pairs:
        from flows.cli.output import json_text, rejection, write_stdout

        write_stdout(json_text(rejection(None, None, message)))


def _end(word: str, code: int) -> int:
    _quiet()
    print(f"prelaunch: {word}", file=sys.stderr)
    return code


def _quiet() -> None:
    """What is still in stdout's buffer goes nowhere: half a document helps nobody."""
    from flows.cli.output import quiet_stdout

    quiet_stdout()


def _heed_sigterm() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
