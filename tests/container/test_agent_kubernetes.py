"""The agent in a pod of Kubernetes: who its peers are, how they are found, and what it leaves when the pod is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.exchange import secret_key
from container.agent import check_command
from container.agent.files import exit_record, inputs
from container.agent.files.exit_record import ExitRecord
from container.agent.hosts import address, roster_source
from container.agent.hosts.roster_source import PlaceUnknown
from container.agent.settings import Settings, make

POD = {
    "PRELAUNCH_PODS": "3",
    "PRELAUNCH_POD": "1",
    "PRELAUNCH_POD_ADDRESS": "node-%.gate-1",
    "PRELAUNCH_SHARED": "1",
}


def settings(tmp_path: Path, **changes: str) -> Settings:
    """As a pod's variables say."""
    return make(tmp_path, {}, {**POD, **changes})


def test_the_nodes_are_the_pods_in_their_order(tmp_path: Path) -> None:
    """Their names are the same in every job of a gate; what is resolved is the job's own."""
    hosts = roster_source.find(settings(tmp_path), None)

    assert (hosts.names, hosts.node) == (("node-0", "node-1", "node-2"), "node-1")
    assert [hosts.resolvable(name) for name in hosts.names] == [
        "node-0.gate-1",
        "node-1.gate-1",
        "node-2.gate-1",
    ]


def test_a_pod_of_an_operator_has_its_number_at_the_end_of_its_name(tmp_path: Path) -> None:
    """So do those of PyTorchJobs."""
    assert roster_source.find(settings(tmp_path, PRELAUNCH_POD="gate-1-worker-2"), None).node == "node-2"


def test_peers_are_found_by_the_names_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own names resolve nowhere."""
    known = {f"node-{index}.gate-1": f"10.0.0.{index + 1}" for index in range(3)}
    monkeypatch.setattr(address, "resolve", lambda name: known.get(name, ""))
    hosts = roster_source.find(settings(tmp_path), None)

    assert check_command.listed_address(hosts, "node-2") == "10.0.0.3"
    assert check_command.own_address(hosts) == "10.0.0.2"


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
    path = tmp_path / "termination-log"
    path.write_bytes(b"")
    record = ExitRecord(
        "gate-1", "abc", "node-1", "2026-11-26T10:00:00Z", exit_code=1, reason="\U0001f525" * 5000 + "\nmore"
    )
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
