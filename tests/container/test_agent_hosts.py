"""Several hosts agree on one attempt token; what one of them lacks is said, and no life is mixed with another."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from checks.exchange.exchange import Put
from checks.roster import Member
from container.agent.hosts.roll_call import (
    ContainerStart,
    NotInAttempt,
    RollCallResponder,
    answer,
    dump_start,
    keep,
    read_roll,
)
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


def nth_start(number: str) -> ContainerStart:
    """A start of a container."""
    return ContainerStart(number, "127.0.0.1")


@pytest.fixture
def responder() -> RollCallResponder:
    """The first host's."""
    return RollCallResponder(access("a", GATE), "")


def test_an_open_roll_takes_the_last_life_and_a_closed_one_nobody(responder: RollCallResponder) -> None:
    """A container that started again before the attempt began is the one that will run; later it has no part in the attempt. Only the
    job's hosts are on the roll, each with a life that can be read.
    """
    for host, start in (("b", nth_start("1")), ("b", nth_start("2")), ("stranger", nth_start("1"))):
        responder.put(f"join/{host}", dump_start(start))
    responder.put("join/a", "{")

    assert {"b": nth_start("2")} == responder.close_roll(("a", "b")).members
    assert Put.CLOSED is responder.put("join/b", dump_start(nth_start("3")))


def test_each_start_has_another_token(responder: RollCallResponder) -> None:
    """Equal hosts, another life of one of them."""
    tokens = set()
    for number in ("1", "2"):
        responder.notes.clear()
        tokens.add(keep(responder, ("a",), ("a", nth_start(number)), 1.0, Signals()).token)

    assert 2 == len(tokens)


@pytest.mark.parametrize(("number", "said"), [("2", "an earlier start"), (None, "without this host")])
def test_a_host_that_is_not_on_the_roll_is_told_why(
    responder: RollCallResponder, number: str | None, said: str
) -> None:
    """Another life of it, or none at all."""
    first = Member("a", "127.0.0.1", free_port())
    responder.listen(first.address, first.probe_port)
    if number:
        responder.put("join/b", dump_start(nth_start(number)))
    responder.close_roll(("a", "b"))
    try:
        with pytest.raises(NotInAttempt, match=said):
            answer(lambda: first, access("b", GATE), ("b", nth_start("1")), 5.0, Signals())
    finally:
        responder.close()


@pytest.mark.parametrize("text", ["", "[]x", '{"a": {}}', '{"a": 1}'])
def test_a_roll_that_cannot_be_read_is_none(text: str) -> None:
    """Half a roll would give a token of its own."""
    with pytest.raises(NotInAttempt):
        read_roll(text)


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
    stranger = RollCallResponder(access(HOSTS[0], GATE), "")
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
