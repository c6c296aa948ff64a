"""Commissioning on a real Prefect server, with an engine in this process."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from checks.judge.baseline.bands import load
from tasks import commission as commissioning
from tasks.expire import close_expired_gate
from tasks.gate.commission import CommissionRequest, gate_contexts
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import HeldLease
from tasks.gate.session import take_lease
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import GateRequest
from tasks.orchestration import events
from tasks.orchestration.commission_result import ClusterResult
from tasks.orchestration.run_state import run_is_final
from tests.flows.commissioning import write_cluster
from tests.flows.fake_engine import Engine

pytestmark = pytest.mark.usefixtures("prefect_backend", "engine")


def commission(*gate_files: Path, **more: Any) -> tuple[Any, list[Any], list[ClusterResult]]:
    """Run the flow: its final state, its children's flow runs, and the result of each cluster."""
    request = CommissionRequest(gate_files=[str(path) for path in gate_files], profile="quick", **more)
    results: list[ClusterResult] = []

    async def conclude(found: Sequence[ClusterResult]) -> Any:
        results.extend(found)
        return await commissioning.conclude_commission(found)

    async def run() -> tuple[Any, list[Any], list[ClusterResult]]:
        from prefect import tags
        from prefect.client.orchestration import get_client

        from flows.commission import commission as flow
        from tasks.orchestration.runs import children_of

        with tags("prelaunch"), pytest.MonkeyPatch.context() as patch:
            patch.setattr("flows.commission.conclude_commission", conclude)
            state = await flow(request, return_state=True)
        async with get_client() as client:
            run_id = state.state_details.flow_run_id
            assert run_id is not None
            children = await client.read_flow_runs(flow_run_filter=children_of(run_id))
        return state, children, results

    return asyncio.run(run())


def cluster(folder: Path, name: str, policy: str = "") -> Path:
    """The gate file of a cluster of the engine."""
    return write_cluster(folder, name, policy=policy, launcher="fake")


def locked(file: Path) -> tuple[GateContext, HeldLease]:
    """The lock of its cluster is another gate's."""
    context = open_gate_context(GateRequest(gate_file=str(file)))
    return context, take_lease(context, True, on_expired=close_expired_gate, run_over=run_is_final)


def test_a_sick_cluster_does_not_hide_the_others(tmp_path: Path, engine: Engine) -> None:
    """A row a cluster, the worst first; the state is the worst's, and each was checked by a gate of its own."""
    engine.roles = {"bad": "wrong", "mute": "silent"}
    files = (cluster(tmp_path, name) for name in ("good", "bad", "mute"))
    state, children, rows = commission(*files, learn=False)

    assert ("Refused", "FAILED") == (state.name, state.type.value)
    assert "1 of 3 clusters passed. NO-GO bad: node-1, rank 3 computes wrong sums" in str(state.message)
    found = [(row.result.value, row.cluster) for row in rows]
    assert [("REFUSED", "bad"), ("CANNOT TELL", "mute"), ("PASSED", "good")] == found
    names = {f"gate {name}: 2 nodes, quick" for name in ("good", "bad", "mute")}
    assert names == {child.name for child in children}
    assert {"Passed", "Refused", "CannotTell"} == {child.state_name for child in children}
    assert all("prelaunch" in child.tags for child in children)
    assert engine.idle


def test_a_cluster_that_another_gate_holds_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its hardware's failure nor a pass: it cannot be told, and who holds it is said once it was waited for.

    The gate's own run, below the commissioning, says that it has ended: no automation takes it for silent.
    """
    sent: list[tuple[str, str, list[str]]] = []

    def keep(event: str, resource: dict[str, str], related: Any = (), **more: Any) -> Any:
        sent.append((event, resource["prefect.resource.id"], [one["prefect.resource.id"] for one in related]))

    monkeypatch.setattr(events, "emit_event", keep)
    monkeypatch.setattr(commissioning, "LOOK_S", 0.2)
    monkeypatch.setattr(commissioning, "MINUTE_S", 1.0)
    file = cluster(tmp_path, "held")
    context, held = locked(file)
    try:
        # Another gate of this very process: only the flow run's file tells that it is not ours.
        state, children, rows = commission(file, learn=False, busy_minutes=1)
    finally:
        leases.release(context.store, held)

    assert ("CannotTell", "BUSY") == (state.name, rows[0].result.value)
    assert held.lease.gate_id in rows[0].sentence and len(children) == 1
    assert "It was waited for 1 minutes." in rows[0].sentence
    ended = (events.RUN_ENDED, f"prefect.flow-run.{children[0].id}")
    ((_, _, related),) = [one for one in sent if one[:2] == ended]
    assert "prefect.tag.prelaunch" in related


def test_a_busy_cluster_that_is_free_soon_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No gate is started meanwhile."""
    monkeypatch.setattr(commissioning, "LOOK_S", 0.2)
    file = cluster(tmp_path, "held")
    context, held = locked(file)
    free = threading.Timer(2.0, leases.release, (context.store, held))
    free.start()
    try:
        state, children, _ = commission(file, learn=False, busy_minutes=1)
    finally:
        free.cancel()
        leases.release(context.store, held)

    assert ("Passed", 1) == (state.name, len(children))


def test_go_reports_alone_teach_the_baseline(tmp_path: Path, engine: Engine) -> None:
    """It is kept in the store, says from how many reports, and the file that the gate is held to stays; one report is too few. Each
    cluster's store keeps how its last commissioning ended.

    A fresh PASS, which a gate may reuse, does not stand for the checks: a commissioning measures.
    """
    engine.parts = ["wrong", "healthy"]
    file = cluster(tmp_path, "taught", "reuse_pass_minutes = 60")
    _, _, rows = commission(file, learn=False)
    assert [("", "first commissioning")] == [(row.baseline, row.since) for row in rows]
    state, _, rows = commission(file, reports=1)
    few = "no baseline was learned: 1 go report, and each range needs 8 values from healthy machines"
    assert ("Passed", few) == (state.name, rows[0].baseline)
    assert rows[0].since.startswith("was REFUSED on 20")
    assert not (tmp_path / "taught" / "store" / "baselines").exists()
    state, _, rows = commission(file)

    made = load((tmp_path / "taught" / "store" / "baselines" / "taught.json").read_bytes())
    assert ("Passed", 2) == (state.name, len(made.reports))
    assert "from 2 go reports" in rows[0].baseline
    copy, line = re.findall(r"To use it: (cp .*), then write into .*: \[policy\] (.*)", rows[0].baseline)[0]
    subprocess.run(shlex.split(copy), check=True)
    file.write_text(file.read_text().replace("[policy]\n", f"[policy]\n{line}\n"))
    adopted = open_gate_context(GateRequest(gate_file=str(file))).baseline
    assert adopted == made
    assert 3 == len(engine.jobs)


@pytest.mark.parametrize(
    ("twice", "said"), [(True, "both belong to cluster one"), (False, "there is no such file")]
)
def test_commission_rejects_a_bad_gate_file_by_name(tmp_path: Path, twice: bool, said: str) -> None:
    """Before anything starts, by the field's name or the file's."""
    first, second = cluster(tmp_path, "one"), tmp_path / "two.toml"
    if twice:
        second.write_text(first.read_text())

    with pytest.raises(GateFileError, match=said):
        gate_contexts(CommissionRequest(gate_files=[str(first), str(second)]))
