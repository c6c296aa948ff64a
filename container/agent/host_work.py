"""What a host does after the roll call: only the checks, the checks and then the command, or only the command."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass

from checks import bundle as bundles
from checks.bundle import Bundle
from checks.exchange import secret_key
from checks.exit_codes import Exit
from checks.process.tree import as_started
from checks.process.whole_file import write_whole
from checks.runner.deadline import ANSWER_S
from checks.value_types import DecodeError
from container.agent import check_command, supervisor
from container.agent.answers import Answers
from container.agent.check_command import AgentContext
from container.agent.files.exit_record import say
from container.agent.machine import dcgm_host_engine, pool_token
from container.agent.merged_report import Attempt, Settlement
from container.agent.settings import Verb
from container.agent.signals import Signals

START_S = 10.0  # Python starts within them on a busy host; the checks' own clock begins then
SETTLE_S = 15.0  # how long reports may take to come together after a signal, of SageMaker's 120 s


@dataclass(frozen=True)
class Ended:
    """The exit code, and the reason if that is not 0."""

    code: int
    reason: str


def interrupted(signals: Signals) -> Ended:
    """The end of work that a signal interrupted."""
    return Ended(128 + signals.number, f"ended by {signals.name}; the reports are as far as they came")


def execute(context: AgentContext, token: str) -> Ended:
    """Run the command without checks: its exit code, or why it could not be started."""
    signals, settings = context.signals, context.settings
    argv = check_command.arguments(context)
    if shutil.which(argv[0]) is None:
        return Ended(Exit.NOT_FOUND, f"the command was not started: there is no program {argv[0]}")
    try:
        write_whole(settings.out / token / "started" / context.hosts.node, b"")
        environment = check_command.environment(context, token, as_started(os.environ))
        secret_key.remove(context.key_path)
        code = supervisor.run(argv, environment, signals, settings.patience_s)
    except OSError as error:
        return Ended(Exit.CANNOT_TELL, f"the command was not started: {error.filename}: {error.strerror}")
    if signals.number:
        return interrupted(signals)
    return Ended(code, f"the command ended with exit code {code}" if code else "")


def check(context: AgentContext, attempt: Attempt, bundle: Bundle, whole: Callable[[], None]) -> Ended:
    """The checks and, with a command, the gate in front of it. `whole` is called once the report is."""
    signals, settlement = context.signals, Settlement(attempt, whole)
    environment = check_command.environment(
        context, attempt.token, as_started(os.environ), _pool_token(context)
    )
    if done := dcgm_host_engine.ensure(bundle.declared.gpus_per_node):
        say(done)
    asks = context.settings.verb is Verb.GATE and context.settings.ask_s
    source = context.settings.answers if asks else ""
    answers = Answers(source, context.gate_id, attempt.folder, attempt.node)
    try:
        patience_s = context.settings.patience_s
        overdue = _overdue(attempt, time.monotonic() + bundle.deadline_s + ANSWER_S + START_S)
        code = supervisor.run(
            check_command.arguments(context), environment, signals, patience_s, context.scratch, overdue
        )
    except OSError as error:
        settlement.finish(f"its checks could not be started: {error}")
        return Ended(Exit.CANNOT_TELL, f"cannot_tell: the checks could not be started: {error}")
    finally:
        answers.close()
    settlement.finish(_last_words(code, signals, attempt))
    begun = time.monotonic()
    answer = settlement.wait(
        lambda: bool(signals.number) and time.monotonic() - max(begun, signals.at) > SETTLE_S
    )
    if signals.number:
        return interrupted(signals)
    if context.settings.verb is Verb.GATE:
        return _after_gate(code, attempt)
    if code == 0:
        return Ended(answer.code, answer.said if answer.code else "")
    rejected = code == Exit.REJECTED
    worst = Exit.REJECTED if rejected else Exit.NO_GO if answer.code == Exit.NO_GO else Exit.CANNOT_TELL
    return Ended(worst, f"the checks ended with exit code {code}; {answer.said}")


def _overdue(attempt: Attempt, answer_by: float) -> Callable[[], bool]:
    """Whether the checks hang: their deadline is long over, and there is neither a verdict nor a command that runs."""
    node, folder = attempt.node, attempt.folder
    answers = (folder / "verdicts" / f"{node}.json", folder / "started" / node, folder / "failure" / node)
    return lambda: time.monotonic() > answer_by and not any(path.exists() for path in answers)


def _pool_token(context: AgentContext) -> str:
    """A new token if the machine is to be kept, the machine's own token if it was kept, else ""."""
    cache = pool_token.folder(context.settings.root, os.environ)
    if context.settings.keep:
        return pool_token.leave(cache, context.gate_id)
    if not context.settings.pooled:
        return ""
    try:
        checked_by = bundles.load_pass((context.scratch / "pass.json").read_bytes()).gate_id
    except (OSError, DecodeError):
        return ""  # the checks read the pass as well, and say so
    return pool_token.find(cache, checked_by)


def _after_gate(code: int, attempt: Attempt) -> Ended:
    """The command's own exit code, or the gate's if the command did not start."""
    if (attempt.folder / "started" / attempt.node).exists():
        return Ended(code, f"the command ended with exit code {code}" if code else "")
    try:
        said = (attempt.folder / "failure" / attempt.node).read_text(errors="replace").strip()
    except OSError:
        said = f"the gate ended with exit code {code} and left no reason"
    return Ended(code or Exit.CANNOT_TELL, f"the command was not started: {said}")


def _last_words(code: int, signals: Signals, attempt: Attempt) -> str:
    if signals.number:
        return f"its agent was ended by {signals.name}"
    started = (attempt.folder / "started" / attempt.node).exists()
    return f"its checks ended with exit code {code}" if code and not started else ""
