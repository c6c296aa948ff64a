"""The local launcher keeps the contract, on loopback and in namespaces; in containers: test_container.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.launchers.local import network
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.plan import LocalNetwork, LocalOptions
from tests.tasks.launchers.contract import CONTRACT, Bench, every_node_runs_and_reports, name_of

CASES = [
    *(pytest.param(LocalNetwork.LOOPBACK, promise, id=name_of(promise)) for promise in CONTRACT),
    # In namespaces, what can differ.
    pytest.param(
        LocalNetwork.NAMESPACES, every_node_runs_and_reports, id="namespaces", marks=pytest.mark.root
    ),
]


@pytest.fixture
def bench(
    warm: None, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """Launchers over one folder; afterwards nothing of their jobs is left."""
    if request.param is LocalNetwork.NAMESPACES and (why := network.unavailable()):
        pytest.skip(why)
    monkeypatch.setenv("PREFECT_API_KEY", "not for nodes")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    root, options = tmp_path / "work", LocalOptions(request.param, grace_s=0.5)
    yield Bench(lambda: LocalLauncher(root, options), tmp_path)
    launcher = LocalLauncher(root, options)
    for name in os.listdir(root / "jobs") if (root / "jobs").exists() else ():
        launcher.cancel(name)


@pytest.mark.parametrize(("bench", "promise"), CASES, indirect=["bench"])
def test_contract(promise: Callable[[Bench], None], bench: Bench) -> None:
    """See tests/tasks/launchers/contract.py."""
    promise(bench)
