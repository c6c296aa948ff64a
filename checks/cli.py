"""The command line on a node: list, run, judge, gate, watch, findings. The exit codes are those of the gate: 0 go, 1 no-go, 2
rejected, 3 cannot tell.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checks.command_line import InputError, Parser, PlaceError, UsageError, number
from checks.exit_codes import Exit
from checks.facts import person_options
from checks.model import Profile
from checks.process import inheritance
from checks.process.collection import without_collection
from checks.process.stderr import say
from checks.watch import commands

if TYPE_CHECKING:
    from checks.runner.node_context import NodeContext

# The catalogue as a file, which tests keep equal to it: to list the checks, all their modules would have to be imported.
LISTING = Path(__file__).with_name("catalog.json")
POLICY = "policy as JSON (or TOML from Python 3.11 on)"
ASKED_S = 28 * 86400.0  # an approval is never waited for longer than a training job may run


def main(argv: list[str], prog: str = "python -m checks") -> int:
    """Runs one command and returns the exit code. What a user can cause never ends in a traceback."""
    inheritance.restore_defaults()
    parser = Parser(prog=prog, description="Health checks of this node.")
    add_verbs(parser)
    try:
        arguments = parser.parse_args(argv)
    except UsageError as error:
        say(f"{prog}: {error}\n{error.usage}")
        return Exit.REJECTED
    return execute(arguments)


def execute(arguments: argparse.Namespace) -> int:
    """Runs the command that was parsed."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, _interrupted)
    for harmless in inheritance.FOR_TRAINING:
        signal.signal(harmless, signal.SIG_IGN)
    try:
        code: int = arguments.verb(arguments)
    except Interrupted as signalled:
        say("checks: interrupted; all its processes have ended.")
        return 128 + signalled.number
    except (InputError, PlaceError) as error:
        say(f"checks: {error}")
        return Exit.REJECTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.CANNOT_TELL
    except OSError as error:
        say(f"checks: {error.filename or arguments}: {error.strerror}")
        return Exit.CANNOT_TELL
    except Exception:  # noqa: BLE001 - the last resort: Python's own exit code would read as no-go
        import traceback

        say(f"checks: an error of the checks themselves, so they cannot tell:\n{traceback.format_exc()}")
        return Exit.CANNOT_TELL
    return code


