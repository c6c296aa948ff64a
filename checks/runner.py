"""One node's run: its own checks, its peers, then the ranks; the report grows on disk all the while.

Order: what closing checks compare with, node checks (side by side), reachability, a barrier over all nodes, pairs, ranks,
closing checks. No rank starts before every node has reached every other: a collective that waits for a missing
peer names nobody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from checks import catalog, rankstage, schedule, system
from checks.board import Board
from checks.check import Check
from checks.culprit.uplink import uplink
from checks.exchange import ExchangeError, Responder
from checks.isolate import isolated
from checks.journal import Journal, JournalError, now
from checks.model import SCHEMA_VERSION, Node, Observation, Outcome, Scope, Skip, rank_subject
from checks.place import PEER_CHECKS, Station, before_path
from checks.probe import errored
from checks.processes import become_subreaper, end_children
from checks.report import NodeReport
from checks.say import say

RankStage = Callable[[Station, "Keeper", str], str]
Tick = Callable[[Observation], None]
LINGER_S = 5.0


def run(station: Station, attempt: str, out: Path, tick: Tick | None = None) -> Journal:
    """Run every planned check of this node; its report is at out/<attempt>/nodes/<node>.json.

    `tick` is called with each observation as it comes. Raises JournalError when the report could not be written to the end.
    """
    become_subreaper()
    responder = open_responder(station)
    try:
        journal = run_beside(station, attempt, out, responder, tick=tick)
        Board(station, responder).linger(LINGER_S)
    finally:
        responder.close()
        end_children(0.0)  # a check may have left a daemon behind
    return journal


def run_beside(
    station: Station,
    attempt: str,
    out: Path,
    responder: Responder,
    stage: RankStage | None = None,
    tick: Tick | None = None,
) -> Journal:
    """The same, with a responder that the caller keeps open, and another way to run the ranks."""
    journal = Journal(out / attempt / "nodes" / f"{station.node}.json", first_report(station, attempt))
    journal.write()
    _run_stages(station, Keeper(journal, tick), responder, stage or rankstage.run_stage)
    journal.finish(complete=True)
    return journal


def open_responder(station: Station) -> Responder:
    """This node's responder, listening where the roster says; on the first node at the rendezvous port too."""
    responder = Responder(station.access, catalog.digest(station.checks))
    if station.bundle.declared.nodes == 1:
        return responder  # nobody would call
    me = station.roster.members[station.node_rank]
    for port in [me.probe_port] + ([station.roster.rendezvous_port] if station.node_rank == 0 else []):
        try:
            responder.listen(me.address, port)
        except ExchangeError as error:
            _log(str(error))  # the peers will not reach it, and say so in their reports
    return responder


def _run_stages(station: Station, keep: Keeper, responder: Responder, stage: RankStage) -> None:
    checks = [check for check in station.planned() if check.scope is Scope.NODE]
    closing = [check for check in checks if check.closing]
    opening = [check for check in checks if not check.closing]
    reach = [check for check in opening if check.name in PEER_CHECKS]
    quiet = [check for check in opening if not check.serial and check not in reach]
    serial = [check for check in opening if check.serial and check not in reach]
    run = partial(_isolated, station, keep.opened)
    failed = _look_before(station, closing)
    schedule.run_all([*reach, *quiet], run, keep)
    board = Board(station, responder)
    why = board.agree("reached", _unreached(station, keep.rows), _longest(station, quiet))
    for check in serial:
        keep([run(check)])
    why = board.agree("probed", why or _without_gpu(station, keep.rows), _longest(station, serial))
    responder.close(station.roster.rendezvous_port)
    if any(check.scope is Scope.RANK for check in station.planned()):
        keep(_skip_ranks(station, why) if why else [])
        try:
            ended = stage(station, keep, why)
        except (
            OSError,
            RuntimeError,
        ) as error:  # what the closing checks saw before must not be lost with it
            ended = f"{rankstage.ALL} could not be run: {error}"
        _log(ended)
        keep(_not_reached(station, keep, ended) if ended.startswith(rankstage.ALL) else [])
    close = partial(_closed, run, failed)
    schedule.run_all([check for check in closing if not check.serial], close, keep)
    for check in closing:
        keep([close(check)] if check.serial else [])


def _closed(run: Callable[[Check], Observation], failed: dict[str, str], check: Check) -> Observation:
    """A closing check's observation; one that cannot compare says why its first look failed."""
    row = run(check)
    if row.outcome is not Outcome.ERRORED or check.name not in failed:
        return row
    return replace(row, reason=f"{row.reason} (its first look: {failed[check.name]})"[:1000])


class Keeper:
    """Adds observations to the journal once each. A full disk is said, and tried again at the next write."""

    def __init__(self, journal: Journal, tick: Tick | None = None) -> None:
        self.journal, self._tick = journal, tick
        self.opened = time.time()
        self.rows: dict[tuple[str, str], Observation] = {}

    def __call__(self, rows: Iterable[Observation]) -> None:
        """Keep what is new."""
        new = [row for row in rows if (row.check, row.subject) not in self.rows]
        self.rows.update({(row.check, row.subject): row for row in new})
        try:
            self.journal.add(new)
        except JournalError as error:
            _log(str(error))
        for row in new if self._tick else ():
            self._tick(row)  # type: ignore[misc]


