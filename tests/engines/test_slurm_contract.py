"""The Slurm launcher keeps the contract of all launchers, over a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tests.engines.slurm_cluster import SlurmCluster
from tests.tasks.launchers.contract import CONTRACT, Bench, name_of

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
