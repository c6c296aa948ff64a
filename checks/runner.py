"""One node's run: its own checks, its peers, then the ranks; the report grows on disk all the while.

Order: node checks (side by side), reachability, a barrier over all nodes, pairs, ranks. No rank starts before
every node has reached every other: a collective that waits for a missing peer names nobody.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checks import catalog, rankstage, system
from checks.board import Board
from checks.check import Check
from checks.exchange import ExchangeError, Responder
from checks.isolate import isolated
from checks.journal import Journal, JournalError, now
from checks.model import SCHEMA_VERSION, Node, Observation, Outcome, Scope, Skip, rank_subject
from checks.place import PEER_CHECKS, Station
from checks.probe import errored
from checks.processes import become_subreaper, end_children
from checks.report import NodeReport

RankStage = Callable[[Station, "Keeper", str], str]
SIDE_BY_SIDE = 2
LINGER_S = 5.0


def run(station: Station, attempt: str, out: Path) -> Journal:
    """Run every planned check of this node; its report is at out/<attempt>/nodes/<node>.json.

    Raises JournalError when the report could not be written to the end.
    """
    become_subreaper()
    responder = open_responder(station)
    try:
        journal = run_beside(station, attempt, out, responder)
        Board(station, responder).linger(LINGER_S)
    finally:
        responder.close()
        end_children(0.0)  # a check may have left a daemon behind
    return journal


def run_beside(
    station: Station, attempt: str, out: Path, responder: Responder, stage: RankStage | None = None
) -> Journal:
    """The same, with a responder that the caller keeps open, and another way to run the ranks."""
    journal = Journal(out / attempt / "nodes" / f"{station.node}.json", _opening(station, attempt))
    journal.write()
    _run_stages(station, Keeper(journal), responder, stage or rankstage.run_stage)
    journal.finish(complete=True)
    return journal


def open_responder(station: Station) -> Responder:
    """This node's responder, listening where the roster says; on the first node at the rendezvous port too."""
    responder = Responder(station.bundle.gate_id, station.node, catalog.digest(station.checks))
    me = station.roster.members[station.node_rank]
    for port in [me.probe_port] + ([station.roster.rendezvous_port] if station.node_rank == 0 else []):
        try:
            responder.listen(me.address, port)
        except ExchangeError as error:
            _log(str(error))  # the peers will not reach it, and say so in their reports
    return responder


def _run_stages(station: Station, keep: Keeper, responder: Responder, stage: RankStage) -> None:
    checks = [check for check in station.planned() if check.scope is Scope.NODE]
    reach = [check for check in checks if check.name in PEER_CHECKS]
    quiet = [check for check in checks if not check.serial]
    serial = [check for check in checks if check.serial and check not in reach]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for row in pool.map(lambda check: _isolated(station, check), [*reach, *quiet]):
            keep([row])
    board = Board(station, responder)
    why = board.agree("reached", _unreached(station, keep.rows))
    for check in serial:
        keep([_isolated(station, check)])
    why = board.agree("probed", why)
    responder.close(station.roster.rendezvous_port)
    if any(check.scope is Scope.RANK for check in station.planned()):
        keep(_skip_ranks(station, why) if why else [])
        ended = stage(station, keep, why)
        _log(ended)
        keep(_not_reached(station, keep, ended) if ended.startswith(rankstage.ALL) else [])


class Keeper:
    """Adds observations to the journal once each. A full disk is said, and tried again at the next write."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.rows: dict[tuple[str, str], Observation] = {}

    def __call__(self, rows: Iterable[Observation]) -> None:
        """Keep what is new."""
        new = [row for row in rows if (row.check, row.subject) not in self.rows]
        self.rows.update({(row.check, row.subject): row for row in new})
        try:
            self.journal.add(new)
        except JournalError as error:
            _log(str(error))


def _isolated(station: Station, check: Check) -> Observation:
    result = station.scratch / f"{check.name}.json"
    files = (str(station.bundle_path), str(station.roster_path))
    argv = ("-m", "checks.one", check.name, *files, station.node, str(station.scratch), str(result))
    return isolated(check.name, station.node, argv, result, station.timeout_s(check))


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


def _opening(station: Station, attempt: str) -> NodeReport:
    digest = catalog.digest(station.checks)
    node = Node(station.node, station.node_rank, attempt, digest, False, system.identity_of_node())
    bundle = station.bundle
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
        print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)
