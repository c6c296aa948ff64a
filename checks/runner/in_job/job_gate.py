"""The gate inside a job: the checks run, every host gets the same verdict, and only then the command starts, in the same process.
A job of checks alone is the same gate without a command.

A few hosts decide from all hosts' reports (checks/runner/in_job/judges.py). Every host verifies the decision, publishes its pass token
on the exchange, and starts the command only once it has seen an equal token of every host. If anything is missing at the deadline the
verdict is CANNOT TELL. The first host keeps the merged report.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from checks import bundle as bundles
from checks.documents.report import MERGED_FILE, digest, dump_plain
from checks.exchange import secret_key
from checks.exchange.exchange import Responder
from checks.exit_codes import Exit
from checks.model import Answer, Verdict
from checks.process.environment import for_training, of_chosen
from checks.process.inheritance import FOR_TRAINING
from checks.process.stderr import say
from checks.process.tree import as_started, become_subreaper
from checks.process.whole_file import write_whole
from checks.runner.barrier import OK, NodeBarrier
from checks.runner.deadline import NEVER, WRITE_S, limited
from checks.runner.in_job.confirm import claim, confirm_here, found_here, twice
from checks.runner.in_job.hold import Refusal, hold
from checks.runner.in_job.judges import Panel
from checks.runner.in_job.open_findings import close_answered, open_found
from checks.runner.in_job.spares import Choice, next_attempt, without_spares
from checks.runner.journal import ReportWriteError, now
from checks.runner.node_context import NodeContext, write_node_context
from checks.runner.node_run import barrier_of, end_left, open_responder, run_beside
from checks.runner.single_node import show

R = TypeVar("R")
LINGER_S = 5.0
KEY_FD = "{key_fd}"
# After the node's deadline: the verdict may be written, then equal passes may arrive; both within the 5 s until the verdict.
WRITTEN_S, LEAVE_S = 3.5, 4.0
FAILURE_S = 5.0  # a reason that is not on disk by then is in the log


def gate(
    node_context: NodeContext,
    attempt: str,
    out: Path,
    confirm: Path | None = None,
    pooled: bool = False,
    ask_s: float = 0.0,
    trains: bool = False,
) -> Path | Refusal | Choice:
    """Hold this host until every host has the pass, or refuse. Returns the pass: the command may start on its machines. A job with
    spares that `trains` returns the choice to a host that is left out, and to all if the chosen ones have to be measured again.

    `confirm` is the pass of the machines that need no second check, `pooled` takes them under any name. Where the policy asks a person
    the hosts hold `ask_s`; 0 refuses at once.
    """
    become_subreaper()
    responder = open_responder(node_context)
    try:
        confirmed = _confirmed(node_context, responder, confirm, pooled) if confirm else None
        if confirmed is not None:
            answer: Path | Refusal | Choice = _leave_together(node_context, responder, confirmed)
        else:
            answer = _check(node_context, attempt, out, responder, ask_s, trains)
        if isinstance(answer, Path):
            close_answered(answer)
        return answer
    finally:
        responder.close()
        end_left(node_context)
        become_subreaper(adopt=False)  # the command reaps for itself


def start(
    node_context: NodeContext, attempt: str, out: Path, command: Sequence[str], pass_path: Path | None
) -> None:
    """Say so in out/<attempt>/started/<node> and become the command, which finds no key. Raises OSError.

    {nodes} {node_rank} {ranks_per_node} {master_addr} {master_port} are filled in. {key_fd} is a descriptor from which a
    command of ours that speaks between nodes reads a key of its own; it gives the training the training's environment.
    """
    if node_context.bundle.declared.spares and pass_path:
        passed = bundles.load_pass(pass_path.read_bytes())
        node_context = _without_spares(node_context, [node.name for node in passed.nodes])
        os.environ["PRELAUNCH_ROSTER"] = str(node_context.scratch / "roster.json")
        write_whole(node_context.scratch / "roster.json", dump_plain(node_context.roster))
    roster, declared = node_context.roster, node_context.bundle.declared
    values = {
        "nodes": str(declared.nodes),
        "node_rank": str(node_context.node_rank),
        "ranks_per_node": str(declared.ranks_per_node),
        "master_addr": roster.members[0].address,
        "master_port": str(roster.rendezvous_port),
        "python": sys.executable,
    }
    ours = any(KEY_FD in argument for argument in command)
    if ours:
        values["key_fd"] = str(_handed_over(node_context.mpi_key))
    argv = [_fill(argument, values) for argument in command]
    environment = {
        **(as_started(os.environ) if ours else for_training(as_started(os.environ))),
        **({"PRELAUNCH_INTERFACE": roster.interface} if roster.interface else {}),
        **({"PRELAUNCH_PASS": str(pass_path)} if pass_path else {}),
    }
    environment.pop(secret_key.VARIABLE, None)
    working = os.environ.get("PRELAUNCH_WORKING_FOLDER", "")
    secret_key.remove(node_context.key_path)
    write_whole(out / attempt / "started" / node_context.node, b"")
    if working:  # the agent runs the checks elsewhere, and looks there whether the command started, which may empty `out`
        with suppress(OSError):
            write_whole(node_context.scratch / "started", b"")
        os.chdir(working)
    sys.stdout.flush()
    sys.stderr.flush()
    for number in FOR_TRAINING:
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(argv[0], argv, environment)


def write_failure(node_context: NodeContext, attempt: str, out: Path, refusal: Refusal) -> None:
    """The reason, in a file that outlives the job. If the disk refuses it, that is written to stderr."""
    path, data = out / attempt / "failure" / node_context.node, refusal.reason.encode("utf-8", "replace")
    try:
        limited(FAILURE_S, lambda: write_whole(path, data + b"\n"))
    except OSError as error:
        say(f"the failure file cannot be written: {error}")


def write_choice(path: Path, choice: Choice) -> None:
    """The nodes that go on, for whoever started this process. Raises OSError."""
    write_whole(path, dump_plain(choice))


def context_of_chosen(node_context: NodeContext, choice: Choice) -> NodeContext:
    """The context of this host for a start of the chosen nodes alone. Raises OSError and PlaceError."""
    left = _without_spares(node_context, choice.nodes)
    folder = node_context.scratch / choice.attempt
    os.environ[secret_key.VARIABLE] = str(node_context.key_path)
    os.environ |= {"PRELAUNCH_ATTEMPT": choice.attempt, "PRELAUNCH_ROSTER": str(folder / "roster.json")}
    return write_node_context(folder, left.bundle, left.roster, left.node)


def _confirmed(node_context: NodeContext, responder: Responder, confirm: Path, pooled: bool) -> Path | None:
    """The pass, if every host is as it was when it passed; None means that the checks have to run again here."""
    gpus, barrier = node_context.bundle.declared.gpus_per_node, barrier_of(node_context, responder)
    if pooled:
        name, differences = claim(confirm, gpus)
    else:
        name, differences = node_context.node, confirm_here(confirm, node_context.node, gpus)
    for line in differences:
        say(f"{node_context.node}: {line}")
    own = f"{node_context.node}: {'; '.join(differences)}" if differences else ""
    doubt = barrier.agree("confirmed", own)
    if pooled and not doubt:
        doubt = _each_its_own(node_context, barrier, name)
    if not doubt:
        return confirm
    say(f"the machines are not as they were when they passed ({doubt}), so the checks run again here")
    return None


def _each_its_own(node_context: NodeContext, barrier: NodeBarrier, name: str) -> str:
    """Why two hosts, or one that nobody knows of, stand for one proven machine; "" where each has its own."""
    deadline = time.monotonic() + node_context.bundle.network_s
    barrier.put(f"claim/{node_context.node}", name, deadline)
    names = [member.name for member in node_context.roster.members]
    claims = barrier.get_all([f"claim/{name}" for name in names], deadline)
    return barrier.agree("each its own", twice(dict(zip(names, claims, strict=True))))


def _without_spares(node_context: NodeContext, names: Sequence[str]) -> NodeContext:
    """The context of this host among the chosen ones alone, which its training finds in the engine's variables."""
    members = tuple(member for member in node_context.roster.members if member.name in names)
    rank = [member.name for member in members].index(node_context.node)
    roster = replace(node_context.roster, members=members)
    bundle = replace(node_context.bundle, declared=without_spares(node_context.bundle.declared))
    os.environ.update(of_chosen(os.environ, [member.name for member in members], node_context.node))
    return replace(node_context, roster=roster, node_rank=rank, bundle=bundle)


