"""The responder and its callers, over real sockets on loopback."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

import pytest

from checks.exchange import admission, exchange
from checks.exchange.authentication import (
    GREETING_BYTES,
    MARK,
    NONCE_BYTES,
    OPENING_BYTES,
    Op,
    Session,
    nonce_of,
)
from checks.exchange.exchange import ExchangeError, Put, Responder, ask, connection
from checks.exchange.secret_key import Access, Secret
from checks.probes.network.reachability import _stream
from checks.process.free_ports import free_port
from checks.roster import Member
from tests.exchanges import access, listening

ME = access("node-1")
STRANGER = access("node-1", secret=Secret(bytes(32)))


def greeted(member: Member) -> tuple[socket.socket, bytes]:
    """A connection of anybody, and the nonce that it was greeted with."""
    link = socket.create_connection((member.address, member.probe_port), timeout=60)
    nonce = nonce_of(link.recv(GREETING_BYTES, socket.MSG_WAITALL))
    return link, nonce


def is_cut(link: socket.socket, seconds: float = 5.0) -> bool:
    """Whether the other side closes the connection in time, without a word."""
    link.settimeout(seconds)
    try:
        return link.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_hello_names_the_node_and_its_catalogue(address: str) -> None:
    """Who answers is known, so that a wrong address is seen."""
    with listening(address) as (_, member):
        assert {"node": "node-0", "catalogue": "catalogue"} == ask(member, ME, Op.HELLO, 2)


def test_another_node_at_the_address_is_named(member: Member) -> None:
    """A roster with two addresses interchanged."""
    with pytest.raises(ExchangeError, match="another node answers there: 'node-0'"):
        ask(Member("node-7", member.address, member.probe_port), ME, Op.HELLO, 2)


def test_a_note_is_waited_for(member: Member) -> None:
    """It is answered as soon as the note is there."""
    said: list[object] = []
    reader = threading.Thread(
        target=lambda: said.append(ask(member, ME, Op.GET, 5, key="a/node-1", wait_ms=4000)["value"])
    )
    reader.start()
    ask(member, ME, Op.PUT, 2, key="a/node-1", value="b")
    reader.join(60)

    assert ["b"] == said


def test_a_note_that_nobody_left_is_null(member: Member) -> None:
    """Nothing is made up at the deadline."""
    assert ask(member, ME, Op.GET, 2, key="a", wait_ms=10)["value"] is None


def test_the_first_writer_of_a_note_wins(member: Member) -> None:
    """A report, a pass token or the word that it was seen cannot be taken back; the same bytes again are a retry."""
    said = [ask(member, ME, Op.PUT, 2, key="pass/node-1", value=value)["ok"] for value in ("a", "a", "b")]

    assert [True, True, False] == said
    assert "a" == ask(member, ME, Op.GET, 2, key="pass/node-1", wait_ms=0)["value"]


def test_a_node_writes_in_its_own_name_alone(member: Member) -> None:
    """Nor a note that belongs to the node which keeps the board."""
    answers = [
        ask(member, ME, Op.PUT, 2, key=key, value="x")
        for key in ("report/node-0", "report/node-10", "answer")
    ]

    assert [(False, Put.FOREIGN.value)] * 3 == [(said["ok"], said["why"]) for said in answers]


def test_a_board_takes_so_many_notes_of_one_node(member: Member) -> None:
    """A node that runs wild leaves room for the others."""
    said = [
        ask(member, ME, Op.PUT, 2, key=f"{index}/node-1", value="x")["ok"]
        for index in range(exchange.NOTES_OF_NODE + 1)
    ]

    assert [True] * exchange.NOTES_OF_NODE + [False] == said
    assert ask(member, access("node-2"), Op.PUT, 2, key="0/node-2", value="x")["ok"] is True


def test_a_board_takes_so_many_bytes() -> None:
    """Of all nodes together."""
    responder = Responder(access(), "")
    whole = "x" * (exchange.NOTE_BYTES // 8)

    assert [Put.OK] * 8 + [Put.FULL] == [responder.put(f"{index}", whole) for index in range(9)]


def test_a_closed_port_is_refused_in_words() -> None:
    """The reason is the operating system's."""
    with pytest.raises(ExchangeError, match="connection refused") as raised:
        ask(Member("node-1", "127.0.0.1", free_port()), ME, Op.HELLO, 2)

    assert raised.value.refused


def test_a_peer_that_drips_times_out() -> None:
    """A byte every 50 ms is no answer: who took a node's address cannot hold the others."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            link, _ = server.accept()
            with link, contextlib.suppress(OSError):
                for byte in MARK + bytes(NONCE_BYTES):
                    link.sendall(bytes((byte,)))
                    time.sleep(0.05)

        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(ExchangeError, match="timed out"):
            ask(Member("node-1", "127.0.0.1", server.getsockname()[1]), ME, Op.HELLO, 0.4)


def test_a_peer_that_closes_is_an_error() -> None:
    """No answer is no evidence."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            server.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(ExchangeError):
            ask(Member("node-1", "127.0.0.1", server.getsockname()[1]), ME, Op.HELLO, 2)


def test_whoever_takes_a_nodes_address_is_not_believed() -> None:
    """Without the key no answer can be made up."""
    liar = Responder(access("node-0", secret=Secret(bytes(32))), "catalogue")
    liar.put("pass/node-1", "a token")
    port = free_port()
    liar.listen("127.0.0.1", port)
    try:
        with pytest.raises(ExchangeError, match="another key"):
            ask(Member("node-0", "127.0.0.1", port), ME, Op.GET, 2, key="pass/node-1", wait_ms=0)
    finally:
        liar.close()


