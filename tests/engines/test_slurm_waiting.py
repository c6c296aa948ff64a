"""A job that has to wait is no error: what the preflight and the status say while nodes are busy or drained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.launchers.base import JobState, PreflightResult
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tests.engines.slurm_cluster import SlurmCluster
from tests.tasks.launchers.contract import WAIT, Bench, until, until_told

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


@pytest.fixture
def bench(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Bench]:
    """Launchers over one folder, which the nodes share; afterwards all nodes are in service again."""
    options = SlurmOptions(grace_s=1.0, poll_seconds=0.1)
    yield Bench(lambda: SlurmLauncher(tmp_path / "shared", options), tmp_path, 60.0, agent=True)
    for node in slurm.nodes:
        slurm.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)


@pytest.mark.long
def test_while_all_nodes_are_busy_the_job_waits(
    slurm: SlurmCluster, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is wrong, and the line of what no node was asked says that the job waits."""
    monkeypatch.setattr("tasks.launchers.slurm.preflight.FREE_S", 1)
    launcher, running = bench.again(), bench.job(WAIT, nodes=4)
    launcher.submit(launcher.plan(running))
    until_told(bench, launcher, running.name, 4)
    waiting = bench.job(WAIT)
    found = {check.subject: check for check in launcher.preflight((launcher.plan(waiting),))}
    launcher.submit(launcher.plan(waiting))
    status = until(launcher, waiting.name, 30.0, lambda status: status.state is JobState.PENDING)

    assert {check.result for check in found.values()} == {PreflightResult.OK, PreflightResult.UNSEEN}
    assert [name for name, check in found.items() if check.result is PreflightResult.UNSEEN] == [
        "the shared folder"
    ]
    assert "the job itself waits in the queue until nodes are free" in found["the shared folder"].message
    assert found["free nodes"].message == "0 are idle, 2 are needed: the job waits until more are"
    until(launcher, waiting.name, 30.0, lambda status: "is PENDING" in status.detail)
    assert "error" not in status.detail.lower()


@pytest.mark.long
def test_while_nodes_are_drained_there_is_no_capacity(slurm: SlurmCluster, bench: Bench) -> None:
    """Slurm would take the job and let it wait for an administrator, and no option is wrong; a request that is too big is."""
    launcher, job = bench.again(), bench.job(WAIT, nodes=3)
    for node in ("n1", "n2"):
        slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=jdoe: fan")
    found = {check.subject: check for check in launcher.preflight((launcher.plan(job),))}
    big = launcher.preflight((launcher.plan(replace(job, nodes=5)),))

    assert found["nodes in service"].result is PreflightResult.NO_CAPACITY
    assert found["nodes in service"].message == "2 of 4 nodes are in service, 3 are needed"
    assert PreflightResult.WRONG not in {check.result for check in found.values()}
    assert PreflightResult.WRONG in {check.result for check in big}
