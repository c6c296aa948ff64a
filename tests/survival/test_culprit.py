"""Eight hosts in network namespaces, and the tournament of their ranks: who is named when the network is really bad.

One job carries the faults, one after the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from checks.documents.decode import decode
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Cause, Finding, Level, Node, Observation, Outcome, Planned, Report, Scope
from tasks.launchers.local import network as local_network
from tests.sample_reports import healthy
from tests.survival import tournament_host
from tests.survival.faulty_network import heal, lose, needs_root, network, shape, slow_link
from tests.survival.world import LOCAL, ROOT
from tests.waiting import until

NODES = 8
PAIRS = tournament_host.PAIRS
# What is done to the network, and who is named for it, each with the name of the row.
Rows = tuple[tuple[str, Callable[[str], None], set[str]], ...]


@dataclass
class Job:
    """The ranks of one job, each in its namespace."""

    network: str
    folder: Path
    process: subprocess.Popen[bytes]
    turn: int = 0

    def tournament(self) -> Report:
        """Run one, wait for the observations of all ranks, and give the report."""
        (self.folder / f"go-{self.turn}").touch()
        wanted = [self.folder / f"row-{self.turn}-{rank}.json" for rank in range(NODES)]
        until(lambda: all(path.exists() for path in wanted), lambda: [*self.folder.iterdir()])
        self.turn += 1
        rows = tuple(decode(Observation, json.loads(path.read_text())) for path in wanted)
        for row in rows:
            assert row.outcome is Outcome.MEASURED, (row.subject, row.reason)
        return _report(rows)


def _report(rows: tuple[Observation, ...]) -> Report:
    report = healthy(NODES, 1)
    names = [f"node-{rank}" for rank in range(NODES)]
    nodes = tuple(Node(name, rank, "a", "c", True, {}) for rank, name in enumerate(names))
    plan = (Planned(PAIRS, Scope.RANK, tuple(rows[0].metrics)),)
    return replace(report, nodes=nodes, observations=rows, plan=plan)


@contextmanager
def job(folder: Path) -> Iterator[Job]:
    """A job whose hosts are in a network of their own."""
    with network(NODES) as name:
        address = local_network.find(name, NODES).addresses[0]
        own = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        words = (str(folder), name, str(NODES), address, "29511")
        argv = (sys.executable, "-m", tournament_host.__name__, *words)
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(argv, env={**os.environ, **own}, cwd=ROOT, stdout=log, stderr=log)
        try:
            yield Job(name, folder, process)
            (folder / "stop").touch()
        finally:
            process.kill()  # and the kernel its ranks
            process.wait()


def findings_of(report: Report) -> list[Finding]:
    """What the engine finds, under the local policy's line for this check alone."""
    policy = replace(LOCAL, checks={PAIRS: LOCAL.checks[PAIRS]})
    found = [f for f in decide(report, policy, builtin()).findings if f.check == PAIRS]
    for finding in found:
        print(finding.level.value, finding.cause.value, finding.subject, finding.message)
    return found


def _blamed(report: Report) -> set[str]:
    """Whom a FAIL with the cause HARDWARE names."""
    return {f.subject for f in findings_of(report) if (f.level, f.cause) == (Level.FAIL, Cause.HARDWARE)}


def _slow_everywhere(name: str) -> None:
    for host in range(NODES):
        shape(name, host, "400mbit")


def _slow_host_and_link(name: str) -> None:
    shape(name, 5)
    slow_link(name, 1, 2)


TOGETHER: Rows = (("a slow host and a slow pair", _slow_host_and_link, {"node-5", "node-1<->node-2"}),)
SEPARATE: Rows = (
    ("healthy", lambda _: None, set()),
    ("one host at 100 Mbit/s", lambda name: shape(name, 3), {"node-3"}),
    ("one pair at 100 Mbit/s", lambda name: slow_link(name, 2, 6), {"node-2<->node-6"}),
    ("5 % of what arrives at one host is lost", lambda name: lose(name, 4, 0.05), {"node-4"}),
    ("every host equally slow", _slow_everywhere, set()),
)


@needs_root
@pytest.mark.root
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(TOGETHER, id="together"),
        # TOGETHER has both kinds in one tournament; what blames nobody is in tests/checks/judge/culprits as well
        pytest.param(SEPARATE, id="separate", marks=pytest.mark.long),
    ],
)
def test_the_culprit_is_named_and_nobody_else(tmp_path: Path, faults: Rows) -> None:
    """In one job, a tournament for each row."""
    blamed: dict[str, set[str]] = {}
    with job(tmp_path) as ranks:
        for what, spoil, _ in faults:
            spoil(ranks.network)
            blamed[what] = _blamed(ranks.tournament())
            for host in range(NODES):
                heal(ranks.network, host)

    assert {what: names for what, _, names in faults} == blamed
