"""The SageMaker launcher keeps the contract, over a stand-in that really runs the containers. It is a simulation of AWS."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.launchers.base import JobSpec, JobState, Launcher, Placement
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.launcher import SageMakerLauncher
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.store.aws import AwsTimeouts
from tests.fakes.sagemaker.bench import IMAGE, ROLE, Cloud, stand_in
from tests.survival.faulty_network import needs_root
from tests.tasks.launchers.contract import CONTRACT, SAY, WAIT, Bench, name_of, told, until_final

pytestmark = [pytest.mark.root, needs_root]
# The first life of the first node fails, the second does not.
FAILS_ONCE = """
import pathlib
mark = pathlib.Path({mark!r})
if os.environ["PRELAUNCH_NODE"] == "algo-1" and not mark.exists():
    mark.touch()
    sys.exit(7)
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """An account with machines for a few jobs at once."""
    folder = tmp_path_factory.mktemp("contract")
    with (
        pytest.MonkeyPatch.context() as patch,
        stand_in(folder, {"ml.m5.large": 4}, dials={"grace_s": 2.0}) as made,
    ):
        for key, value in made.environment.items():
            patch.setenv(key, value)
        yield made


@pytest.fixture(scope="module")
def clients(cloud: Cloud) -> Clients:
    """boto3's own, which cost most of a second."""
    return Clients(cloud.region, AwsTimeouts(deadline_s=10.0))


@pytest.fixture
def bench(cloud: Cloud, clients: Clients, tmp_path: Path) -> Iterator[Bench]:
    """Launchers over one account; afterwards nothing of their jobs runs."""
    prefix = f"s3://{cloud.bucket}/{uuid.uuid4().hex}"
    options = SageMakerOptions(
        cloud.region, IMAGE, ROLE, prefix, Placement.NONE, volume_gb=10, poll_seconds=0.1
    )

    def again() -> SageMakerLauncher:
        made = SageMakerLauncher(options)
        made.clients = clients
        return made

    yield Bench(again, tmp_path, 30.0, "m5.large", True, True)
    for name, job in cloud.jobs().items():
        if not job["settled"]:
            again().cancel(name)
    assert cloud.running() == []


@pytest.mark.parametrize("promise", CONTRACT, ids=name_of)
def test_contract(promise: Callable[[Bench], None], bench: Bench) -> None:
    """See tests/tasks/launchers/contract.py."""
    promise(bench)


def submit(launcher: Launcher, job: JobSpec) -> Launcher:
    """Start the job; who did."""
    launcher.submit(launcher.plan(job))
    return launcher


def test_two_submits_at_once_start_one_job(bench: Bench, cloud: Cloud) -> None:
    """One of them adopts, or both find it."""
    job = bench.job(WAIT, 1)

    def adopted(_: int) -> bool:
        made = bench.again()
        return made.submit(made.plan(job)).adopted

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(adopted, range(4)))
    cloud.reach(job.name, "Training")

    assert (found.count(False), len(cloud.hosts(job.name))) == (1, 1)


def test_a_repaired_cluster_has_an_attempt_of_its_own(bench: Bench, cloud: Cloud) -> None:
    """SageMaker starts the containers again; the first life's attempt is the one before."""
    first_life = FAILS_ONCE.format(mark=str(bench.folder / "failed"))
    job = bench.job(f"import os, sys\n{first_life}{SAY}")
    with cloud.turned(repair="always"):
        made = submit(bench.again(), job)
        status = until_final(made, job.name, 60.0)
    nodes = told(made, job.name, bench.folder / "out")

    assert (status.state, len(status.earlier)) == (JobState.SUCCEEDED, 1)
    assert {node["attempt"] for node in nodes.values()} == {status.attempt}
    assert status.exit_codes == {"algo-1": 0, "algo-2": 0}
    assert any("Repairing" in line for line in status.history)


def test_an_isolated_job_is_known_by_its_archive(bench: Bench, cloud: Cloud) -> None:
    """Its containers reach no S3. AWS's clock is an hour ahead of ours, which changes nothing."""
    job = bench.job(SAY, 1)
    made = bench.again()
    assert isinstance(made, SageMakerLauncher)
    made.options = replace(made.options, network_isolation=True)
    with cloud.turned(clock_skew_s=3600.0):
        status = until_final(submit(made, job), job.name, 60.0)

    assert (status.state, status.exit_codes) == (JobState.SUCCEEDED, {"algo-1": 0})
