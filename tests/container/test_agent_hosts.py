"""Several hosts agree on one attempt token; what one of them lacks is said, and no life is mixed with another."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from checks.exchange import secret_key
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

HOSTS = ("127.0.0.1", "127.0.0.2")


def start(tmp_path: Path, host: str, **environment: str) -> Agent:
    """One host of two."""
    root = make_root(tmp_path, make_bundle(nodes=2), HOSTS, host)
    return Agent(root, "check", python=tmp_path / "python", environment=environment)


def both(tmp_path: Path, **environment: str) -> tuple[Ended, Ended]:
    """Two hosts to their end."""
    fake_python(tmp_path)
    given = {"PRELAUNCH_PORT": str(free_port()), "PRELAUNCH_JOIN_S": "20", **environment}
    with start(tmp_path, HOSTS[1], **given) as second, start(tmp_path, HOSTS[0], **given) as first:
        return first.wait(), second.wait()


def test_two_hosts_share_one_token_and_one_report(tmp_path: Path) -> None:
    """The first host merges; both hold the same roster, of the addresses that each gave of itself."""
    first, second = both(tmp_path)
    files = [
        ended.out / "rosters" / f"{host}.json" for ended, host in zip((first, second), HOSTS, strict=True)
    ]
    rosters = [json.loads(path.read_bytes()) for path in files]

    assert (0, 0) == (first.code, second.code)
    assert first.record["attempt"] == second.record["attempt"] == first.merged.attempt
    assert list(HOSTS) == [node.name for node in first.merged.nodes]
    assert not (second.out / "health_check_metrics.json").exists()
    assert rosters[0] == rosters[1]
    assert list(HOSTS) == [member["address"] for member in rosters[0]["members"]]


def test_several_hosts_without_a_key_are_refused(tmp_path: Path) -> None:
    """Before anything is checked; SageMaker shows the reason."""
    fake_python(tmp_path)
    root = make_root(tmp_path, make_bundle(nodes=2), HOSTS, HOSTS[0])
    (root / "input" / "data" / "prelaunch" / "exchange.key").unlink()
    ended = run(root, "check", python=tmp_path / "python")

    assert (2, False) == (ended.code, (ended.out / "rosters").exists())
    assert "the key with which 2 nodes communicate cannot be read" in ended.failure


def test_hosts_with_different_keys_do_not_meet(tmp_path: Path) -> None:
    """Each reports under a token of its own, and nobody can tell."""
    fake_python(tmp_path)
    given = {"PRELAUNCH_PORT": str(free_port()), "PRELAUNCH_JOIN_S": "3"}
    stranger = make_root(tmp_path, make_bundle(nodes=2), HOSTS, HOSTS[1])
    (stranger / "input" / "data" / "prelaunch" / "exchange.key").write_bytes(secret_key.make())
    python = tmp_path / "python"
    with (
        Agent(stranger, "check", python=python, environment=given) as second,
        start(tmp_path, HOSTS[0], **given) as first,
    ):
        ended = first.wait(), second.wait()

    assert [3, 3] == [each.code for each in ended]
    assert ended[0].record["attempt"] != ended[1].record["attempt"]
    assert "it has another key, or belongs to another gate" in ended[1].failure


def test_one_bad_host_is_a_no_go_for_both(tmp_path: Path) -> None:
    """The verdict is one, wherever the fault lies."""
    first, second = both(tmp_path, FAKE_127_0_0_2="wrong")

    assert (1, 1) == (first.code, second.code)
    assert first.failure == second.failure and HOSTS[1] in first.failure


def test_a_host_that_never_came_is_missing(tmp_path: Path) -> None:
    """The others are checked all the same, within the time for the roll call."""
    fake_python(tmp_path)
    given = {"PRELAUNCH_PORT": str(free_port()), "PRELAUNCH_JOIN_S": "1"}
    with start(tmp_path, HOSTS[0], **given) as first:
        ended = first.wait()

    assert (3, [HOSTS[1]], 1) == (ended.code, ended.record["missing"], len(ended.merged.nodes))


def test_a_host_that_finds_nobody_leaves_a_report_under_its_own_token(tmp_path: Path) -> None:
    """It is evidence about the network, and never a part of another attempt."""
    fake_python(tmp_path)
    given = {"PRELAUNCH_PORT": str(free_port()), "PRELAUNCH_JOIN_S": "1"}
    with start(tmp_path, HOSTS[1], **given) as second:
        ended = second.wait()
    attempt = ended.out / str(ended.record["attempt"])

    assert (3, False) == (ended.code, (ended.out / "health_check_metrics.json").exists())
    assert (attempt / "nodes" / f"{HOSTS[1]}.json").exists()
    assert "did not answer the roll call" in ended.failure


def test_a_job_that_is_stopped_while_hosts_are_awaited(tmp_path: Path) -> None:
    """Nothing was checked yet, and the record says so at once."""
    fake_python(tmp_path)
    port = free_port()
    with start(tmp_path, HOSTS[0], PRELAUNCH_PORT=str(port)) as first:
        listening(HOSTS[0], port)
        first.terminate()
        ended = first.wait()

    assert (143, "SIGTERM", [HOSTS[1]]) == (ended.code, ended.record["signal"], ended.record["missing"])


def test_nodes_of_a_launchers_roster_may_share_an_address(tmp_path: Path) -> None:
    """The hosts still agree on a token, each agent on a port of its own; the roster stays the launcher's."""
    python, port = fake_python(tmp_path), free_port()
    probes = free_port()
    members = [{"name": f"n-{at}", "address": "127.0.0.1", "probe_port": probes + at} for at in range(2)]
    (tmp_path / "roster.json").write_text(
        json.dumps({"members": members, "rendezvous_port": probes + 2, "interface": "lo"})
    )
    given = {"PRELAUNCH_ROSTER": str(tmp_path / "roster.json"), "PRELAUNCH_PORT": str(port)}
    roots = [make_root(tmp_path, make_bundle(nodes=2), current=name) for name in ("n-0", "n-1")]
    names = [{**given, "PRELAUNCH_NODE": name} for name in ("n-0", "n-1")]
    with (
        Agent(roots[1], "check", python=python, environment=names[1]) as second,
        Agent(roots[0], "check", python=python, environment=names[0]) as first,
    ):
        ended = first.wait(), second.wait()

    assert (0, 0) == (ended[0].code, ended[1].code)
    assert ended[0].merged.attempt == ended[1].record["attempt"]


