"""The Slurm launcher keeps the contract of all launchers, over a real cluster, also where Slurm itself takes long to end a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.launchers.base import JobState, Trouble
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tests.engines.slurm_cluster import SlurmCluster
from tests.tasks.launchers.contract import CONTRACT, WAIT, Bench, name_of, until, until_told

pytestmark = pytest.mark.root


@pytest.fixture
def bench(slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Launchers over one folder, which the nodes share."""
    monkeypatch.setenv("PREFECT_API_KEY", "not for nodes")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    options = SlurmOptions(grace_s=1.0, poll_seconds=0.1)
    yield Bench(lambda: SlurmLauncher(tmp_path / "shared", options), tmp_path, 30.0, agent=True)


@pytest.mark.parametrize("promise", CONTRACT, ids=name_of)
def test_contract(promise: Callable[[Bench], None], bench: Bench) -> None:
    """See tests/tasks/launchers/contract.py."""
    promise(bench)


@pytest.mark.long
def test_a_job_that_is_ending_has_not_ended(slurm: SlurmCluster, bench: Bench) -> None:
    """While the site's epilog runs, a job that an operator ended is COMPLETING: cancel waits for its end, and it was stopped."""
    launcher, job = bench.again(), bench.job(WAIT)
    slurm.hook("epilog", "sleep 6")
    try:
        launcher.submit(launcher.plan(job))
        until_told(bench, launcher, job.name, job.nodes)
        slurm.run("scancel", f"--name={job.name}")
        begun = time.monotonic()
        until(launcher, job.name, 30.0, lambda status: "COMPLETING" in slurm.run("squeue", "-h", "-o", "%T"))
        ending = launcher.state(job.name)
        launcher.cancel(job.name)
        took, left = time.monotonic() - begun, slurm.run("squeue", "-h", "-o", "%j").split()
    finally:
        slurm.hook("epilog")
    status = launcher.state(job.name)

    assert (ending.state.final, took > 5.0, left) == (False, True, [])
    assert (status.state, status.trouble) == (JobState.CANCELLED, Trouble.STOPPED)
    assert all(slurm.processes(node) == [] for node in slurm.nodes)
