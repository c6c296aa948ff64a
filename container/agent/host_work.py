"""What a host does after the roll call: only the checks, the checks and then the command, or only the command.

A person's answer is brought to the checks that wait for it here: <prefix>/<attempt>.json -> out/<attempt>/answer.json.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from checks import bundle as bundles
from checks.bundle import Bundle
from checks.documents.answer import ANSWER, ANSWER_BYTES, ASKING, load_answer
from checks.documents.decode import decode, parse_json
from checks.exchange import secret_key
from checks.exit_codes import Exit
from checks.process.tree import as_started
from checks.process.whole_file import write_whole
from checks.runner.deadline import ANSWER_S
from checks.runner.in_job.spares import Choice
from checks.value_types import DecodeError
from container.agent import check_command, supervisor
from container.agent.check_command import AgentContext
from container.agent.files import inputs
from container.agent.files.exit_record import say
from container.agent.machine import dcgm_host_engine, pool_token
from container.agent.settings import Verb
from container.agent.supervisor import Signals

# How often an answer is looked for: here, whether the checks ask, and then at its place.
LOOK_S = 0.5
FIRST_S, MOST_S = 2.0, 15.0


class Answers:
    """A thread that fetches the answer. It asks only while this host waits, and until it has an answer to this attempt."""

    def __init__(self, source: str, gate_id: str, folder: Path, node: str) -> None:
        self._place = f"{source.rstrip('/')}/{folder.name}.json"
        self._gate_id, self._folder = gate_id, folder
        self._asking, self._started = folder / ASKING / node, folder / "started" / node
        self._closing = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        if source:
            self._thread.start()

    def close(self) -> None:
        """Stop asking."""
        self._closing.set()

    def _run(self) -> None:
        wait = LOOK_S
        while not self._closing.wait(wait):
            # Path.exists raises an error where the folder that the nodes share fails for a moment.
            if os.path.exists(self._started):
                return
            if not os.path.exists(self._asking):
                wait = LOOK_S
            elif self._brought():
                return
            else:
                wait = FIRST_S if wait < FIRST_S else min(wait * 1.3, MOST_S)

    def _brought(self) -> bool:
        try:
            data = inputs.fetch(self._place, ANSWER_BYTES)
            load_answer(data, self._gate_id, self._folder.name)
            write_whole(self._folder / ANSWER, data)
        except inputs.InputMissing:
            return False
        except (inputs.FetchError, DecodeError, OSError) as error:
            self._say(f"no answer from {self._place}: {error}")
            return False
        say(f"an answer came: {self._place}")
        return True

    def _say(self, message: str) -> None:
        if message != self._said:
            self._said = message
            say(message)


START_S = 10.0  # Python starts within them on a busy host; the checks' own clock begins then


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


def check(context: AgentContext, token: str, bundle: Bundle) -> Ended:
    """The gate and, if there is one, the command behind it."""
    signals, settings, folder = context.signals, context.settings, context.settings.out / token
    environment = check_command.environment(context, token, as_started(os.environ), _pool_token(context))
    if done := dcgm_host_engine.ensure(bundle.declared.gpus_per_node):
        say(done)
    source = settings.answers if settings.verb is Verb.GATE and settings.ask_s else ""
    node = context.hosts.node
    answers = Answers(source, context.gate_id, folder, node)
    started = (context.scratch / "scratch" / "started", folder / "started" / node)
    ends = (*started, folder / "verdicts" / f"{node}.json", folder / "failure" / node)
    answer_by = time.monotonic() + bundle.deadline_s + ANSWER_S + START_S
    argv, overdue = check_command.arguments(context), partial(_is_overdue, ends, answer_by, [])
    try:
        code = supervisor.run(argv, environment, signals, settings.patience_s, context.scratch, overdue)
    except OSError as error:
        return Ended(Exit.CANNOT_TELL, f"cannot_tell: the checks could not be started: {error}")
    finally:
        answers.close()
    if signals.number:
        return interrupted(signals)
    return _after_gate(code, folder, node, settings.verb, any(map(os.path.exists, started)))


def take_choice(context: AgentContext) -> Choice | None:
    """Which nodes go on, if the checks of a job with spares wrote that; nothing is left of them for those that run again."""
    try:
        choice = decode(
            Choice, parse_json((context.scratch / check_command.CHOICE).read_bytes(), inputs.PASS_BYTES)
        )
    except (OSError, DecodeError):
        return None
    shutil.rmtree(context.scratch / "scratch", ignore_errors=True)
    return choice


def _is_overdue(ends: Sequence[Path], answer_by: float, hits: list[Path]) -> bool:
    """Whether the checks hang: their deadline is long over, and there is neither a verdict nor a command that runs.

    What is in `hits` is not looked for again, and a look that fails says nothing: a training may empty its folder, and the folder
    that nodes share may fail for a moment.
    """
    if not hits and time.monotonic() > answer_by:
        with suppress(OSError):
            hits += [path for path in ends if path.exists()]
            return not hits
    return False


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


def _after_gate(code: int, folder: Path, node: str, verb: Verb, started: bool) -> Ended:
    """The command's own exit code, or the gate's if no command started."""
    if started:
        return Ended(code, f"the command ended with exit code {code}" if code else "")
    if verb is Verb.CHECK and code == Exit.GO and os.path.exists(folder / "verdicts" / f"{node}.json"):
        return Ended(Exit.GO, "")
    try:
        text = (folder / "failure" / node).read_text(errors="replace").strip()
    except OSError:
        text = f"cannot_tell: the checks ended with exit code {code} and left no reason"
        if verb is Verb.CHECK and code != Exit.REJECTED:
            code = Exit.CANNOT_TELL
    code = code or Exit.CANNOT_TELL
    return Ended(code, text) if verb is Verb.CHECK else Ended(code, f"the command was not started: {text}")
