"""The responder and its callers, over real sockets on loopback."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from checks.exchange import admission, exchange
from checks.exchange.authentication import (
    GREETING_BYTES,
    MARK,
    NONCE_BYTES,
    OPENING_BYTES,
    ExchangeSession,
    Op,
    nonce_of,
)
from checks.exchange.exchange import ExchangeError, Put, Responder, ask, ask_notes, connection, put_note
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
    return link, nonce_of(link.recv(GREETING_BYTES, socket.MSG_WAITALL))


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


def test_board_keeps_first_note_and_rejects_foreign_or_excess_notes(member: Member) -> None:
    """A report, a pass token or the word that it was seen cannot be taken back; the same bytes again are a retry. A node writes in its
    own name alone, and one that runs wild leaves room for the others.
    """
    table = [
        ("pass/node-1", "a", Put.OK),
        ("pass/node-1", "a", Put.OK),
        ("pass/node-1", "b", Put.KEY_TAKEN),
        ("report/node-0", "x", Put.FOREIGN),
        ("report/node-10", "x", Put.FOREIGN),
        ("answer", "x", Put.FOREIGN),
        *((f"{index}/node-1", "x", Put.OK) for index in range(exchange.NOTES_OF_NODE - 1)),
        ("last/node-1", "x", Put.FULL),
    ]

    assert [put.value for *_, put in table] == [
        put_note(member, ME, key, value, 60) for key, value, _ in table
    ]
    assert "" == put_note(member, access("node-2"), "0/node-2", "x", 60)
    assert ["a", None] == ask_notes(member, ME, ["pass/node-1", "last/node-1"], 0.0, 60)


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


def drip(link: socket.socket) -> None:
    """A byte every 50 ms."""
    for byte in MARK + bytes(NONCE_BYTES):
        link.sendall(bytes((byte,)))
        time.sleep(0.05)


def boast(link: socket.socket) -> None:
    """A greeting, and the length of an answer that would fill the memory."""
    link.sendall(MARK + bytes(NONCE_BYTES) + struct.pack(">I", 1 << 31))
    link.recv(1 << 16)


@pytest.mark.parametrize(
    ("answer", "timeout_s", "said"),
    [
        (drip, 0.4, "timed out"),
        (socket.socket.close, 60.0, "closed the connection"),
        (boast, 60.0, "claims to have"),
    ],
)
def test_a_peer_that_does_not_answer_as_it_should_is_an_error(
    answer: Callable[[socket.socket], None], timeout_s: float, said: str
) -> None:
    """Who took a node's address can neither hold the others nor fill their memory."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            link, _ = server.accept()
            with link, contextlib.suppress(OSError):
                answer(link)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ExchangeError, match=said):
            ask(Member("node-1", "127.0.0.1", server.getsockname()[1]), ME, Op.HELLO, timeout_s)


def test_responder_with_another_key_is_rejected(member: Member) -> None:
    """Without the key no answer can be made up."""
    with pytest.raises(ExchangeError, match="another key"):
        ask(member, STRANGER, Op.HELLO, 2)


@pytest.mark.parametrize("stranger", [STRANGER, access("node-1", gate="other")], ids=["key", "gate"])
@pytest.mark.parametrize("op", list(Op))
def test_a_stranger_gets_no_word(member: Member, stranger: Access, op: Op) -> None:
    """Another key, or that of another gate: neither the gate's id nor a reason."""
    link, nonce = greeted(member)
    session = ExchangeSession(stranger.key, nonce, bytes(NONCE_BYTES), op, 2)
    with link:
        link.sendall(session.opening() + session.request(b"{}"))

        assert is_cut(link)


@pytest.mark.parametrize(
    "said", [b"\x00\xff" * 1000 + b"\n", b"GET / HTTP/1.1\r\n" * 9], ids=["noise", "http"]
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
    taken = [peers.enter() for _ in range(most + 1)]

    assert [True] * most + [False] == taken
    peers.leave()
    assert peers.enter()


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
    session = ExchangeSession(ME.key, nonce, bytes(NONCE_BYTES), Op.PUT, exchange.MESSAGE_BYTES + 1)
    with link:
        link.sendall(session.opening())

        assert is_cut(link)


WAITS: dict[str, tuple[object, ...]] = {
    "all are there": (("ok", "ok"), "ok", ["ok", "ok", "ok"], True),
    "one differs": (("no",), "ok", ["ok", "no", None], True),
    "one differs, and nobody minds": (("no",), None, ["ok", "no", None], False),
    "one is missing": (("ok",), "ok", ["ok", "ok", None], False),
}


@pytest.mark.parametrize(("written", "alike", "notes", "ends"), WAITS.values(), ids=WAITS)
def test_several_notes_are_waited_for_at_once(
    member: Member, written: Sequence[str], alike: str | None, notes: list[str | None], ends: bool
) -> None:
    """All of them, or one that differs: who waits for a thousand nodes asks once, and hears an objection at once."""
    keys = [f"a/node-{at}" for at in range(3)]
    peers = [access(f"node-{at}") for at in range(3)]
    put_note(member, peers[0], keys[0], "ok", 60)
    said: list[list[str | None]] = []
    wait_s = 600.0 if ends else 0.6
    reader = threading.Thread(target=lambda: said.append(ask_notes(member, ME, keys, wait_s, 660, alike)))
    begun = time.monotonic()
    if ends:
        reader.start()
    for at, value in enumerate(written, 1):
        put_note(member, peers[at], keys[at], value, 60)
    if not ends:
        reader.start()
    reader.join(60)

    assert said == [notes]
    assert ends or time.monotonic() - begun >= wait_s


def test_a_note_wakes_nobody_who_waits_for_more() -> None:
    """A thousand nodes that wait for each other's notes would wake up a million times."""
    responder = Responder(access("node-0"), "catalogue")
    reader = threading.Thread(target=responder.get_all, args=(["a", "b"], 10.0))
    reader.start()
    while not (waits := [*responder._waiting.get("a", ())]):
        time.sleep(0.01)
    responder.put("a", "1")
    woken = waits[0].over.is_set()
    responder.put("b", "2")
    reader.join(60)

    assert not woken and not reader.is_alive()
    assert not responder._waiting


def test_an_answer_for_other_notes_is_no_answer(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that is not there would look like one of another node."""
    monkeypatch.setattr(Responder, "get_all", lambda *_: ["ok"])

    with pytest.raises(ExchangeError, match="has not answered for 2 notes"):
        ask_notes(member, ME, ["a/node-0", "a/node-1"], 0.1, 2)