def _look_before(station: Station, closing: Iterable[Check]) -> dict[str, str]:
    """What closing checks compare with, each in scratch/<name>.before.json. Returns why a check has none."""
    looking = [check for check in closing if check.before is not None]
    for check in looking:
        before_path(station.scratch, check.name).unlink(missing_ok=True)

    def look(check: Check) -> Observation:
        path = before_path(station.scratch, check.name)
        argv = ("-m", "checks.one", "--before", check.name, check.path, *_files(station), str(path))
        return isolated(check.name, station.node, argv, path.with_suffix(".row"), station.timeout_s(check))

    failed: dict[str, str] = {}

    def note(rows: Iterable[Observation]) -> None:
        for row in rows:
            if not before_path(station.scratch, row.check).exists():
                said = row.evidence.strip().splitlines()[-1:]  # of a traceback, the error itself
                failed[row.check] = (said[0] if said else row.reason)[:500]

    schedule.run_all(looking, look, note)
    return failed


def _longest(station: Station, checks: Iterable[Check]) -> float:
    """How long a peer may take for these checks, at most."""
    return sum(station.timeout_s(check) for check in checks)


def _isolated(station: Station, opened: float, check: Check) -> Observation:
    result = station.scratch / f"{check.name}.json"
    argv = ("-m", "checks.one", check.name, check.path, *_files(station), str(result))
    started_s, begun = max(time.time() - opened, 0.0), time.monotonic()
    try:
        row = isolated(check.name, station.node, argv, result, station.timeout_s(check))
    except (OSError, RuntimeError) as error:  # no thread or no file can be had: this costs one check
        row = errored(check.name, station.node, f"its process could not be run: {error}", 0.0)
    # Its process's start and end count: that is what one after another would cost.
    return replace(row, started_s=round(started_s, 3), seconds=round(time.monotonic() - begun, 3))


def _files(station: Station) -> tuple[str, ...]:
    return (str(station.bundle_path), str(station.roster_path), station.node, str(station.scratch))


def _without_gpu(station: Station, rows: dict[tuple[str, str], Observation]) -> str:
    """Why no rank can have a GPU here, or "": then the ranks are not started to say it once each."""
    row = rows.get(("gpu.inventory", station.node))
    if row is None or row.metrics.get("gpus_found") != 0:
        return ""
    return f"{station.node} has no GPU, {station.bundle.declared.gpus_per_node} are declared"


def _unreached(station: Station, rows: dict[tuple[str, str], Observation]) -> str:
    """Why this node cannot go on to the ranks, or ""."""
    if station.bundle.declared.nodes == 1:
        return ""
    row = rows.get((PEER_CHECKS[0], station.node))
    if row is None or row.outcome is not Outcome.MEASURED:
        return f"{station.node} could not look for its peers"
    peers, failures = row.metrics["peers"], row.metrics["failures"]
    if not isinstance(peers, tuple) or not isinstance(failures, tuple):
        return f"{station.node} could not look for its peers"
    gone = [f"{peer} ({why})" for peer, why in zip(peers, failures, strict=True) if why != "ok"]
    if not gone and row.metrics["rendezvous"] != "ok":
        return f"{station.node} does not reach the rendezvous port: {row.metrics['rendezvous']}"
    return f"{station.node} does not reach {', '.join(gone[:8])}" if gone else ""


def _skip_ranks(station: Station, why: str) -> list[Observation]:
    per_node = station.bundle.declared.ranks_per_node
    first = station.node_rank * per_node
    subjects = [rank_subject(station.node, first + local) for local in range(per_node)]
    checks = [check for check in station.planned() if check.scope is Scope.RANK]
    return [
        Observation(check.name, subject, Outcome.SKIPPED, 0.0, {}, Skip.PREREQUISITE, why[:1000])
        for check in checks
        for subject in subjects
    ]


def _not_reached(station: Station, keep: Keeper, why: str) -> list[Observation]:
    """What no rank came to, where the reason is known and lies with none of them."""
    missing = (row for row in _skip_ranks(station, why) if (row.check, row.subject) not in keep.rows)
    return [errored(row.check, row.subject, f"not reached: {why}", 0.0) for row in missing]


def first_report(station: Station, attempt: str) -> NodeReport:
    """The report of this node before any check: who it is, and what is planned."""
    digest = catalog.digest(station.checks)
    bundle = station.bundle
    identity = {
        **system.identity_of_node(),
        **uplink(station.node, bundle.topology, os.environ, system.ROOT),
    }
    node = Node(station.node, station.node_rank, attempt, digest, False, identity)
    return NodeReport(
        SCHEMA_VERSION,
        bundle.gate_id,
        now(),
        bundle.profile,
        bundle.declared,
        station.plan,
        node,
        observations=(),
    )


def _log(message: str) -> None:
    if message:
        say(f"{time.strftime('%H:%M:%S')} {message}")
