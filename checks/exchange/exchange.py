"""Communication between nodes before any collective: a responder on each node; the first node's also stores the notes of all.

Each connection has one request, and each message is signed with the gate's key (checks.exchange.authentication). A request is a JSON
object {"from", ...}, an answer one {"node", ...}:

    HELLO -> {"catalogue"}    who is there
    PING  -> {}, then 64-byte messages are echoed, as they are, until the connection closes
    SINK  -> {}, then `bytes` bytes are read, as they are; -> {"received", "timed", "seconds"}; one sink at a time
    PUT   -> {"ok", "why"}: a note under a key, for every node to read. The first note under a key stays, and a key ends
             with the name of the node that writes it
    NOTES -> {"values"}: the notes under `keys`, null where there is none, after waiting up to `wait_ms` for all of them, or for one
             that is not `alike`, if that is given; without waiting if many connections are open

A connection that does not prove the key is closed without an answer (checks.exchange.admission). If the peer cannot be reached, or
does not answer correctly, an ExchangeError says why, in words for people.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import BinaryIO

from checks.exchange.admission import ListeningPort, Peers
from checks.exchange.authentication import (
    GREETING_BYTES,
    LENGTH_BYTES,
    MAC_BYTES,
    NONCE_BYTES,
    AuthenticationError,
    ExchangeSession,
    Op,
    length_of,
    nonce_of,
)
from checks.exchange.secret_key import Access
from checks.roster import Member

# Limits for peers that proved the key, in case a node misbehaves, and so that every wait ends (judgement).
MESSAGE_BYTES = 16 << 20  # a node's report, encoded as JSON a second time
MESSAGE_S, IDLE_S, STREAM_S = 30.0, 10.0, 30.0
LONGEST_WAIT_S = 10.0
NOTES, NOTE_BYTES = 1 << 14, 512 << 20
NOTES_OF_NODE = 64
PING_BYTES = 64
CHUNK_BYTES = 1 << 18


class ExchangeError(Exception):
    """A peer could not be reached or did not answer correctly. `refused`: nothing listens on that port."""

    def __init__(self, message: str, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class Put(Enum):
    """The result of writing a note, in words for people."""

    OK = ""
    FULL = "the first node has no room for more notes"
    KEY_TAKEN = "another note has this key already"
    FOREIGN = "a node may only write notes under its own name"
    CLOSED = "the first node takes no more notes"


@dataclass(eq=False)
class _Wait:
    """A wait for notes: the keys of those that are not there yet, and whether it has ended."""

    missing: set[str]
    alike: str | None
    over: threading.Event = field(default_factory=threading.Event)


class Responder:
    """Answers peers on one address and on any number of ports, until it is closed. Its threads are daemons."""

    def __init__(self, access: Access, catalogue: str) -> None:
        self.node, self._key = access.node, access.key
        self.catalogue = catalogue
        self.notes: dict[str, str] = {}
        self.lock = threading.RLock()
        self._waiting: dict[str, set[_Wait]] = {}
        self.sinking = threading.Lock()
        self._written: dict[str, int] = {}
        self._bytes = 0
        self.peers = Peers()
        self._ports: dict[int, ListeningPort] = {}

    def listen(self, address: str, port: int) -> None:
        """Opens a port. Raises ExchangeError if it is in use."""
        try:
            self._ports[port] = ListeningPort(address, port, self._key, self.peers, self._serve)
        except OSError as error:
            raise ExchangeError(f"cannot listen on {address}:{port}: {error.strerror or error}") from error

    def close(self, port: int | None = None) -> None:
        """Closes one port, or all."""
        for number in [port] if port is not None else list(self._ports):
            listener = self._ports.pop(number, None)
            if listener is not None:
                listener.close()

    def put(self, key: str, value: str) -> Put:
        """Writes a note of this node. Writing the same note again is allowed."""
        with self.lock:
            present = self.notes.get(key)
            if present is not None and not self.replaceable(key):
                return Put.OK if present == value else Put.KEY_TAKEN
            size = self._bytes + len(value) - len(present or "")
            if (present is None and len(self.notes) >= NOTES) or size > NOTE_BYTES:
                return Put.FULL
            self._bytes = size
            self.write(key, value)
        return Put.OK

    def write(self, key: str, value: str) -> None:
        """Writes the note, and wakes those who wait for nothing else. The caller holds the lock."""
        self.notes[key] = value
        for wait in self._waiting.pop(key, ()):
            wait.missing.discard(key)
            if not wait.missing or wait.alike not in (None, value):
                wait.over.set()

    def put_of(self, writer: str, key: str, value: str) -> Put:
        """Writes a note of a peer."""
        if key.rpartition("/")[2] != writer:
            return Put.FOREIGN
        with self.lock:
            fresh = key not in self.notes
            if fresh and self._written.get(writer, 0) >= NOTES_OF_NODE:
                return Put.FULL
            result = self.put(key, value)
            self._written[writer] = self._written.get(writer, 0) + (fresh and result is Put.OK)
        return result

    def get(self, key: str, wait_s: float) -> str | None:
        """The note under `key`, after waiting up to `wait_s` for it."""
        return self.get_all((key,), wait_s)[0]

    def get_all(self, keys: Sequence[str], wait_s: float, alike: str | None = None) -> list[str | None]:
        """The notes under the keys, after waiting up to `wait_s` for all of them, or for one that is not `alike`, if that is given.

        A note wakes only those whose wait it ends: of a thousand nodes each waits for the notes of all.
        """
        with self.lock:
            values = [self.notes.get(key) for key in keys]
            wait = _Wait({key for key, note in zip(keys, values, strict=True) if note is None}, alike)
            if not wait.missing or (alike is not None and any(note not in (None, alike) for note in values)):
                return values
            for key in wait.missing:
                self._waiting.setdefault(key, set()).add(wait)
        wait.over.wait(wait_s)
        with self.lock:
            for key in wait.missing:
                self._waiting[key].discard(wait)
                if not self._waiting[key]:
                    del self._waiting[key]
            return [self.notes.get(key) for key in keys]

    def replaceable(self, key: str) -> bool:
        """Whether a second note may replace the first one."""
        return False

    def _serve(self, link: socket.socket, session: ExchangeSession) -> None:
        # A peer that went away is that peer's finding, not ours.
        with suppress(OSError, AuthenticationError, ValueError):
            _Served(self, link, session).run()


class _Served:
    """One connection of a peer."""

    def __init__(self, responder: Responder, link: socket.socket, session: ExchangeSession) -> None:
        self.responder, self.link, self.session = responder, link, session
        self._answers = 0

    def run(self) -> None:
        """Answer. Raises OSError, AuthenticationError, ValueError."""
        if self.session.length > MESSAGE_BYTES:
            return
        message = _read(self.link, self.session.length + MAC_BYTES, time.monotonic() + MESSAGE_S)
        request = _table(self.session.open_request(message))
        match self.session.op:
            case Op.HELLO:
                self._answer({"catalogue": self.responder.catalogue})
            case Op.PING:
                self._echo()
            case Op.SINK:
                self._sink(_int(request, "bytes"))
            case Op.PUT:
                key, value = str(request.get("key")), str(request.get("value"))
                result = self.responder.put_of(str(request.get("from")), key, value)
                self._answer({"ok": result is Put.OK, "why": result.value})
            case Op.NOTES:
                # There must be room for it besides connections of nodes that have something to say.
                waits = not self.responder.peers.is_half_full()
                wait_s = min(_int(request, "wait_ms") / 1000, LONGEST_WAIT_S) if waits else 0.0
                keys, alike = request.get("keys"), request.get("alike")
                wanted = [str(key) for key in keys[:NOTES]] if isinstance(keys, list) else []
                values = self.responder.get_all(wanted, wait_s, alike if isinstance(alike, str) else None)
                self._answer({"values": values})

    def _answer(self, value: Mapping[str, object]) -> None:
        self.link.settimeout(MESSAGE_S)
        data = json.dumps({"node": self.responder.node, **value}).encode()
        self.link.sendall(self.session.answer(self._answers, data))
        self._answers += 1

    def _echo(self) -> None:
        self._answer({})
        end = time.monotonic() + STREAM_S
        with self.link.makefile("rb") as file:
            self.link.settimeout(IDLE_S)
            while time.monotonic() < end and (data := file.read(PING_BYTES)):
                self.link.sendall(data)

    def _sink(self, size: int) -> None:
        if not self.responder.sinking.acquire(timeout=STREAM_S):
            return
        try:
            self._drain(size)
        finally:
            self.responder.sinking.release()

    def _drain(self, size: int) -> None:
        self._answer({})
        self.link.settimeout(IDLE_S)
        buffer = bytearray(CHUNK_BYTES)
        received = untimed = self.link.recv_into(buffer, min(CHUNK_BYTES, size))
        begun = time.monotonic()
        while received < size and time.monotonic() - begun < STREAM_S:
            count = self.link.recv_into(buffer, min(CHUNK_BYTES, size - received))
            if not count:
                break
            received += count
        seconds = time.monotonic() - begun
        self._answer({"received": received, "timed": received - untimed, "seconds": seconds})


@contextmanager
def connection(
    member: Member, access: Access, op: Op, timeout_s: float, port: int = 0, **more: object
) -> Iterator[_Line]:
    """Opens a request to a peer. Raises ExchangeError with the reason in the operating system's words."""
    until = time.monotonic() + timeout_s
    try:
        with socket.create_connection((member.address, port or member.probe_port), timeout=timeout_s) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            data = json.dumps({"from": access.node, **more}).encode()
            nonce = nonce_of(_read(link, GREETING_BYTES, until))
            session = ExchangeSession(access.key, nonce, secrets.token_bytes(NONCE_BYTES), op, len(data))
            link.settimeout(timeout_s)
            link.sendall(session.opening() + session.request(data))
            with link.makefile("rb") as file:
                yield _Line(link, file, session, member.name, timeout_s)
    except OSError as error:
        raise ExchangeError(_text_of(error), isinstance(error, ConnectionRefusedError)) from error
    except AuthenticationError as error:
        raise ExchangeError(f"the peer that answers is not a node of this gate: {error}") from error


