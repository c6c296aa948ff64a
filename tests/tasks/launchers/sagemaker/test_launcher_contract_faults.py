"""What AWS may do to a job, over a stand-in that really runs the containers. It is a simulation of AWS."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tasks.launchers.base import (
    JobSpec,
    JobState,
    JobStatus,
    Keeping,
    LaunchRejected,
    Placement,
    QuotaExceeded,
    Trouble,
    Work,
)
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.launcher import SageMakerLauncher
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.store.aws import Limits
from tests.fakes.sagemaker.bench import IMAGE, ROLE, Cloud, stand_in
from tests.fakes.sagemaker.dials import Dials
from tests.survival.faulty_network import needs_root
from tests.tasks.launchers.contract import SAY, WAIT, Bench, told, until, until_final
from tests.tasks.store.servers import flaky

pytestmark = [pytest.mark.root, needs_root]
TYPE = "ml.m5.large"
LIMITS = Limits(deadline_s=10.0, pause_s=0.05)
SECONDS = 60.0
TURNED = (
    "capacity_after_s", "next_capacity_errors", "quotas", "unassumable", "next_internal_errors", "throttle", "repair",
    "pool_quotas", "clock_skew_s",
)  # fmt: skip
GRACE_S = (
    1.0  # a container that is told to end before Python is up hears nothing: the first process of a namespace
)
# The first life of the first node fails, the second does not.
FAILS_ONCE = """
import pathlib
mark = pathlib.Path({mark!r})
if os.environ["PRELAUNCH_NODE"] == "algo-1" and not mark.exists():
    mark.touch()
    sys.exit(7)
"""


@dataclass(frozen=True)
class CloudSetup:
    """An account, and launchers over it."""

    cloud: Cloud
    folder: Path
    options: SageMakerOptions
    clients: Clients

    def launcher(self, **changes: Any) -> SageMakerLauncher:
        """Another one; only boto3's clients are shared, which cost most of a second."""
        made = SageMakerLauncher(replace(self.options, **changes), LIMITS)
        made.clients = self.clients
        return made

    def job(self, code: str = SAY, nodes: int = 1, **changes: Any) -> JobSpec:
        """A job of another name."""
        return replace(
            Bench(self.launcher, self.folder, instance_type="m5.large").job(code, nodes), **changes
        )

    def submit(self, job: JobSpec, **changes: Any) -> SageMakerLauncher:
        """Start it; who did."""
        made = self.launcher(**changes)
        made.submit(made.plan(job))
        return made

    def end(self, job: JobSpec, **changes: Any) -> JobStatus:
        """Start it and wait for its end."""
        return until_final(self.submit(job, **changes), job.name, SECONDS)

    def checked(self) -> tuple[SageMakerLauncher, JobSpec]:
        """A health check that has ended, and whose machines are kept: a bundle that nobody can read ends it at once."""
        job = self.job(work=Work.CHECK)
        made = self.submit(job, placement=Placement.POOLED)
        until_final(made, job.name, SECONDS)
        self.cloud.wait(job.name)
        return made, job


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """An account with machines for two jobs at once."""
    folder = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as patch, stand_in(folder, {TYPE: 4}) as made:
        for key, value in made.environment.items():
            patch.setenv(key, value)
        yield made


@pytest.fixture(scope="module")
def clients(cloud: Cloud) -> Clients:
    """The launchers' own."""
    return Clients(cloud.region, LIMITS)


@pytest.fixture
def cloud_setup(cloud: Cloud, clients: Clients, tmp_path: Path) -> Iterator[CloudSetup]:
    """A good day; afterwards nothing runs and nothing is kept."""
    cloud.dial("grace_s", GRACE_S)
    prefix = f"s3://{cloud.bucket}/{uuid.uuid4().hex}"
    made = SageMakerOptions(cloud.region, IMAGE, ROLE, prefix, Placement.NONE, volume_gb=10, poll_seconds=0.1)
    yield (given := CloudSetup(cloud, tmp_path, made, clients))
    for name, value in vars(Dials()).items():
        if name in TURNED:
            cloud.dial(name, value)
    for name, job in cloud.jobs().items():
        if name.startswith("contract-") and (not job["settled"] or "WarmPoolStatus" in job):
            given.launcher().cancel(name)
    assert cloud.running() == []


