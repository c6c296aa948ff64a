"""The agent finds its peers in a Slurm step: from what Slurm sets at this start, and from nothing that was written before."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.exchange import secret_key
from container.agent.files import inputs
from container.agent.hosts import address, roster_source
from container.agent.hosts.roster_source import Hosts, PlaceUnknown
from container.agent.settings import Settings, make
from tests.container.agents import make_bundle

STEP = {"SLURM_JOB_NODELIST": "n[0-3]", "SLURM_STEP_NODELIST": "n[2,10]", "SLURMD_NODENAME": "n10"}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of an agent that no launcher gave a roster, outside of SageMaker and of Slurm."""
    for name in (*STEP, "SLURM_NODEID"):
        monkeypatch.delenv(name, raising=False)
    return make(tmp_path, {}, {"PRELAUNCH_INTERFACE": "eth1"})


@pytest.mark.parametrize(
    ("environment", "names", "node"),
    [
        (STEP, ("n2", "n10"), "n10"),
        ({**STEP, "SLURM_STEP_NODELIST": ""}, ("n0", "n1", "n2", "n3"), "n3"),
        ({"SLURM_STEP_NODELIST": "a,b", "SLURM_NODEID": "1"}, ("a", "b"), "b"),
    ],
)
def test_the_nodes_are_those_of_the_step(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    names: tuple[str, ...],
    node: str,
) -> None:
    """In Slurm's order, which is the same on every node. Without a name, the number of this node says which it is."""
    for name, value in {**environment, **({"SLURMD_NODENAME": node} if node == "n3" else {})}.items():
        monkeypatch.setenv(name, value)

    assert roster_source.find(settings, None) == Hosts(names, node, "eth1")


@pytest.mark.parametrize(
    "environment",
    [
        {**STEP, "SLURMD_NODENAME": "n3"},
        {**STEP, "SLURM_STEP_NODELIST": "n[2"},
        {"SLURM_STEP_NODELIST": "a,b", "SLURM_NODEID": "2"},
        {"SLURM_STEP_NODELIST": "a,b"},
    ],
)
def test_a_node_that_is_not_among_them_does_not_start(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    """Nor one that does not know which of them it is."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PlaceUnknown):
        roster_source.find(settings, None)


def test_outside_of_slurm_nothing_names_the_nodes(settings: Settings) -> None:
    """Two are declared, and an agent alone must not stand for both."""
    with pytest.raises(PlaceUnknown, match="2 nodes are declared"):
        roster_source.find(settings, bundles.load(make_bundle(nodes=2)))


def test_the_key_of_a_shared_folder_stays_for_the_next_start(tmp_path: Path) -> None:
    """Each host removes its own copy before the command starts; Slurm may start the job again."""
    shared, scratch = tmp_path / "shared", tmp_path / "scratch"
    shared.mkdir()
    scratch.mkdir()
    secret_key.write(shared / secret_key.FILE, secret_key.make())
    given = {"PRELAUNCH_EXCHANGE_KEY": str(shared / secret_key.FILE), "PRELAUNCH_SHARED": "1"}
    secret, place = inputs.fetch_key(make(tmp_path, {}, given), 2, scratch)
    secret_key.remove(place)

    assert place == scratch / secret_key.FILE and secret == secret_key.load(shared / secret_key.FILE, 2)


@pytest.mark.parametrize(
    ("names", "own"),
    [
        ({"n1": "10.9.9.1", "n2": "10.9.9.2"}, "10.9.9.1"),
        ({"n1": "127.0.1.1", "n2": "10.9.9.2"}, "10.9.9.7"),  # Debian's /etc/hosts
        ({"n1": "", "n0": "", "n2": "10.9.9.2"}, "10.9.9.7"),
        ({"n1": "127.0.1.1", "n2": ""}, "127.0.1.1"),
        ({"n1": "127.0.0.1", "n2": "127.0.0.2"}, "127.0.0.1"),  # all nodes on one machine
    ],
)
def test_a_node_gives_its_peers_an_address_that_they_reach(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, str], own: str
) -> None:
    """Its own name may lead to loopback, where a peer would find itself."""
    monkeypatch.setattr(address, "resolve", lambda name: names.get(name, ""))
    monkeypatch.setattr(address, "towards", lambda other: "10.9.9.7" if other.startswith("10.") else "")

    assert address.own("n1", "", ("n0", "n1", "n2")) == own


def test_the_kernel_says_from_where_it_would_send() -> None:
    """Nothing is sent; loopback is no answer."""
    assert [address.towards(other) for other in ("", "127.0.0.1", "::1")] == ["", "", ""]
    assert address.towards("192.0.2.1") != "127.0.0.1"  # TEST-NET-1 of RFC 5737; "" without a route