class _Line:
    """The caller's side of a connection: verified answers, and plain bytes through `link` and `file`."""

    def __init__(
        self, link: socket.socket, file: BinaryIO, session: ExchangeSession, peer: str, timeout_s: float
    ) -> None:
        self.link, self.file = link, file
        self._session, self._peer, self._timeout_s = session, peer, timeout_s
        self._answers = 0

    def answer(self) -> dict[str, object]:
        """The next answer. It is waited for as long as the request may take. Raises ExchangeError, OSError."""
        until = time.monotonic() + self._timeout_s
        try:
            length = length_of(_read(self.link, LENGTH_BYTES, until))
            if length > MESSAGE_BYTES:
                raise ExchangeError(f"its answer claims to have {length} bytes")
            message = _read(self.link, length + MAC_BYTES, until)
        except ConnectionError as error:
            if self._answers:
                raise
            raise ExchangeError(
                "it closed the connection without an answer: it has another key, or belongs to another gate"
            ) from error
        value = _table(self._session.open_answer(self._answers, message))
        self._answers += 1
        self.link.settimeout(self._timeout_s)
        if value.get("node") != self._peer:
            raise ExchangeError(f"another node answers there: {value.get('node')!r:.60}")
        return value


def ask_notes(
    member: Member,
    access: Access,
    keys: Sequence[str],
    wait_s: float,
    timeout_s: float,
    alike: str | None = None,
) -> list[str | None]:
    """The notes that this node stores under the keys, as Responder.get_all has them. Raises ExchangeError."""
    reply = ask(member, access, Op.NOTES, timeout_s, keys=list(keys), wait_ms=int(wait_s * 1000), alike=alike)
    values = reply.get("values")
    if not isinstance(values, list) or len(values) != len(keys):
        raise ExchangeError(f"it has not answered for {len(keys)} notes")
    return [value if isinstance(value, str) else None for value in values]