def test_capacity_that_comes_late_is_waited_for(cloud_setup: CloudSetup) -> None:
    """Pending, with AWS's own message in the history."""
    cloud_setup.cloud.dial("capacity_after_s", 0.7)
    job = cloud_setup.job()
    made = cloud_setup.submit(job)
    until(made, job.name, SECONDS, lambda status: "Pending" in status.detail)
    status = until_final(made, job.name, SECONDS)

    assert (status.state, any("retrying" in line for line in status.history)) == (JobState.SUCCEEDED, True)


def test_no_capacity_is_said(cloud_setup: CloudSetup) -> None:
    """The next attempt has another name. AWS's other name of it: test_job_states_reasons.py."""
    cloud_setup.cloud.dial("next_capacity_errors", 1)
    first, second = cloud_setup.end(cloud_setup.job()), cloud_setup.end(cloud_setup.job())

    assert (first.state, first.trouble) == (JobState.FAILED, Trouble.NO_CAPACITY)
    assert (second.state, second.trouble) == (JobState.SUCCEEDED, Trouble.NONE)


def test_a_quota_of_nothing_names_the_quota(cloud_setup: CloudSetup) -> None:
    """Nothing was started."""
    cloud_setup.cloud.dial("quotas", {TYPE: 0})
    job = cloud_setup.job()
    with pytest.raises(QuotaExceeded, match=f"quota '{TYPE} for training job usage'"):
        cloud_setup.submit(job)

    assert job.name not in cloud_setup.cloud.jobs()


def test_an_image_that_is_missing_is_configuration(cloud_setup: CloudSetup) -> None:
    """Seen only after the request was taken."""
    status = cloud_setup.end(cloud_setup.job(), image="123456789012.dkr.ecr.us-west-2.amazonaws.com/nobody:1")

    assert (status.state, status.trouble, status.attempt) == (JobState.FAILED, Trouble.CONFIGURATION, "")


def test_a_role_that_cannot_be_assumed_starts_nothing(cloud_setup: CloudSetup) -> None:
    """Told at once, or as the job's end: configuration in both cases."""
    role = "arn:aws:iam::123456789012:role/Strange"
    cloud_setup.cloud.dial("unassumable", [role])
    try:
        status = cloud_setup.end(cloud_setup.job(), role_arn=role)
    except LaunchRejected as error:
        assert role in str(error)
    else:
        assert status.trouble is Trouble.CONFIGURATION


def test_a_service_error_is_the_services(cloud_setup: CloudSetup) -> None:
    """InternalServerError, without RetryStrategy."""
    cloud_setup.cloud.dial("next_internal_errors", 1)
    status = cloud_setup.end(cloud_setup.job(WAIT))

    assert (status.state, status.trouble) == (JobState.FAILED, Trouble.SERVICE)


def test_a_stop_by_somebody_else_is_a_cancellation(cloud_setup: CloudSetup) -> None:
    """And nothing of the job is left."""
    job = cloud_setup.job(WAIT)
    made = cloud_setup.submit(job)
    until(made, job.name, SECONDS, lambda status: bool(status.attempt))
    cloud_setup.cloud.stop(job.name)
    status = until_final(made, job.name, SECONDS)

    assert (status.state, status.trouble) == (JobState.CANCELLED, Trouble.STOPPED)


def test_a_storm_of_throttling_starts_one_job(cloud_setup: CloudSetup) -> None:
    """Most calls are refused, all the way."""
    cloud_setup.cloud.dial("throttle", {"share": 0.6})
    job = cloud_setup.job()
    status = cloud_setup.end(job)

    assert (status.state, [job.name]) == (
        JobState.SUCCEEDED,
        [name for name in cloud_setup.cloud.jobs() if name == job.name],
    )


def test_two_submits_at_once_start_one_job(cloud_setup: CloudSetup) -> None:
    """One of them adopts, or both find it."""
    job = cloud_setup.job(WAIT)

    def submit(_: int) -> bool:
        made = cloud_setup.launcher()
        return made.submit(made.plan(job)).adopted

    with ThreadPoolExecutor(4) as pool:
        adopted = list(pool.map(submit, range(4)))
    cloud_setup.cloud.reach(job.name, "Training")

    assert (adopted.count(False), len(cloud_setup.cloud.hosts(job.name))) == (1, 1)


