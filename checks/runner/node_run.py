"""The run of one node: its own checks, its peers, then the ranks. The report on disk grows with each observation.

The order: first measurements of closing checks, node checks (several at a time), reachability, a barrier over all nodes, pairs,
ranks, closing checks. Within each step the cheaper checks come first. No rank starts before every node
has reached every other one, because a collective that waits for a missing peer does not show which one is missing.

The report is complete at the node's deadline (checks.runner.deadline), whatever hangs: what had to be given up by then is ERRORED
with that reason. If this process itself hangs or is stopped, the launcher ends it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing as closed_at_end
from dataclasses import replace
from functools import partial
from pathlib import Path

from checks import catalog
from checks.check import Check, CheckError
from checks.documents.report import NodeReport
from checks.exchange.exchange import ExchangeError, Responder
from checks.judge.certificates.decision import CertificateDecision
from checks.model import SCHEMA_VERSION, ErrorKind, Node, Observation, Outcome, Scope, Skip, rank_subject
from checks.probes.host import system
from checks.process import machine_state
from checks.process.cpu_usage import marked
from checks.process.fork_server import ForkServer
from checks.process.isolate import isolated
from checks.process.observe import errored
from checks.process.stderr import log
from checks.process.tree import KILL_S, become_subreaper, end_children
from checks.runner import rank_stage, schedule
from checks.runner.barrier import NodeBarrier
from checks.runner.deadline import ANSWER_S, LEAST_S, CheckProgress
from checks.runner.journal import JournalWriter, ReportJournal, Tick, now
from checks.runner.node_context import (
    PEER_CHECKS,
    NodeContext,
    before_path,
    certified_checks,
    known_before,
    open_before,
    uplink,
)
from checks.runner.watchers import Watchers
from checks.value_types import MOST_S, age_text

CHILD = "checks.runner.isolated_child"
LINGER_S, LEAST_LINGER_S = 5.0, 0.5


def run(node_context: NodeContext, attempt: str, out: Path, tick: Tick | None = None) -> ReportJournal:
    """Runs every planned check of this node. Its report is at out/<attempt>/nodes/<node>.json.

    `tick` is called with each observation as it comes. Raises JournalError if the last write of the report failed.
    """
    become_subreaper()
    responder = open_responder(node_context)
    try:
        journal = run_beside(node_context, attempt, out, responder, tick=tick)
        barrier_of(node_context, responder).linger(linger_s(node_context))
    finally:
        responder.close()
        end_left(node_context)
    return journal


def linger_s(node_context: NodeContext) -> float:
    """How long a node that is done may wait for its peers."""
    return min(LINGER_S, max(node_context.deadline.ends_at - time.monotonic(), LEAST_LINGER_S))


def end_left(node_context: NodeContext) -> None:
    """Ends processes that checks left behind. A process that is blocked in the kernel is not waited for beyond the deadline, and is
    logged.
    """
    left = end_children(0.0, kill_s=min(KILL_S, max(node_context.deadline.answer_in_s() - ANSWER_S, LEAST_S)))
    log(f"these processes cannot be ended: {sorted(left)}" if left else "")


def run_beside(
    node_context: NodeContext, attempt: str, out: Path, responder: Responder, tick: Tick | None = None
) -> ReportJournal:
    """The checks run as in `run`, with a responder that the caller keeps open."""
    journal = ReportJournal(
        out / attempt / "nodes" / f"{node_context.node}.json", first_report(node_context, attempt)
    )
    journal.write()
    keep, watches = JournalWriter(journal, tick), Watchers(node_context)
    certified = certified_checks(node_context, journal.report.node)
    with marked(attempt), closed_at_end(ForkServer(CHILD)) as processes:
        keep([*left_out(node_context), *_as_skipped(node_context.node, certified.values())])
        try:
            _run_stages(node_context, processes, keep, responder, watches, frozenset(certified))
        finally:
            watches.stop_all()
    # The report is as old as its last write, so that what the watch found during the checks belongs to it.
    journal.finish(complete=True, open_findings=open_before(machine_state.folder()))
    return journal


def open_responder(node_context: NodeContext) -> Responder:
    """The node's responder listens at the address of the roster. On the first node it listens at the rendezvous port as well."""
    responder = Responder(node_context.access, catalog.digest(node_context.checks))
    if node_context.bundle.declared.nodes == 1:
        return responder  # no node would connect
    me = node_context.roster.members[node_context.node_rank]
    for port in [me.probe_port] + (
        [node_context.roster.rendezvous_port] if node_context.node_rank == 0 else []
    ):
        try:
            responder.listen(me.address, port)
        except ExchangeError as error:
            log(str(error))  # the peers cannot reach it, and their reports say so
    return responder


