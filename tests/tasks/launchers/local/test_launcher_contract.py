"""The local launcher keeps the contract, on loopback and in namespaces, with processes and with containers of real engines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.launchers.local import network
from tasks.launchers.local.container import ContainerEngine
from tasks.launchers.local.launcher import LocalLauncher, LocalNetwork, LocalOptions
from tests.container_engines import Engines, engines
from tests.tasks.launchers.contract import (
    CONTRACT,
    Bench,
    every_node_runs_and_reports,
    name_of,
)

CONTAINERS = [
    pytest.param((ContainerEngine.PODMAN, LocalNetwork.NAMESPACES), id="podman-namespaces"),
    pytest.param((ContainerEngine.DOCKER, LocalNetwork.LOOPBACK), id="docker-loopback"),
]


CASES = [
    *(pytest.param(LocalNetwork.LOOPBACK, promise, id=name_of(promise)) for promise in CONTRACT),
    # In namespaces and in containers, what can differ.
    pytest.param(
        LocalNetwork.NAMESPACES, every_node_runs_and_reports, id="namespaces", marks=pytest.mark.root
    ),
]


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Launchers over one folder; afterwards nothing of their jobs is left."""
    if request.param is LocalNetwork.NAMESPACES and (why := network.unavailable()):
        pytest.skip(why)
    monkeypatch.setenv("PREFECT_API_KEY", "not for nodes")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield from _bench(LocalOptions(request.param, grace_s=0.5), tmp_path)


def _bench(options: LocalOptions, folder: Path) -> Iterator[Bench]:
    root = folder / "work"
    yield Bench(lambda: LocalLauncher(root, options), folder)
    launcher = LocalLauncher(root, options)
    for name in os.listdir(root / "jobs") if (root / "jobs").exists() else ():
        launcher.cancel(name)


@pytest.fixture(scope="module")
def started() -> Iterator[Engines]:
    """Each engine, started once, when a test first asks for it."""
    with engines() as made:
        yield made


@pytest.fixture(params=CONTAINERS)
def container_bench(
    request: pytest.FixtureRequest,
    started: Engines,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    """The same with nodes that are containers; afterwards no container is left."""
    kind, network_kind = request.param
    made = started(kind)
    monkeypatch.setenv("PREFECT_API_KEY", "not for nodes")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield from _bench(LocalOptions(network_kind, grace_s=0.5, **made.options), tmp_path)  # type: ignore[arg-type]

    assert made.containers() == []


@pytest.mark.parametrize(("bench", "promise"), CASES, indirect=["bench"])
def test_contract(promise: Callable[[Bench], None], bench: Bench) -> None:
    """See tests/tasks/launchers/contract.py."""
    promise(bench)


@pytest.mark.root
def test_contract_in_containers(container_bench: Bench) -> None:
    """See tests/tasks/launchers/contract.py."""
    every_node_runs_and_reports(container_bench)
