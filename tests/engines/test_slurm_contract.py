"""The Slurm launcher keeps the contract of all launchers, over a real cluster, also where Slurm itself takes long to end a job."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.launchers.base import JobState, Trouble
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tests.engines.slurm_cluster import SlurmCluster
from tests.tasks.launchers.contract import CONTRACT, WAIT, Bench, name_of, until, until_told

pytestmark = pytest.mark.root


OPTIONS = SlurmOptions(grace_s=1.0, poll_seconds=0.1)


@pytest.fixture(scope="module")
def promises(
    running_slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[None]]]:
    """All of them at the same time, each with a folder of its own: a job waits for Slurm, and computes almost nothing."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(CONTRACT)) as pool:
        patch.setenv("PATH", running_slurm.path)
        patch.setenv("PREFECT_API_KEY", "not for nodes")
        patch.delenv("OMP_NUM_THREADS", raising=False)
        benches = {promise: on(tmp_path_factory.mktemp("contract")) for promise in CONTRACT}
        yield {name_of(promise): pool.submit(promise, bench) for promise, bench in benches.items()}
    running_slurm.run("scancel", "--user=root", check=False)
    running_slurm.until_idle()


def on(folder: Path) -> Bench:
    """Launchers over one folder, which the nodes share."""
    return Bench(lambda: SlurmLauncher(folder / "shared", OPTIONS), folder, 60.0, agent=True)


@pytest.mark.parametrize("promise", [name_of(promise) for promise in CONTRACT])
def test_contract(promise: str, promises: Mapping[str, Future[None]]) -> None:
    """See tests/tasks/launchers/contract.py."""
    promises[promise].result(timeout=120)


@pytest.mark.long
def test_a_job_that_is_ending_has_not_ended(slurm: SlurmCluster, tmp_path: Path) -> None:
    """While the site's epilog runs, a job that an operator ended is COMPLETING: cancel waits for its end, and it was stopped."""
    bench = on(tmp_path)
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