def barrier_of(node_context: NodeContext, responder: Responder) -> NodeBarrier:
    """The notes that the nodes of this gate exchange."""
    return NodeBarrier(node_context.roster, node_context.access, node_context.bundle.network_s, responder)


def _run_stages(
    node_context: NodeContext,
    processes: ForkServer,
    keep: JournalWriter,
    responder: Responder,
    watches: Watchers,
    certified: frozenset[str] = frozenset(),
) -> None:
    checks = [check for check in node_context.planned() if check.scope is Scope.NODE]
    closing = [check for check in checks if check.closing]
    opening = schedule.by_cost([check for check in checks if not check.closing])
    reach = [check for check in opening if check.name in PEER_CHECKS]
    quiet = [check for check in opening if not check.serial and check not in reach]
    serial = [check for check in opening if check.serial and check not in reach]
    run, side_by_side = (
        partial(_isolated, node_context, processes, keep.opened),
        partial(_side_by_side, node_context, keep),
    )
    watches.start(closing)
    failed = _look_before(node_context, processes, closing)
    watches.ready()
    # Peers may have to measure what is certified here: how long they are waited for does not depend on it.
    side_by_side([check for check in (*reach, *quiet) if check.name not in certified], run)
    barrier, until = barrier_of(node_context, responder), node_context.deadline.stage_ends_at
    wait_s = _longest(node_context, quiet)
    fault = barrier.agree("reached", _unreached(node_context, keep.rows), wait_s, until)
    for check in serial:
        side_by_side([check] if check.name not in certified else [], run)
    fault = barrier.agree(
        "probed", fault or _without_gpu(node_context, keep.rows), _longest(node_context, serial), until
    )
    responder.close(node_context.roster.rendezvous_port)
    if any(check.scope is Scope.RANK for check in node_context.planned()):
        keep(_skip_ranks(node_context, fault) if fault else [])
        if not fault and node_context.deadline.left_s() < LEAST_S:
            keep(rank_stage.given_up(node_context, {}))
            fault = node_context.deadline.reason(CheckProgress.NEVER_STARTED)
        try:
            ended = fault or rank_stage.run_stage(node_context, keep, barrier)
        except (OSError, RuntimeError) as error:
            # The first measurements of the closing checks must not be lost.
            reached = not isinstance(error, rank_stage.RanksNotReached)
            ended = f"{rank_stage.RANK_CHECKS} could not be run: {error}" if reached else str(error)
            keep(_not_reached(node_context, keep, ended))
        log(ended)
    close = partial(
        _closed, partial(_isolated, node_context, processes, keep.opened, closing=True), failed, watches
    )
    side_by_side([check for check in closing if not check.serial], close, closing=True)
    for check in closing:
        side_by_side([check] if check.serial else [], close, closing=True)


def _side_by_side(
    node_context: NodeContext,
    keep: JournalWriter,
    checks: Sequence[Check],
    run: Callable[[Check], Observation],
    closing: bool = False,
) -> None:
    """Runs these checks at the same time, until the rest of the node's time is over."""

    def give_up(check: Check, progress: CheckProgress) -> Observation:
        return errored(check.name, node_context.node, node_context.deadline.reason(progress), 0.0)

    # Each check is ended by the thread that runs it; only one that hangs in the kernel is still there MARGIN_S later.
    late = time.monotonic() + node_context.deadline.left_s(closing) + node_context.deadline.end_s / 4
    schedule.run_all(checks, run, keep, until=late, give_up=give_up)


