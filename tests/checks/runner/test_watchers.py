"""Watchers of closing checks: they live through the run, what they record is whole or none, and they are ended for certain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from checks import bundle as bundles
from checks.catalog import CATALOG
from checks.check import Check
from checks.exchange.exchange import Responder
from checks.facts.builtin import builtin
from checks.facts.withheld_kernel_log import STAND_INS
from checks.model import Declared, Observation, Outcome, Planned, Profile, Skip
from checks.policy import OnWarn, Policy
from checks.process.fork_server import ForkServer
from checks.process.tree import alive, start_ticks
from checks.runner import node_run
from checks.runner.journal import JournalWriter, ReportJournal
from checks.runner.node_context import NodeContext, watch_path
from checks.runner.watchers import Watchers, watched
from tests.checks import watch_checks
from tests.checks.local_policy import lone_node
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
NAME = watch_checks.watching.name


def node_context(folder: Path, *checks: Check, ranks: int = 1) -> NodeContext:
    """A node alone, with these checks in its plan."""
    policy = Policy("none", ("cpu",), OnWarn.GO, 0.25, {})
    made = bundles.make("gate-1", Declared("cpu", 1, 0, ranks), Profile.QUICK, policy, builtin())
    found = lone_node(folder, made)
    plan = tuple(Planned(check.name, check.scope, check.metrics) for check in checks)
    return replace(found, checks=checks, plan=plan)


def started(folder: Path, *checks: Check) -> Watchers:
    """Watchers that have begun."""
    watches = Watchers(node_context(folder, *checks))
    watches.start(checks)
    watches.ready()
    return watches


def pid_of(watches: Watchers) -> int:
    return watches._running[NAME][0].pid


def run(folder: Path, stage: Callable[[], object], *checks: Check, ranks: int = 1) -> dict[str, Observation]:
    """The last row of each of these checks after a runner's stages; `stage` is called before all but the first measurements."""
    alone = node_context(folder, *checks, ranks=ranks)
    kept: dict[str, Observation] = {}
    journal = ReportJournal(folder / "node-0.json", node_run.first_report(alone, "one"))
    keep = JournalWriter(journal, lambda row: kept.update({row.check: row}))
    watches = Watchers(alone)
    opened = node_run._look_before

    def look_before(*given: Any) -> dict[str, str]:
        failed = opened(*given)
        watches.ready()
        stage()
        return failed

    with pytest.MonkeyPatch.context() as patch, closing(ForkServer(node_run.CHILD)) as processes:
        patch.setattr(node_run, "_look_before", look_before)
        responder = cast("Responder", type("Silent", (), {"close": lambda self, port: None})())
        node_run._run_stages(alone, processes, keep, responder, watches)
    return kept


def test_watcher_records_an_event_during_the_run(tmp_path: Path) -> None:
    """The check that closes has it, and the process is gone."""

    def poke() -> None:
        (tmp_path / "scratch" / watch_checks.POKE).touch()
        while (tmp_path / "scratch" / watch_checks.POKE).exists():
            time.sleep(0.01)

    row = run(tmp_path, poke, watch_checks.watching)[NAME]

    assert (Outcome.MEASURED, {"pokes": 1}) == (row.outcome, row.metrics)


def test_a_watch_that_cannot_begin_is_said(tmp_path: Path) -> None:
    """The check cannot measure, and its reason is that of the watch."""
    row = run(tmp_path, lambda: None, watch_checks.refused)["toy.cannot"]

    assert Outcome.ERRORED is row.outcome
    assert "there is nothing to watch" in row.reason


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_watch_that_died_or_was_frozen_saw_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Not even what it had recorded before counts; and it is ended in time."""
    watches = started(tmp_path, watch_checks.watching)
    pid = pid_of(watches)
    ticks = start_ticks(pid)
    os.kill(pid, number)
    watches.stop(NAME)

    assert watched(watch_path(tmp_path / "scratch", NAME)) is None
    assert not alive(pid, ticks)


def test_a_record_without_its_last_line_is_none(tmp_path: Path) -> None:
    """Cut, empty, garbled or absent."""
    watches = started(tmp_path, watch_checks.watching)
    watches.stop_all()
    path = watch_path(tmp_path / "scratch", NAME)
    whole = path.read_text()

    assert [{"begun": True}] == watched(path)
    for text in ("", whole.splitlines()[0] + "\n", whole[:-5], "no JSON\n" + whole, "3\n" + whole):
        path.write_text(text)
        assert watched(path) is None, text
    assert watched(tmp_path / "nothing") is None


def test_a_watch_dies_with_its_runner(tmp_path: Path) -> None:
    """A runner that is killed leaves none behind."""
    code = (
        "import sys, time; from pathlib import Path; from tests.checks import watch_checks;"
        "from tests.checks.runner.test_watchers import pid_of, started;"
        "print(pid_of(started(Path(sys.argv[1]), watch_checks.watching)), flush=True); time.sleep(600)"
    )
    argv = (sys.executable, "-c", code, str(tmp_path))
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    assert child.stdout is not None
    with child.stdout:
        pid = int(child.stdout.readline())
    ticks = start_ticks(pid)
    assert alive(pid, ticks)
    child.kill()
    child.wait()

    until(lambda: not alive(pid, ticks))


def test_the_checks_that_watch_are_those_that_stand_in() -> None:
    """Where the log is readable none of them is planned, so that no process watches."""
    watching = {check.name: check for check in CATALOG if check.watch is not None}
    skip = watching["gpu.xid_events"].skip_for(Declared("p5.48xlarge", 1, 8, 8), Profile.QUICK)

    assert {"dcgm.xid_events", "gpu.xid_events"} == watching.keys()
    assert all(STAND_INS[name].only for name in watching)
    assert Skip.KERNEL_LOG_READABLE is skip
