"""The SageMaker launcher keeps the contract, over a stand-in that really runs the containers. It is a simulation of AWS."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.launchers.base import Placement
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.launcher import SageMakerLauncher
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.store.aws import Limits
from tests.fakes.sagemaker.bench import IMAGE, ROLE, Cloud, stand_in
from tests.survival.faulty_network import needs_root
from tests.tasks.launchers.contract import CONTRACT, Bench, name_of

pytestmark = [pytest.mark.root, needs_root]


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
    return Clients(cloud.region, Limits(deadline_s=10.0))


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
