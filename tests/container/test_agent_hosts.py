"""Several hosts agree on one attempt token; what one of them lacks is said, and no life is mixed with another."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.exchange import secret_key
from checks.exchange.exchange import Put
from checks.roster import Member
from container.agent import check_command
from container.agent.files import exit_record, inputs
from container.agent.files.exit_record import ExitRecord
from container.agent.hosts import address, roll_call, roster_source
from container.agent.hosts.roster_source import Hosts, PlaceUnknown
from container.agent.settings import Settings, make
from container.agent.supervisor import Signals
from tests.container.agents import GATE, Agent, Ended, fake_python, free_port, make_bundle, make_root, run
from tests.exchanges import access
from tests.waiting import until

HOSTS = ("127.0.0.1", "127.0.0.2")


def test_several_hosts_without_a_key_are_refused(tmp_path: Path) -> None:
    """Before anything is checked; SageMaker shows the reason."""
    root = make_root(tmp_path, make_bundle(nodes=2), HOSTS, HOSTS[0])
    (root / "input" / "data" / "prelaunch" / "exchange.key").unlink()
    ended = run(root, "check", python=fake_python(tmp_path))

    assert (2, False) == (ended.code, (ended.out / "rosters").exists())
    assert "the key with which 2 nodes communicate cannot be read" in ended.failure


def test_a_job_that_is_stopped_while_hosts_are_awaited(tmp_path: Path) -> None:
    """Nothing was checked yet, and the record says so at once."""
    root, port = make_root(tmp_path, make_bundle(nodes=2), HOSTS, HOSTS[0]), free_port()
    environment = {"PRELAUNCH_PORT": str(port)}
    with Agent(root, "check", python=fake_python(tmp_path), environment=environment) as first:
        until(lambda: listens(HOSTS[0], port))
        first.terminate()
        ended = first.wait()

    assert (143, "SIGTERM", [HOSTS[1]]) == (ended.code, ended.record["signal"], ended.record["missing"])


def listens(address: str, port: int) -> bool:
    """Whether somebody does there."""
    with suppress(OSError), socket.create_connection((address, port), 1.0):
        return True
    return False


def nth_start(number: str) -> roll_call.ContainerStart:
    """A start of a container."""
    return roll_call.ContainerStart(number, "127.0.0.1")


@pytest.fixture
def responder() -> roll_call.RollCallResponder:
    """The first host's."""
    return roll_call.RollCallResponder(access("a", GATE), "")


def test_an_open_roll_takes_the_last_life_and_a_closed_one_nobody(
    responder: roll_call.RollCallResponder,
) -> None:
    """A container that started again before the attempt began is the one that will run; later it has no part in the attempt. Only the
    job's hosts are on the roll, each with a life that can be read.
    """
    for host, start in (("b", nth_start("1")), ("b", nth_start("2")), ("stranger", nth_start("1"))):
        responder.put(f"join/{host}", roll_call.dump_start(start))
    responder.put("join/a", "{")

    assert {"b": nth_start("2")} == responder.close_roll(("a", "b")).members
    assert Put.CLOSED is responder.put("join/b", roll_call.dump_start(nth_start("3")))


def test_each_start_has_another_token(responder: roll_call.RollCallResponder) -> None:
    """Equal hosts, another life of one of them."""
    tokens = set()
    for number in ("1", "2"):
        responder.notes.clear()
        tokens.add(roll_call.keep(responder, ("a",), ("a", nth_start(number)), 1.0, Signals()).token)

    assert 2 == len(tokens)


@pytest.mark.parametrize(("number", "said"), [("2", "an earlier start"), (None, "without this host")])
def test_a_host_that_is_not_on_the_roll_is_told_why(
    responder: roll_call.RollCallResponder, number: str | None, said: str
) -> None:
    """Another life of it, or none at all."""
    first = Member("a", "127.0.0.1", free_port())
    responder.listen(first.address, first.probe_port)
    if number:
        responder.put("join/b", roll_call.dump_start(nth_start(number)))
    responder.close_roll(("a", "b"))
    try:
        with pytest.raises(roll_call.NotInAttempt, match=said):
            roll_call.answer(lambda: first, access("b", GATE), ("b", nth_start("1")), 5.0, Signals())
    finally:
        responder.close()


@pytest.mark.parametrize("text", ["", "[]x", '{"a": {}}', '{"a": 1}'])
def test_a_roll_that_cannot_be_read_is_none(text: str) -> None:
    """Half a roll would give a token of its own."""
    with pytest.raises(roll_call.NotInAttempt):
        roll_call.read_roll(text)


def alone(tmp_path: Path, host: str, **environment: str) -> Ended:
    """One host of two, to its end, without a process of its own."""
    root = make_root(tmp_path, make_bundle(nodes=2), HOSTS, host)
    return run(root, "check", python=fake_python(tmp_path), PRELAUNCH_JOIN_S="1", **environment)


def test_a_host_that_never_came_is_missing(tmp_path: Path) -> None:
    """The others are checked all the same, within the time for the roll call."""
    ended = alone(tmp_path, HOSTS[0], PRELAUNCH_PORT=str(free_port()))

    assert (3, [HOSTS[1]], 1) == (ended.code, ended.record["missing"], len(ended.merged.nodes))


def test_a_host_that_finds_nobody_leaves_a_report_under_its_own_token(tmp_path: Path) -> None:
    """It is evidence about the network, and never a part of another attempt. Who answers with another key is nobody."""
    port = free_port()
    stranger = roll_call.RollCallResponder(access(HOSTS[0], GATE), "")
    stranger.listen(HOSTS[0], port)
    try:
        ended = alone(tmp_path, HOSTS[1], PRELAUNCH_PORT=str(port))
    finally:
        stranger.close()
    attempt = ended.out / str(ended.record["attempt"])

    assert (3, False) == (ended.code, (ended.out / "health_check_metrics.json").exists())
    assert (attempt / "nodes" / f"{HOSTS[1]}.json").exists()
    assert "did not answer the roll call" in ended.failure
    assert "it has another key, or belongs to another gate" in ended.failure


@pytest.mark.parametrize(("bad", "code"), [("healthy", 0), ("wrong", 1)])
def test_hosts_share_one_token_one_roster_and_one_verdict(tmp_path: Path, bad: str, code: int) -> None:
    """The addresses are those that each host gave of itself. The first host merges, and there is one verdict."""
    python, port = fake_python(tmp_path), free_port()
    given = {"PRELAUNCH_PORT": str(port), "PRELAUNCH_JOIN_S": "20", f"FAKE_{HOSTS[1].replace('.', '_')}": bad}
    roots = [make_root(tmp_path, make_bundle(nodes=2), HOSTS, host) for host in HOSTS]
    with Agent(roots[1], "check", python=python, environment=given) as other:
        first, second = run(roots[0], "check", python=python, **given), other.wait()
    paths = (first.out / "rosters" / f"{HOSTS[0]}.json", second.out / "rosters" / f"{HOSTS[1]}.json")
    rosters = [json.loads(path.read_bytes()) for path in paths]

    assert (code, code) == (first.code, second.code)
    assert first.record["attempt"] == second.record["attempt"] == first.merged.attempt
    assert list(HOSTS) == [node.name for node in first.merged.nodes]
    assert not (second.out / "health_check_metrics.json").exists()
    assert rosters[0] == rosters[1]
    assert list(HOSTS) == [member["address"] for member in rosters[0]["members"]]
    assert first.failure == second.failure and bool(code) == (HOSTS[1] in first.failure)


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