def _check(
    node_context: NodeContext, attempt: str, out: Path, responder: Responder, ask_s: float, trains: bool
) -> Path | Refusal | Choice:
    begun, barrier, node = now(), barrier_of(node_context, responder), node_context.node
    try:
        own = run_beside(node_context, attempt, out, responder)
    except (ReportWriteError, OSError) as error:
        return _refused(node_context, barrier, Exit.CANNOT_TELL, str(error))
    panel, summary = Panel(node_context, barrier), "not known yet"
    panel.hand_over(own.data)
    try:
        if panel.is_judge:
            merged, verdict = panel.decide(attempt, own.data, begun)
            summary = _summary(verdict)
            if node_context.node_rank == 0:
                _written(node_context, partial(_write_merged, merged, verdict, out / attempt))
        decision = panel.follow(own.data)
        if isinstance(decision, str):
            return _refused(node_context, barrier, Exit.CANNOT_TELL, f"cannot_tell: {decision}")
        verdict, summary = decision.verdict, _summary(decision.verdict)
        if decision.reports.get(node) == digest(own.data):
            open_found(own.report, verdict.findings, decision.nodes, decision.subjects)
        path = out / attempt / "verdicts" / f"{node}.json"
        _written(node_context, partial(write_whole, path, dump_plain(verdict)))
        proven = decision.proven
        if trains and decision.chosen:
            if proven is None or node not in decision.chosen:
                barrier.linger(min(LINGER_S, node_context.deadline.answer_in_s()))
                return Choice(next_attempt(attempt) if proven is None else attempt, decision.chosen)
            node_context = _without_spares(node_context, decision.chosen)
            barrier = barrier_of(node_context, responder)
        if verdict.answer is Answer.ASK and ask_s and proven is not None:
            # An answer takes hours, so that the deadline of the checks binds nothing that follows it.
            node_context = replace(node_context, deadline=NEVER)
            person_answer = hold(node_context.bundle.gate_id, attempt, out, barrier, ask_s, summary)
            if isinstance(person_answer, Refusal):
                return _refused(node_context, barrier, person_answer.code, person_answer.reason)
            on_word = f"{person_answer.by} at {person_answer.at}: {person_answer.why}"
            proven = replace(proven, on_word=on_word)
        elif verdict.answer is not Answer.GO or proven is None:
            code = Exit.CANNOT_TELL if verdict.answer is Answer.CANNOT_TELL else Exit.NO_GO
            return _refused(node_context, barrier, code, summary)
        # Other nodes may have measured for longer, and a person may have taken a day.
        if lines := found_here(proven, node):
            return _refused(node_context, barrier, Exit.NO_GO, f"no_go: {node}: {lines[0]}")
        path = out / attempt / "passes" / f"{node}.json"
        _written(node_context, partial(write_whole, path, bundles.dump(proven)))
    except TimeoutError as error:
        reason = f"cannot_tell: the verdict ({summary}) cannot be written below {out}: {error}"
        return _refused(node_context, barrier, Exit.CANNOT_TELL, reason)
    except OSError as error:
        return _refused(node_context, barrier, Exit.CANNOT_TELL, f"{error.filename}: {error.strerror}")
    return _leave_together(node_context, responder, path)


