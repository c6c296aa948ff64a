"""The agent in a pod of Kubernetes or a step of Slurm: who its peers are, how they are found, and what it leaves when it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.exchange import secret_key
from container.agent import check_command
from container.agent.files import exit_record, inputs
from container.agent.files.exit_record import ExitRecord
from container.agent.hosts import address, roster_source
from container.agent.hosts.roster_source import Hosts, PlaceUnknown
from container.agent.settings import Settings, make
from tests.container.agents import make_bundle

STEP = {"SLURM_JOB_NODELIST": "n[0-3]", "SLURM_STEP_NODELIST": "n[2,10]", "SLURMD_NODENAME": "n10"}

POD = {"PRELAUNCH_PODS": "3", "PRELAUNCH_POD": "1", "PRELAUNCH_POD_ADDRESS": "node-%.gate-1"}


def settings(tmp_path: Path, **changes: str) -> Settings:
    """As a pod's variables say."""
    return make(tmp_path, {}, {**POD, "PRELAUNCH_SHARED": "1", **changes})


def test_the_nodes_are_the_pods_in_their_order(tmp_path: Path) -> None:
    """Their names are the same in every job of a gate; what is resolved is the job's own."""
    hosts = roster_source.find(settings(tmp_path), None)

    assert (hosts.names, hosts.node) == (("node-0", "node-1", "node-2"), "node-1")
    assert [hosts.resolvable(name) for name in hosts.names] == [f"node-{rank}.gate-1" for rank in range(3)]


def test_a_pod_of_an_operator_has_its_number_at_the_end_of_its_name(tmp_path: Path) -> None:
    """So do those of PyTorchJobs."""
    assert roster_source.find(settings(tmp_path, PRELAUNCH_POD="gate-1-worker-2"), None).node == "node-2"


def test_peers_are_found_by_the_names_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own names resolve nowhere."""
    known = {f"node-{index}.gate-1": f"10.0.0.{index + 1}" for index in range(3)}
    monkeypatch.setattr(address, "resolve", lambda name: known.get(name, ""))

    assert check_command.own_address(roster_source.find(settings(tmp_path), None)) == "10.0.0.2"


@pytest.mark.parametrize(
    "changes",
    [
        {"PRELAUNCH_POD": "3"},
        {"PRELAUNCH_POD": ""},
        {"PRELAUNCH_POD": "gate-1-worker"},
        {"PRELAUNCH_POD_ADDRESS": "gate-1"},
    ],
)
def test_a_pod_without_a_number_among_them_does_not_start(tmp_path: Path, changes: dict[str, str]) -> None:
    """It would stand for another one."""
    with pytest.raises(PlaceUnknown, match="PRELAUNCH_POD"):
        roster_source.find(settings(tmp_path, **changes), None)


@pytest.mark.parametrize("nodes", [1, 2])
def test_agent_copies_the_mounted_key_to_scratch(tmp_path: Path, nodes: int) -> None:
    """The mount cannot be written; the key that the checks remove is a copy."""
    folder, scratch = tmp_path / "input/data/prelaunch", tmp_path / "scratch"
    folder.mkdir(parents=True)
    scratch.mkdir()
    (folder / secret_key.FILE).write_bytes(secret_key.make())
    _, place = inputs.fetch_key(settings(tmp_path), nodes, scratch)

    assert place == scratch / secret_key.FILE


def test_the_end_is_left_in_the_termination_message(tmp_path: Path) -> None:
    """One line of it, below the 4096 bytes that a kubelet keeps, whatever the reason contains."""
    path, reason = tmp_path / "termination-log", "\U0001f525" * 5000 + "\nmore"
    path.write_bytes(b"")
    record = ExitRecord("gate-1", "abc", "node-1", "2026-11-26T10:00:00Z", exit_code=1, reason=reason)
    exit_record.write_termination(str(path), record)
    said = json.loads(path.read_text())

    assert path.stat().st_size < 4096
    assert (said["attempt"], said["node"], said["exit_code"]) == ("abc", "node-1", 1)
    assert "more" not in said["reason"] and said["reason"].startswith("\U0001f525")


def test_without_a_place_there_is_no_termination_message(tmp_path: Path) -> None:
    """Outside of Kubernetes there is none, and one that cannot be written ends nothing."""
    record = ExitRecord("gate-1", "abc", "node-1", "2026-11-26T10:00:00Z")
    exit_record.write_termination("", record)
    exit_record.write_termination(str(tmp_path / "none" / "log"), record)

    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def slurm_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of an agent that no launcher gave a roster, outside of SageMaker and of Slurm."""
    for name in (*STEP, "SLURM_NODEID"):
        monkeypatch.delenv(name, raising=False)
    return make(tmp_path, {}, {"PRELAUNCH_INTERFACE": "eth1"})


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        (STEP, Hosts(("n2", "n10"), "n10", "eth1")),
        (
            {**STEP, "SLURM_STEP_NODELIST": "", "SLURMD_NODENAME": "n3"},
            Hosts(("n0", "n1", "n2", "n3"), "n3", "eth1"),
        ),
        ({"SLURM_STEP_NODELIST": "a,b", "SLURM_NODEID": "1"}, Hosts(("a", "b"), "b", "eth1")),
    ],
)
def test_the_nodes_are_those_of_the_step(
    slurm_settings: Settings, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], hosts: Hosts
) -> None:
    """In Slurm's order, which is the same on every node. Without a name, the number of this node says which it is."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert roster_source.find(slurm_settings, None) == hosts


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
    slurm_settings: Settings, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    """Nor one that does not know which of them it is."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PlaceUnknown):
        roster_source.find(slurm_settings, None)


def test_outside_of_slurm_nothing_names_the_nodes(slurm_settings: Settings) -> None:
    """Two are declared, and an agent alone must not stand for both."""
    with pytest.raises(PlaceUnknown, match="2 nodes are declared"):
        roster_source.find(slurm_settings, bundles.load(make_bundle(nodes=2)))


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