@pytest.mark.parametrize("stranger", [STRANGER, access("node-1", gate="other")], ids=["key", "gate"])
@pytest.mark.parametrize("op", list(Op))
def test_a_stranger_gets_no_word(member: Member, stranger: Access, op: Op) -> None:
    """Another key, or that of another gate: neither the gate's id nor a reason."""
    link, nonce = greeted(member)
    session = Session(stranger.key, nonce, bytes(NONCE_BYTES), op, 2)
    with link:
        link.sendall(session.opening() + session.request(b"{}"))

        assert is_cut(link)


@pytest.mark.parametrize(
    "said",
    [
        b"\x00\xff" * 1000 + b"\n",
        b'{"op": "hello", "gate": "corpus"}\n' + b" " * 100,
        b"GET / HTTP/1.1\r\n" * 9,
    ],
    ids=["noise", "the old protocol", "http"],
)
def test_garbage_on_the_port_does_not_end_the_responder(member: Member, said: bytes) -> None:
    """A port scan must not cost the gate its evidence."""
    with socket.create_connection((member.address, member.probe_port)) as link:
        link.sendall(said)

        assert "node" in ask(member, ME, Op.HELLO, 2)


def test_a_stranger_that_is_slow_is_cut(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then is no reason to wait: the time counts from the connection's beginning."""
    monkeypatch.setattr(admission, "OPENING_S", 0.6)
    link, _ = greeted(member)
    with link, pytest.raises(ConnectionError):
        for _ in range(OPENING_BYTES - 1):
            link.sendall(b"x")
            time.sleep(0.05)


def test_500_idle_connections_keep_nobody_out(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of the address that has most give way, and not only when their time is up; few are kept."""
    monkeypatch.setattr(admission, "OPENING_S", 600.0)
    with contextlib.ExitStack() as stack:
        links = []
        for _ in range(500):
            link = stack.enter_context(socket.socket())
            link.connect((member.address, member.probe_port))
            links.append(link)
        assert "node" in ask(member, ME, Op.HELLO, 60)
        for link in links:
            link.setblocking(False)
        left = sum(not _is_closed(link) for link in links)

    assert left <= admission.STRANGERS_OF_ADDRESS


def _is_closed(link: socket.socket) -> bool:
    """Whether the responder cut it; a greeting may still be there to be read."""
    try:
        while data := link.recv(4096):
            assert data.startswith(MARK)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def test_an_address_of_ipv6_is_its_network() -> None:
    """A host may take any of 2^64 addresses of its network."""
    assert admission.network_of("2001:db8::1") == admission.network_of("2001:db8::ffff:1")
    assert admission.network_of("2001:db8::1") != admission.network_of("2001:db8:0:1::1")
    assert "10.0.0.1" == admission.network_of("::ffff:10.0.0.1") == admission.network_of("10.0.0.1")


def test_peers_have_room_for_a_thousand_nodes() -> None:
    """And an end."""
    peers = admission.Peers()
    most = min(admission.PEERS, admission._descriptors() // 2)
    taken = [peers.enter(f"10.0.{index >> 8}.{index & 255}") for index in range(most + 1)]

    assert [True] * most + [False] == taken
    peers.leave("10.0.0.0")
    assert peers.enter("10.0.0.0")


def test_a_port_that_was_closed_can_be_taken_at_once() -> None:
    """The rendezvous port goes from the responder to torchrun, whoever was connected."""
    with listening() as (responder, member):
        ask(member, ME, Op.HELLO, 2)
        idle, _ = greeted(member)
        with idle:
            responder.close(member.probe_port)
            with socket.create_server((member.address, member.probe_port)):
                assert is_cut(idle)


def test_bandwidth_counts_only_what_arrived(member: Member) -> None:
    """A stream of 8 MiB over loopback is faster than 10 Mbit and slower than memory can be."""
    assert 0.00125 < _stream(member, ME, 8 << 20, 5) < 1000


def test_two_streams_at_once_are_taken_in_turn(member: Member) -> None:
    """A receiver is shared by nobody, so that no link looks slow for another's sake."""
    with connection(member, ME, Op.SINK, 2, bytes=1) as first:
        first.answer()
        with (
            pytest.raises(ExchangeError, match="timed out"),
            connection(member, ME, Op.SINK, 0.2, bytes=1) as second,
        ):
            second.answer()


def test_a_stream_that_stands_still_is_given_up(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that died in its stream holds the others for a while, not for ever."""
    monkeypatch.setattr(exchange, "IDLE_S", 0.3)
    with connection(member, ME, Op.SINK, 2, bytes=1 << 20) as first:
        first.answer()
        assert 0 < _stream(member, ME, 1 << 22, 5)


def test_a_length_that_is_too_great_is_not_read(member: Member) -> None:
    """Not even of a peer."""
    link, nonce = greeted(member)
    with link:
        link.sendall(Session(ME.key, nonce, bytes(NONCE_BYTES), Op.PUT, exchange.MESSAGE_BYTES + 1).opening())

        assert is_cut(link)


def test_an_answer_that_is_too_long_is_not_read() -> None:
    """Whoever took a node's address cannot fill the others' memory."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def boast() -> None:
            link, _ = server.accept()
            link.sendall(MARK + bytes(NONCE_BYTES) + struct.pack(">I", 1 << 31))
            threading.Event().wait(2)
            link.close()

        threading.Thread(target=boast, daemon=True).start()
        with pytest.raises(ExchangeError, match="claims to have"):
            ask(Member("node-1", "127.0.0.1", server.getsockname()[1]), ME, Op.HELLO, 2)
