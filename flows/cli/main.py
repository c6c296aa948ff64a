"""The `prelaunch` command. A command's module is imported only when that command is called."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from checks.command_line import Parser, UsageError
from checks.documents.decode import nearest
from checks.exit_codes import Exit
from checks.process.collection import without_collection
from checks.version import ENGINE
from flows.cli.output import (
    begin_output,
    json_text,
    quiet_stdout,
    rejection,
    stdout_has_something,
    write_stderr,
    write_stdout,
)
from tasks.reports.command_line import Terminated

# verb -> (module with add_arguments(parser) and run(arguments) -> int, what --help says of it)
VERBS = {
    "gate": (
        "flows.cli.gate",
        "check the nodes, decide, then launch the training, ask a person, or notify people",
    ),
    "serve": (
        "flows.cli.serve",
        "offer the gate and commission forms on a Prefect server, and run them on this machine",
    ),
    "init": ("flows.cli.init", "write a new gate file, from answers on the terminal or from options"),
    "doctor": ("flows.cli.doctor", "look at everything that a gate needs on this machine and account"),
    "plan": (
        "flows.cli.plan",
        "print what a gate would check, start and cost, and who would be notified; nothing is started",
    ),
    "trigger": ("flows.cli.trigger", "start a run of a deployment on a Prefect server, and follow it"),
    "watch": ("flows.cli.watch", "follow a run on a Prefect server, and exit with its exit code"),
    "judge": ("flows.cli.judge", "decide: judge existing reports again, and print the verdict on each"),
    "replay": ("flows.cli.replay", "show which past verdicts would change under another policy, and why"),
    "slack": ("flows.cli.slack", "serve the buttons and the /prelaunch command of a Slack workspace"),
    "store": ("flows.cli.store", "list or index the verdicts in a store, and remove old ones"),
    "baseline": (
        "flows.cli.baseline",
        "learn from reports what your machines usually reach, or print a baseline",
    ),
    "remedy": (
        "flows.cli.remedy",
        "repair the machines that a gate condemned, prove them and give them back, as the gate file allows",
    ),
    "trend": ("flows.cli.trend", "show which machine gets worse, and in what, over many reports"),
    "explain": (
        "flows.cli.explain",
        "read the raw output of a tool: findings, and the lines that prove them",
    ),
    "check": ("flows.cli.check", "check this node now"),
    "node": (
        "flows.cli.node",
        "list the checks of a node, run or judge them there, or put a gate in front of a command",
    ),
    "machines": (
        "flows.cli.machines",
        "list the machines of a cluster: their state by the engine and by us, and every act",
    ),
    "drill": (
        "flows.cli.drill",
        "make a fault on a node, and measure when it is detected, paged, acted upon and mended",
    ),
    "slurm": ("flows.cli.slurm", "check what a Slurm cluster can do for jobs: srun, enroot, pyxis"),
    "render": ("flows.cli.render", "only format: write the verdict on a report as HTML, Markdown or JUnit"),
    "examples": (
        "flows.cli.examples",
        "copy the files that you edit (gate files, policies, prefect.yaml, systemd units) to a folder",
    ),
    "schema": ("flows.cli.schema", "print the JSON Schema of a gate file, a policy or a report, for editors"),
    "facts": ("flows.cli.facts", "print the facts about an instance type, and the thresholds of its policy"),
}
EXIT_CODES = (
    "exit codes: 0 go, 1 no-go, 2 rejected before anything started, 3 cannot tell, "
    "4 launch or training failed after a go, 5 no machines (for the checks, or after a go for the training) or a service "
    "error, 130 and 143 interrupted"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code. Never a traceback, unless PRELAUNCH_DEBUG=1 asks for one."""
    words = list(sys.argv[1:] if argv is None else argv)
    _heed_sigterm()
    begin_output()
    try:
        return _run(words)
    except UsageError as error:
        return _refuse(words, error)
    except Terminated:
        return _end(words, "terminated", Exit.TERMINATED)
    except KeyboardInterrupt:
        return _end(words, "interrupted", Exit.INTERRUPTED)
    except BrokenPipeError:
        quiet_stdout()
        return Exit.CANNOT_TELL
    except Exception as error:  # the last resort: an error of ours must never read as a go
        if os.environ.get("PRELAUNCH_DEBUG") == "1":
            raise
        return _internal(words, error)


def _run(words: list[str]) -> int:
    parser, verbs = _parser()
    typed = words[0] if words and not words[0].startswith("-") else ""
    # Of a verb that is misspelt, the usage of the nearest one is printed.
    chosen = typed if typed in VERBS else nearest(typed, list(VERBS))
    if chosen:
        with without_collection():
            module = importlib.import_module(VERBS[chosen][0])
        module.add_arguments(verbs[chosen])
        verbs[chosen].set_defaults(run=module.run)
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


def _parser() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(
        prog="prelaunch",
        description="Tests the machines that a distributed training job will run on, and decides whether it may start.",
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
    _error_document(words, error.message, error.nearest)
    write_stderr(f"{error.usage}\nprelaunch: {error}")
    return Exit.REJECTED


def _internal(words: list[str], error: Exception) -> int:
    first = f"{type(error).__name__}: {error}".splitlines()[0][:400]
    said = f"this is an error in prelaunch itself, so there is no verdict: {first}"
    _error_document(words, said)
    write_stderr(f"prelaunch: {said}. Set PRELAUNCH_DEBUG=1 to see the traceback.")
    return Exit.CANNOT_TELL


def _error_document(words: list[str], message: str, near: str | None = None) -> None:
    asked = "--format=json" in words or ("--format", "json") in itertools.pairwise(words)
    if asked and not stdout_has_something():
        write_stdout(json_text(rejection(None, None, message, near)))


def _end(words: list[str], word: str, code: int) -> int:
    _error_document(words, word)
    quiet_stdout()
    write_stderr(f"prelaunch: {word}")
    return code


def _heed_sigterm() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