def put_note(member: Member, access: Access, key: str, value: str, timeout_s: float) -> str:
    """Writes a note that this node stores. Returns why it was not taken, or "". Raises ExchangeError."""
    answer = ask(member, access, Op.PUT, timeout_s, key=key, value=value)
    return "" if answer.get("ok") is True else str(answer.get("why"))


def ask(
    member: Member, access: Access, op: Op, timeout_s: float, port: int = 0, **more: object
) -> dict[str, object]:
    """One request and its answer. Raises ExchangeError."""
    with connection(member, access, op, timeout_s, port, **more) as line:
        return line.answer()


def _read(link: socket.socket, count: int, until: float) -> bytes:
    """Exactly `count` bytes before `until`, however slowly they come. Raises OSError."""
    chunks: list[bytes] = []
    while count:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        link.settimeout(left)
        chunk = link.recv(min(count, CHUNK_BYTES))
        if not chunk:
            raise ConnectionResetError("it closed the connection without an answer")
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


def _table(data: bytes) -> dict[str, object]:
    """The JSON object in proven bytes. Raises AuthenticationError: whoever has the key speaks this version."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise AuthenticationError("its message is not JSON") from error
    if not isinstance(value, dict):
        raise AuthenticationError("its message is not a JSON object")
    return value


def _int(request: Mapping[str, object], key: str) -> int:
    value = request.get(key)
    return value if type(value) is int and value >= 0 else 0


def _text_of(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror or str(error) or type(error).__name__).lower()