class Interrupted(KeyboardInterrupt):
    """A signal that ends the run. Processes that the run started are ended before it exits."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _interrupted(number: int, frame: object) -> None:
    raise Interrupted(number)


def add_verbs(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Adds the commands; returns what further ones can be added to."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="list the checks, and which of them the watch runs beside a job")
    listing.add_argument("--format", choices=("text", "json"), default="text")
    listing.set_defaults(verb=_list)
    text = "import each Python module that the checks need, and name what is missing"
    verbs.add_parser("modules", help=text).set_defaults(verb=_modules)
    running = verbs.add_parser("run", help="check this node, or all ranks when started by torchrun")
    text = "the gate's bundle; without it, --profile and --instance-type are used"
    running.add_argument("--bundle", type=Path, metavar="FILE", help=text)
    running.add_argument("--profile", choices=[p.value for p in Profile], default=Profile.QUICK.value)
    text = "the instance type of this machine, such as cpu or p5.48xlarge, or the file that prelaunch node machine wrote"
    running.add_argument("--instance-type", help=text)
    running.add_argument("--policy", type=Path, metavar="FILE", help=POLICY)
    text = "the file of the report; with --bundle, the folder"
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help=text)
    person_options.add_arguments(running)
    running.set_defaults(verb=_run)
    judging = verbs.add_parser("judge", help="print the verdict on a report")
    judging.add_argument("report", type=Path, metavar="REPORT")
    judging.add_argument("--policy", type=Path, metavar="FILE", help=POLICY)
    judging.add_argument("--format", choices=("text", "json"), default="text")
    judging.set_defaults(verb=_judge)
    _gate_parser(verbs)
    prolog = verbs.add_parser("prolog", help="check this node before a job: for Slurm's Prolog")
    _hook_options(prolog, "fail")
    text = "check this node from time to time: for Slurm's HealthCheckProgram"
    health = verbs.add_parser("healthcheck", help=text)
    _hook_options(health, "pass")
    health.add_argument("--drain", action="store_true", help="drain this node with scontrol if it fails")
    health.add_argument("--node", default="", help="Slurm's name of this node (default: its own name)")
    commands.add_verbs(verbs)
    return verbs


def _gate_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "run the checks, decide, and after a pass start COMMAND on every host, if one is given"
    gating = verbs.add_parser("gate", help=text)
    gating.add_argument("--bundle", type=Path, required=True, metavar="FILE", help="the gate's bundle")
    text = "folder for reports, verdicts and the failure file"
    gating.add_argument("--out", type=Path, required=True, metavar="FOLDER", help=text)
    text = "file of an earlier pass: if these are its machines, the checks are not run again"
    gating.add_argument("--confirm", type=Path, metavar="FILE", help=text)
    text = "accept the pass's machines under any name and in any order, identified by the token of their pool"
    gating.add_argument("--pooled", action="store_true", help=text)
    text = "wait this long for an approval in OUT/ATTEMPT/answer.json if the policy requires one"
    text = "with spares: write here which hosts go on, for who starts the checks on them again; without it they go on themselves"
    gating.add_argument("--choice", type=Path, metavar="FILE", help=text)
    gating.add_argument("--ask-s", type=number(0.0, ASKED_S, "seconds"), default=0.0, help=text)
    text = "check and record, then start COMMAND whatever the verdict is"
    gating.add_argument("--observe", action="store_true", help=text)
    gating.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    gating.set_defaults(verb=_gate)


def _hook_options(parser: argparse.ArgumentParser, otherwise: str) -> None:
    parser.add_argument("--instance-type", required=True, help="the instance type of this machine")
    parser.add_argument("--policy", type=Path, metavar="FILE", help=POLICY)
    text = "how many seconds the checks may take (default 30)"
    parser.add_argument("--deadline-s", type=number(1.0, 86400.0, "seconds"), default=30.0, help=text)
    text = f"how to end where something could not be measured (default {otherwise})"
    parser.add_argument("--cannot-tell", choices=("fail", "pass"), default=otherwise, help=text)
    parser.set_defaults(verb=_hook, profile=Profile.QUICK.value, option=[], drain=False, node="")


def _hook(arguments: argparse.Namespace) -> int:
    from checks.runner import slurm_hooks

    return slurm_hooks.run(arguments)


def _list(arguments: argparse.Namespace) -> int:
    lines = json.loads(LISTING.read_bytes())
    if arguments.format == "json":
        print(json.dumps(lines))
        return Exit.GO
    for line in lines:
        where = " (beside a job)" if line["beside_job"] else ""
        where = " (only the watch)" if line["watch_only"] else where
        head = f"{line['name']:<24} {line['scope']:<4} {line['cost']:<7}"
        print(f"{head} {line['summary']} [{line['needs']}]{where}")
    return Exit.GO


def _modules(arguments: argparse.Namespace) -> int:
    """What the build of the image runs. It fails if a module is missing or cannot be imported."""
    from checks import catalog, image_requirements

    missing = []
    for name in image_requirements.needed(catalog.CATALOG):
        try:
            print(f"{name}: {image_requirements.load(name).__file__}")
        except Exception as error:  # noqa: BLE001 - an extension module raises anything, and each is named
            missing.append(name)
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    return Exit.REJECTED if missing else Exit.GO


def _run(arguments: argparse.Namespace) -> int:
    with without_collection():
        from checks.runner import node_run, single_node, under_torchrun
        from checks.runner.in_job import open_findings
        from checks.runner.journal import ReportWriteError

    try:
        if "TORCHELASTIC_RUN_ID" in os.environ:
            return under_torchrun.run(arguments)
        if arguments.bundle is None:
            return single_node.run(arguments)
        if arguments.option:
            say("checks run: --option is for a run without --bundle, which has its own numbers.")
            return Exit.REJECTED
        node_context = _node_context(arguments)
        journal = node_run.run(node_context, attempt(), arguments.out)
        open_findings.settle_alone(node_context.bundle.policy, journal.report)
    except ReportWriteError as error:
        say(f"checks: {error}")
        return Exit.CANNOT_TELL
    return Exit.GO


def _judge(arguments: argparse.Namespace) -> int:
    from checks.runner import single_node

    return single_node.judge(arguments.report, arguments.policy, arguments.format)


def _gate(arguments: argparse.Namespace) -> int:
    with without_collection():
        from checks.exchange.secret_key import KeyUnavailable, require_removable

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    node_context = _node_context(arguments)
    try:
        if command:
            require_removable(node_context.key_path)
    except KeyUnavailable as error:
        raise PlaceError(str(error)) from error
    return _gate_start(arguments, command, node_context, attempt())


def _gate_start(
    arguments: argparse.Namespace, command: Sequence[str], node_context: NodeContext, token: str
) -> int:
    """One start of the gate. Of a job with spares the hosts that go on without a failed one begin another one."""
    with without_collection():
        from checks.runner.in_job import job_gate
        from checks.runner.in_job.hold import Refusal
        from checks.runner.in_job.spares import Choice

    ask_s = 0.0 if arguments.observe else arguments.ask_s
    confirm, pooled = arguments.confirm, arguments.pooled
    try:
        answer = job_gate.gate(node_context, token, arguments.out, confirm, pooled, ask_s, bool(command))
    except Interrupted as signalled:
        reason = (
            f"cannot_tell: ended by {signal.Signals(signalled.number).name} before every host held the pass"
        )
        job_gate.write_failure(node_context, token, arguments.out, Refusal(Exit.CANNOT_TELL, reason))
        raise
    if isinstance(answer, Choice):
        say(f"checks gate: {', '.join(answer.nodes)} go on without the other nodes")
        if arguments.choice is not None:
            job_gate.write_choice(arguments.choice, answer)
        elif node_context.node in answer.nodes:
            again = job_gate.context_of_chosen(node_context, answer)
            return _gate_start(arguments, command, again, answer.attempt)
        return Exit.GO
    if isinstance(answer, Refusal):
        say(f"checks gate: {answer.reason}")
        job_gate.write_failure(node_context, token, arguments.out, answer)
        if not (arguments.observe and command):
            return answer.code
        say("checks gate: observe mode, the command starts all the same")
    if not command:
        return Exit.GO
    try:
        passed = None if isinstance(answer, Refusal) else answer
        job_gate.start(node_context, token, arguments.out, command, passed)
    except OSError as error:
        say(f"checks gate: {command[0]} cannot be started: {error.strerror}")
    return Exit.NOT_FOUND


def _node_context(arguments: argparse.Namespace) -> NodeContext:
    from checks.runner.node_context import open_node_context

    roster, node = os.environ.get("PRELAUNCH_ROSTER"), os.environ.get("PRELAUNCH_NODE")
    if not roster or not node:
        raise PlaceError(
            "PRELAUNCH_ROSTER and PRELAUNCH_NODE must say where this node is. The launcher sets them."
        )
    scratch = Path(os.environ.get("PRELAUNCH_SCRATCH") or f"scratch-{node}").resolve()
    return open_node_context(arguments.bundle.resolve(), Path(roster), node, scratch)


def attempt() -> str:
    """The identifier of this start: the launcher's, or a new one."""
    import uuid

    return os.environ.get("PRELAUNCH_ATTEMPT") or uuid.uuid4().hex