def _closed(
    run: Callable[[Check], Observation], failed: dict[str, str], watches: Watchers, check: Check
) -> Observation:
    """A closing check's observation, made after its watch has ended. If it cannot compare, its reason says why its first measurement
    failed.
    """
    watches.stop(check.name)
    observation = run(check)
    reason = failed.get(check.name) or watches.failed.get(check.name)
    if observation.outcome is not Outcome.ERRORED or not reason:
        return observation
    return replace(observation, reason=f"{observation.reason} (first measurement: {reason})"[:1000])


def _look_before(
    node_context: NodeContext, processes: ForkServer, closing: Iterable[Check]
) -> dict[str, str]:
    """Makes the first measurements of closing checks, each in scratch/<name>.before.json. Returns why a check has none."""
    looking = [check for check in closing if check.before is not None]
    for check in looking:
        before_path(node_context.scratch, check.name).unlink(missing_ok=True)

    def measure(check: Check) -> Observation:
        path = before_path(node_context.scratch, check.name)
        timeout_s = node_context.timeout_s(check)
        files = (*node_context.arguments, str(path), f"{timeout_s:.3f}")
        start = partial(processes.start, ("--before", check.name, check.path, *files))
        return isolated(check.name, node_context.node, start, path.with_suffix(".row"), timeout_s)

    failed: dict[str, str] = {}

    def note(observations: Iterable[Observation]) -> None:
        for observation in observations:
            if not before_path(node_context.scratch, observation.check).exists():
                # The last line of a traceback is the error itself.
                problem = (observation.evidence.strip().splitlines() or [observation.reason])[-1]
                prefix = f"{CheckError.__module__}.{CheckError.__name__}: "
                failed[observation.check] = problem.removeprefix(prefix)[:500]

    schedule.run_all(looking, measure, note, until=node_context.deadline.stage_ends_at)
    return failed


def _longest(node_context: NodeContext, checks: Iterable[Check]) -> float:
    """The longest time that a peer may take for these checks."""
    return sum(node_context.timeout_s(check) for check in checks)


def _isolated(
    node_context: NodeContext, processes: ForkServer, opened: float, check: Check, closing: bool = False
) -> Observation:
    result, timeout_s = node_context.scratch / f"{check.name}.json", node_context.timeout_s(check, closing)
    limit = node_context.limit_of(check)
    if timeout_s < LEAST_S:
        own = timeout_s == limit.seconds
        never = node_context.deadline.reason(CheckProgress.NEVER_STARTED)
        error_kind, reason = (limit.error_kind, limit.reason) if own else (ErrorKind.OTHER, never)
        return errored(check.name, node_context.node, reason, 0.0, error_kind=error_kind)
    over = timeout_s < limit.seconds
    late = node_context.deadline.reason(CheckProgress.RUNNING) if over else limit.reason
    error_kind = ErrorKind.OTHER if over else limit.error_kind
    arguments = (check.name, check.path, *node_context.arguments, str(result), f"{timeout_s:.3f}")
    started_s, begun = min(max(time.time() - opened, 0.0), MOST_S), time.monotonic()
    try:
        start = partial(processes.start, arguments)
        observation = isolated(check.name, node_context.node, start, result, timeout_s, late, error_kind)
    except (OSError, RuntimeError) as error:  # no thread or no file is available: only this check is lost
        observation = errored(
            check.name, node_context.node, f"the check's process could not be started: {error}", 0.0
        )
    # The start and the end of its process count as well, because they would also take time if checks ran one after another.
    return replace(observation, started_s=round(started_s, 3), seconds=round(time.monotonic() - begun, 3))


def _without_gpu(node_context: NodeContext, observations: dict[tuple[str, str], Observation]) -> str:
    """Why no rank can have a GPU here, or "". With a reason the ranks are not started, so that it is reported once and not by each
    of them.
    """
    inventory = observations.get(("gpu.inventory", node_context.node))
    if inventory is None or inventory.metrics.get("gpus_found") != 0:
        return ""
    declared = node_context.bundle.declared.gpus_per_node
    return f"{node_context.node} has no GPU, but {declared} {'is' if declared == 1 else 'are'} declared"