def listening(address: str, port: int) -> None:
    """Return once somebody listens there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            return socket.create_connection((address, port), 1.0).close()
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"nobody listens on {address}:{port}")


def nth_start(number: str) -> ContainerStart:
    """A start of a container."""
    return ContainerStart(number, "127.0.0.1")


@pytest.fixture
def responder() -> RollCallResponder:
    """The first host's."""
    return RollCallResponder(access("a", GATE), "")


def test_a_closed_roll_takes_nobody(responder: RollCallResponder) -> None:
    """A container that starts again has no part in the attempt of its first life."""
    responder.put("join/b", dump_start(nth_start("1")))
    responder.close_roll(("a", "b"))

    assert Put.CLOSED is responder.put("join/b", dump_start(nth_start("2")))


def test_an_open_roll_takes_the_last_life(responder: RollCallResponder) -> None:
    """A container that started again before the attempt began is the one that will run."""
    responder.put("join/b", dump_start(nth_start("1")))
    responder.put("join/b", dump_start(nth_start("2")))

    assert {"b": nth_start("2")} == responder.close_roll(("a", "b")).members


def test_each_start_has_another_token(responder: RollCallResponder) -> None:
    """Equal hosts, another life of one of them."""
    tokens = set()
    for number in ("1", "2"):
        responder.notes.clear()
        tokens.add(keep(responder, ("a",), ("a", nth_start(number)), 1.0, Signals()).token)

    assert 2 == len(tokens)


def test_strangers_and_garbage_do_not_get_on_the_roll(responder: RollCallResponder) -> None:
    """Only the job's hosts, each with a life that can be read."""
    responder.put("join/stranger", dump_start(nth_start("1")))
    responder.put("join/a", "{")

    assert {} == responder.close_roll(("a", "b")).members


@pytest.mark.parametrize(("number", "said"), [("2", "an earlier start"), (None, "without this host")])
def test_a_host_that_is_not_on_the_roll_is_told_why(
    responder: RollCallResponder, number: str | None, said: str
) -> None:
    """Another life of it, or none at all."""
    port = free_port()
    responder.listen("127.0.0.1", port)
    if number:
        responder.put("join/b", dump_start(nth_start(number)))
    responder.close_roll(("a", "b"))
    try:
        with pytest.raises(NotInAttempt, match=said):
            answer(
                lambda: Member("a", "127.0.0.1", port),
                access("b", GATE),
                ("b", nth_start("1")),
                5.0,
                Signals(),
            )
    finally:
        responder.close()


@pytest.mark.parametrize("text", ["", "[]x", '{"a": {}}', '{"a": 1}'])
def test_a_roll_that_cannot_be_read_is_none(text: str) -> None:
    """Half a roll would give a token of its own."""
    with pytest.raises(NotInAttempt):
        read_roll(text)


def test_a_signal_ends_the_roll_call(responder: RollCallResponder) -> None:
    """A job that is stopped while hosts are awaited."""
    signals = Signals()
    signals.note(15)

    assert {"a"} == set(keep(responder, ("a", "b"), ("a", nth_start("1")), 600.0, signals).members)
