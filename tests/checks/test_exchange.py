"""The responder and its clients, over real sockets on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from checks.exchange import ExchangeError, Responder, ask, connection
from checks.hostpairs import _stream
from checks.roster import Member


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def member() -> Iterator[Member]:
    """A responder of gate "g" on loopback."""
    responder, port = Responder("g", "node-0", "catalogue"), free_port()
    responder.listen("127.0.0.1", port)
    yield Member("node-0", "127.0.0.1", port)
    responder.close()


def test_hello_names_the_node_and_its_catalogue(member: Member) -> None:
    """Who answers is known, so that a wrong address is seen."""
    assert {"node": "node-0", "catalogue": "catalogue"} == ask(member, "g", "hello", 2)


def test_another_gate_is_turned_away(member: Member) -> None:
    """Two gates on one port do not mix their notes."""
    with pytest.raises(ExchangeError, match="serves gate g"):
        ask(member, "other", "put", 2, key="a", value="b")


def test_a_note_is_waited_for(member: Member) -> None:
    """It is answered as soon as the note is there."""
    said: list[object] = []
    reader = threading.Thread(target=lambda: said.append(ask(member, "g", "get", 5, key="a", wait_ms=4000)))
    reader.start()
    ask(member, "g", "put", 2, key="a", value="b")
    reader.join(4)

    assert [{"value": "b"}] == said


def test_a_note_that_nobody_left_is_null(member: Member) -> None:
    """Nothing is made up at the deadline."""
    assert {"value": None} == ask(member, "g", "get", 2, key="a", wait_ms=10)


def test_a_closed_port_is_refused_in_words() -> None:
    """The reason is the operating system's."""
    with pytest.raises(ExchangeError, match="connection refused"):
        ask(Member("node-1", "127.0.0.1", free_port()), "g", "hello", 2)


def test_a_silent_peer_times_out() -> None:
    """A port that accepts and never answers costs its deadline, not more."""
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(ExchangeError, match="timed out"):
        ask(Member("node-1", "127.0.0.1", mute.getsockname()[1]), "g", "hello", 0.2)


def test_a_peer_that_closes_is_an_error() -> None:
    """No answer is no evidence."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            server.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(ExchangeError):
            ask(Member("node-1", "127.0.0.1", server.getsockname()[1]), "g", "hello", 2)


def test_garbage_on_the_port_does_not_end_the_responder(member: Member) -> None:
    """A port scan must not cost the gate its evidence."""
    with socket.create_connection((member.address, member.probe_port)) as link:
        link.sendall(b"\x00\xff" * 1000 + b"\n")

    assert "node" in ask(member, "g", "hello", 2)


def test_bandwidth_counts_only_what_arrived(member: Member) -> None:
    """A stream of 8 MiB over loopback is faster than 10 Mbit and slower than memory can be."""
    assert 0.00125 < _stream(member, "g", 8 << 20, 5) < 1000


def test_two_streams_at_once_are_taken_in_turn(member: Member) -> None:
    """A receiver is shared by nobody, so that no link looks slow for another's sake."""
    with connection(member, "g", "sink", 2, bytes=1) as first:
        first.answer()
        with (
            pytest.raises(ExchangeError, match="timed out"),
            connection(member, "g", "sink", 0.2, bytes=1) as second,
        ):
            second.answer()
