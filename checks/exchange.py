"""How nodes talk before any collective: a responder on each node, and a board of notes on the first one.

One request a connection: a JSON line {"op", "gate", ...}, answered by a JSON line.
  hello -> {"node", "catalogue"}                    who is there
  ping  -> then 64-byte messages are echoed until the connection closes
  sink  -> {"go"}, then `bytes` bytes are read; -> {"received", "timed", "seconds"}; one sink at a time
  put   -> {"ok"}: a note under a key, for every node to read
  get   -> {"value"}: the note, after waiting up to `wait_s` for it; null where there is none
The gate's id must match; it keeps two gates apart and is no secret.

ExchangeError         the peer cannot be reached, or does not answer as it should; the message is for people
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from checks.roster import Member

LINE_BYTES = 1 << 20
NOTES = 1 << 14
PING_BYTES = 64
CHUNK_BYTES = 1 << 18


class ExchangeError(Exception):
    """A peer that could not be reached or did not answer as it should."""


class Responder:
    """Answers peers on one address and on as many ports as asked, until closed. Threads are daemons."""

    def __init__(self, gate: str, node: str, catalogue: str) -> None:
        self.gate, self.hello = gate, {"node": node, "catalogue": catalogue}
        self.notes: dict[str, str] = {}
        self.changed = threading.Condition()
        self.sinking = threading.Lock()
        self._servers: dict[int, _Server] = {}

    def listen(self, address: str, port: int) -> None:
        """Open a port. Raises ExchangeError if it is taken."""
        try:
            server = _Server(address, port, self)
        except OSError as error:
            raise ExchangeError(f"cannot listen on {address}:{port}: {error.strerror or error}") from error
        self._servers[port] = server
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self, port: int | None = None) -> None:
        """Close one port, or all."""
        for number in [port] if port is not None else list(self._servers):
            server = self._servers.pop(number, None)
            if server is not None:
                server.shutdown()
                server.server_close()

    def put(self, key: str, value: str) -> bool:
        """Leave a note; false when the board is full."""
        with self.changed:
            if key not in self.notes and len(self.notes) >= NOTES:
                return False
            self.notes[key] = value
            self.changed.notify_all()
        return True

    def get(self, key: str, wait_s: float) -> str | None:
        """The note under `key`, after waiting up to `wait_s` for it."""
        with self.changed:
            self.changed.wait_for(lambda: key in self.notes, timeout=wait_s)
            return self.notes.get(key)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: str, port: int, responder: Responder) -> None:
        self.responder = responder
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A peer that went away is that peer's finding, not ours."""


class _Handler(socketserver.StreamRequestHandler):
    timeout = 60

    def handle(self) -> None:
        responder = cast(_Server, self.server).responder
        asked = _read_line(self.rfile)
        if asked.get("gate") != responder.gate:
            self._answer({"error": f"this node serves gate {responder.gate}"})
            return
        op = asked.get("op")
        if op == "hello":
            self._answer(responder.hello)
        elif op == "ping":
            self._echo()
        elif op == "sink":
            with responder.sinking:
                self._sink(_int(asked, "bytes"))
        elif op == "put":
            self._answer({"ok": responder.put(str(asked.get("key")), str(asked.get("value")))})
        elif op == "get":
            wait = min(float(_int(asked, "wait_ms")) / 1000, 3600.0)
            self._answer({"value": responder.get(str(asked.get("key")), wait)})
        else:
            self._answer({"error": "unknown op"})

    def _answer(self, value: Mapping[str, object]) -> None:
        self.wfile.write(json.dumps(value).encode() + b"\n")

    def _echo(self) -> None:
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answer({"go": True})
        while data := self.rfile.read(PING_BYTES):
            self.wfile.write(data)

    def _sink(self, size: int) -> None:
        self._answer({"go": True})
        buffer = bytearray(CHUNK_BYTES)
        received = untimed = self.connection.recv_into(buffer, min(CHUNK_BYTES, size))
        begun = time.monotonic()
        while received < size:
            count = self.connection.recv_into(buffer, min(CHUNK_BYTES, size - received))
            if not count:
                break
            received += count
        seconds = time.monotonic() - begun
        self._answer({"received": received, "timed": received - untimed, "seconds": seconds})


@contextmanager
def connection(
    member: Member, gate: str, op: str, timeout_s: float, port: int = 0, **more: object
) -> Iterator[_Line]:
    """An open request to a peer. Raises ExchangeError with the reason in the operating system's words."""
    try:
        with socket.create_connection((member.address, port or member.probe_port), timeout=timeout_s) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.sendall(json.dumps({"op": op, "gate": gate, **more}).encode() + b"\n")
            yield _Line(link)
    except OSError as error:
        raise ExchangeError(_words(error)) from error


class _Line:
    """The client's side of a connection: raw bytes out, JSON lines in."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.file = link.makefile("rb")

    def answer(self) -> dict[str, object]:
        """The next JSON line. Raises ExchangeError for an error or for no answer."""
        value = _read_line(self.file)
        if not value or "error" in value:
            raise ExchangeError(str(value.get("error", "closed the connection without an answer")))
        return value


def ask(
    member: Member, gate: str, op: str, timeout_s: float, port: int = 0, **more: object
) -> dict[str, object]:
    """One request and its answer. Raises ExchangeError."""
    with connection(member, gate, op, timeout_s, port, **more) as line:
        return line.answer()


def _read_line(file: object) -> dict[str, object]:
    data: bytes = file.readline(LINE_BYTES)  # type: ignore[attr-defined]
    try:
        value = json.loads(data) if data.endswith(b"\n") else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _int(asked: Mapping[str, object], key: str) -> int:
    value = asked.get(key)
    return value if type(value) is int and value >= 0 else 0


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror or str(error) or type(error).__name__).lower()
