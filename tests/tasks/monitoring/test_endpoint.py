"""What a watch serves is fetched whole, or not at all; whatever answers, it ends in time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from checks.process.free_ports import free_port
from tasks.monitoring import endpoint
from tasks.monitoring.endpoint import EndpointError, fetched
from tests.tasks.monitoring.expositions import page, serving

TEXT = "text/plain"


def test_a_page_is_fetched() -> None:
    """Whole."""
    with serving(page("a 1\n")) as port:
        assert "a 1\n" == fetched("127.0.0.1", port, 60.0, "/findings", TEXT)


def endless(client: socket.socket, over: threading.Event) -> None:
    """Samples without an end."""
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while not over.is_set():
        client.sendall(b"a 1\n" * 4096)


def trickle(client: socket.socket, over: threading.Event) -> None:
    """A byte now and then, for ten minutes."""
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6000\r\n\r\n")
    for _ in range(6000):
        client.sendall(b"a")
        if over.wait(0.1):
            return


def slow_headers(client: socket.socket, over: threading.Event) -> None:
    """A header that never ends."""
    client.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not over.wait(0.1):
        client.sendall(b"a")


def silent(client: socket.socket, over: threading.Event) -> None:
    """Takes the connection, and says nothing."""
    over.wait()


HOSTILE: dict[str, bytes | Callable[[socket.socket, threading.Event], None]] = {
    "another type": page("a 1\n", "text/html"),
    "a page in another state": page("a 1\n", status="503 Unavailable"),
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/metrics\r\nContent-Length: 0\r\n\r\n",
    "not complete": page("a 1\n", length=10**6),
    "not UTF-8": page(b'a{x="\xff"} 1\n'),
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
    "endless": endless,
    "trickle": trickle,
    "slow headers": slow_headers,
    "silent": silent,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_endpoint_holds_nobody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them answers something; none of it is the page."""
    monkeypatch.setattr(endpoint, "BODY_BYTES", 1 << 20)
    with serving(HOSTILE[name]) as port, pytest.raises(EndpointError):
        fetched("127.0.0.1", port, 1.0, "/", TEXT)


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_nobody_there_is_no_answer(host: str) -> None:
    """A port on which nothing listens, and a name that nothing resolves."""
    with pytest.raises(EndpointError):
        fetched(host, free_port(), 3.0, "/", TEXT)