def _refused(node_context: NodeContext, barrier: NodeBarrier, code: int, reason: str) -> Refusal:
    """The node that leaves first would close the responder that the others still ask."""
    barrier.linger(min(LINGER_S, node_context.deadline.answer_in_s()))
    return Refusal(code, reason)


def _written(node_context: NodeContext, write: Callable[[], R]) -> R:
    """Writes files of the job. Raises OSError, and TimeoutError if that hangs. The others wait as long (_leave_together)."""
    return limited(node_context.deadline.by(WRITE_S, WRITTEN_S) - time.monotonic(), write)


def _write_merged(data: bytes, verdict: Verdict, folder: Path) -> None:
    for path in (folder / MERGED_FILE, folder.parent / MERGED_FILE):
        write_whole(path, data)
    with suppress(OSError):  # a log that nobody reads refuses nobody
        show(verdict, "text")
        sys.stdout.flush()


def _summary(verdict: Verdict) -> str:
    if not verdict.findings:
        return verdict.answer.value
    first = verdict.findings[0]
    return f"{verdict.answer.value}: {first.subject}: {first.check}: {first.message}"


def _leave_together(node_context: NodeContext, responder: Responder, pass_path: Path) -> Path | Refusal:
    """Exchange pass tokens: every host must publish an equal one and then confirm that it saw all, or no host starts."""
    barrier = barrier_of(node_context, responder)
    token = digest(pass_path.read_bytes())
    network_s = node_context.bundle.network_s
    deadline = node_context.deadline.by(network_s, LEAVE_S)
    problem = barrier.put(f"pass/{node_context.node}", token, deadline)
    if problem:
        return Refusal(Exit.CANNOT_TELL, f"cannot_tell: {problem}")
    names = [member.name for member in node_context.roster.members]
    # A node that still answers may be writing its verdict and its pass.
    tokens = barrier.arrivals(
        "pass", token, deadline, node_context.deadline.by(network_s + 2 * WRITE_S, LEAVE_S)
    )
    others = [name for name in names if tokens[name] != token]
    if others:
        # A token that differs ends the wait for those that are not there yet.
        name = next((name for name in others if tokens[name] is not None), others[0])
        late = tokens[name] is None
        flaw = "it published no pass token in time" if late else "its pass token differs from this node's"
        return Refusal(Exit.CANNOT_TELL, f"cannot_tell: {name}: {flaw}")
    deadline = node_context.deadline.by(network_s, LEAVE_S)
    problem = barrier.put(f"seen/{node_context.node}", OK, deadline)
    if problem:
        return Refusal(Exit.CANNOT_TELL, f"cannot_tell: {problem}")
    # The first host keeps the notes, so it leaves last.
    waits = names[1:] if node_context.node_rank == 0 else []
    confirmations = barrier.get_all([f"seen/{name}" for name in waits], deadline)
    if None in confirmations:
        name = waits[confirmations.index(None)]
        return Refusal(Exit.CANNOT_TELL, f"cannot_tell: {name}: it did not confirm every pass token in time")
    return pass_path


def _handed_over(key: bytes) -> int:
    """A pipe that holds the key, open in the command: it is read once, and is neither in argv nor in the environment."""
    reading, writing = os.pipe()
    os.write(writing, key)
    os.close(writing)
    os.set_inheritable(reading, True)
    return reading


def _fill(argument: str, values: dict[str, str]) -> str:
    for key, value in values.items():
        argument = argument.replace(f"{{{key}}}", value)
    return argument