def _unreached(node_context: NodeContext, observations: dict[tuple[str, str], Observation]) -> str:
    """Why this node cannot continue with the ranks, or ""."""
    if node_context.bundle.declared.nodes == 1:
        return ""
    reachability = observations.get((PEER_CHECKS[0], node_context.node))
    if reachability is None or reachability.outcome is not Outcome.MEASURED:
        return f"{node_context.node} could not test whether its peers are reachable"
    peers, failures = reachability.metrics["peers"], reachability.metrics["failures"]
    if not isinstance(peers, tuple) or not isinstance(failures, tuple):
        return f"{node_context.node} could not test whether its peers are reachable"
    gone = [f"{peer} ({failure})" for peer, failure in zip(peers, failures, strict=True) if failure != "ok"]
    if not gone and reachability.metrics["rendezvous"] != "ok":
        return f"{node_context.node} cannot reach the rendezvous port: {reachability.metrics['rendezvous']}"
    return f"{node_context.node} cannot reach {', '.join(gone[:8])}" if gone else ""


def left_out(node_context: NodeContext) -> list[Observation]:
    """The checks that the gate file skips: they are planned and observed as skipped, so that the verdict mentions them."""
    reason = "the check was skipped because [checks] skip lists it"
    skipped = {line.check for line in node_context.plan if line.skip is None} & {*node_context.bundle.skip}
    return [
        Observation(check.name, subject, Outcome.SKIPPED, 0.0, {}, Skip.GATE_FILE, reason)
        for check in node_context.checks
        if check.name in skipped
        for subject in _subjects(node_context, check)
    ]


def _as_skipped(node: str, certified: Iterable[CertificateDecision]) -> Iterable[Observation]:
    for decision in certified:
        reason = f"gate {decision.gate_id} measured it {age_text(decision.age_s)} ago"
        yield Observation(decision.check, node, Outcome.SKIPPED, 0.0, {}, Skip.CERTIFIED, reason)


def _skip_ranks(node_context: NodeContext, reason: str) -> list[Observation]:
    return [
        Observation(check.name, subject, Outcome.SKIPPED, 0.0, {}, Skip.PREREQUISITE, reason[:1000])
        for check in node_context.planned()
        if check.scope is Scope.RANK
        for subject in _subjects(node_context, check)
    ]


def _subjects(node_context: NodeContext, check: Check) -> list[str]:
    if check.scope is Scope.NODE:
        return [node_context.node]
    per_node = node_context.bundle.declared.ranks_per_node
    first = node_context.node_rank * per_node
    return [rank_subject(node_context.node, first + local) for local in range(per_node)]


def _not_reached(node_context: NodeContext, keep: JournalWriter, reason: str) -> list[Observation]:
    """What no rank came to, where the reason is known and lies with none of them."""
    message, error_kind = f"not reached: {reason}", ErrorKind.NOT_REACHED
    return [
        errored(skipped.check, skipped.subject, message, 0.0, error_kind=error_kind)
        for skipped in _skip_ranks(node_context, reason)
        if (skipped.check, skipped.subject) not in keep.rows
    ]


def first_report(node_context: NodeContext, attempt: str) -> NodeReport:
    """The report of this node before any check: its identity, and what is planned."""
    digest = catalog.digest(node_context.checks)
    bundle = node_context.bundle
    identity = {
        **system.identity_of_node(),
        **uplink(node_context.node, bundle.topology, os.environ, system.ROOT),
    }
    node = Node(
        node_context.node, node_context.node_rank, attempt, digest, False, identity,
        open_findings=open_before(machine_state.folder()),
        machine_state=known_before(machine_state.folder(), bundle),
    )  # fmt: skip
    return NodeReport(
        SCHEMA_VERSION,
        bundle.gate_id,
        now(),
        bundle.profile,
        bundle.declared,
        node_context.plan,
        node,
        observations=(),
    )