def test_a_lost_answer_starts_one_job(cloud_setup: CloudSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request arrived, its answer did not: the job is found by its name."""
    job = cloud_setup.job()
    with flaky(cloud_setup.cloud.url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        made = SageMakerLauncher(cloud_setup.options, LIMITS)
        plan = made.plan(job)
        before = 2 + len(
            plan.uploads
        )  # the look for a job of this name, the key of its exchange, and the uploads
        proxy.faults = ["ok"] * before + ["lost"]
        handle = made.submit(plan)
        monkeypatch.undo()
    status = until_final(cloud_setup.launcher(), job.name, SECONDS)

    assert (handle.adopted, proxy.seen[-2:], status.state) == (
        False,
        ["POST lost", "POST ok"],
        JobState.SUCCEEDED,
    )


def test_a_repaired_cluster_has_an_attempt_of_its_own(cloud_setup: CloudSetup) -> None:
    """SageMaker starts the containers again; the first life's attempt is the one before."""
    cloud_setup.cloud.dial("repair", "always")
    first_life = FAILS_ONCE.format(mark=str(cloud_setup.folder / "failed"))
    job = cloud_setup.job(f"import os, sys\n{first_life}{SAY}", nodes=2)
    made = cloud_setup.submit(job)
    status = until_final(made, job.name, SECONDS)
    nodes = told(made, job.name, cloud_setup.folder / "out")

    assert (status.state, len(status.earlier)) == (JobState.SUCCEEDED, 1)
    assert {node["attempt"] for node in nodes.values()} == {status.attempt}
    assert status.exit_codes == {"algo-1": 0, "algo-2": 0}
    assert any("Repairing" in line for line in status.history)


def test_an_isolated_job_is_known_by_its_archive(cloud_setup: CloudSetup) -> None:
    """Its containers reach no S3."""
    job = cloud_setup.job()
    made = cloud_setup.submit(job, network_isolation=True)
    status = until_final(made, job.name, SECONDS)

    assert (status.state, status.exit_codes) == (JobState.SUCCEEDED, {"algo-1": 0})
    assert any("came by output.tar.gz" in line for line in status.history)


def test_a_kept_pool_is_ready_and_let_go(cloud_setup: CloudSetup) -> None:
    """After a check that failed as well, which is why it must be let go."""
    made, job = cloud_setup.checked()
    before = made.hold(job.name).keeping
    said = made.release(job.name)

    assert (before, made.hold(job.name).keeping) == (Keeping.READY, Keeping.GONE)
    assert f"the warm pool of {job.name} was released" in said
    assert made.release(job.name) == ""


def test_a_pool_that_somebody_takes_is_theirs(cloud_setup: CloudSetup) -> None:
    """Named, and not let go by us."""
    made, job = cloud_setup.checked()
    thief = f"thief-{uuid.uuid4().hex[:8]}"
    cloud_setup.cloud.steal(job.name, thief)
    hold = made.hold(job.name)

    assert (hold.keeping, hold.by, made.release(job.name)) == (Keeping.TAKEN, thief, "")


def test_a_pool_whose_time_is_over_is_gone(cloud_setup: CloudSetup) -> None:
    """There is nothing to let go."""
    made, job = cloud_setup.checked()
    cloud_setup.cloud.expire(job.name)

    assert (made.hold(job.name).keeping, made.release(job.name)) == (Keeping.GONE, "")


def test_a_pool_that_was_never_granted_is_gone(cloud_setup: CloudSetup) -> None:
    """A quota of nothing for warm pools: the job runs, and nothing is kept."""
    cloud_setup.cloud.dial("pool_quotas", {TYPE: 0})
    made, job = cloud_setup.checked()

    assert made.hold(job.name).keeping is Keeping.GONE


def test_a_cancel_lets_the_machines_go(cloud_setup: CloudSetup) -> None:
    """SageMaker keeps them after a stop, and they cost."""
    made, job = cloud_setup.checked()
    made.cancel(job.name)

    assert made.hold(job.name).keeping is Keeping.GONE


def test_a_clock_that_is_wrong_changes_nothing(cloud_setup: CloudSetup) -> None:
    """AWS's clock an hour ahead of ours."""
    cloud_setup.cloud.dial("clock_skew_s", 3600.0)
    status = cloud_setup.end(cloud_setup.job())

    assert (status.state, status.exit_codes) == (JobState.SUCCEEDED, {"algo-1": 0})
