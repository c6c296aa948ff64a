"""What a watch serves: two pages, whatever its clients do."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from checks.process.free_ports import free_port
from checks.watch.server import CLIENTS, FINDINGS, METRICS, MetricsServer, address_of


@pytest.fixture
def pages() -> dict[str, bytes]:
    return {METRICS: b"a 1\n", FINDINGS: b"{}\n"}


@pytest.fixture
def server(pages: dict[str, bytes]) -> Iterator[MetricsServer]:
    made = MetricsServer(("127.0.0.1", free_port("127.0.0.1")), pages)
    yield made
    made.shutdown()
    made.server_close()


def fetched(server: MetricsServer, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=60) as answer:
        data = answer.read()
        assert isinstance(data, bytes)
        return data


def test_a_page_is_what_was_made_last(server: MetricsServer, pages: dict[str, bytes]) -> None:
    assert (b"a 1\n", b"{}\n") == (fetched(server, METRICS), fetched(server, f"{FINDINGS}?x=1"))
    pages[METRICS] = b"a 2\n"

    assert b"a 2\n" == fetched(server, METRICS)


@pytest.mark.parametrize("path", ["/", "/metrics/", "/../etc/passwd", "/findings.json"])
def test_nothing_else_is_served(server: MetricsServer, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(server, path)
    refused.value.close()

    assert 404 == refused.value.code


@pytest.mark.parametrize("said", [b"", b"GET /metrics HTTP/1.0\r\nX-Slow: "])
def test_clients_that_ask_nothing_keep_no_scrape_out(server: MetricsServer, said: bytes) -> None:
    """The oldest of them is ended for each new client, whether it is silent or does not come to the end of its request."""
    with ExitStack() as silent:
        first, *_ = [silent.enter_context(_client(server, said)) for _ in range(CLIENTS)]

        assert b"a 1\n" == fetched(server, METRICS)
        with suppress(ConnectionError):
            assert b"" == first.recv(1)


def test_a_client_that_has_asked_is_not_ended_for_one_that_has_not(
    server: MetricsServer, pages: dict[str, bytes]
) -> None:
    """It reads slowly, and is the oldest; what it gets is whole."""
    pages[METRICS] = b"a 1\n" * 2_000_000
    with ExitStack() as silent:
        slow = silent.enter_context(_client(server, b"GET /metrics HTTP/1.0\r\n\r\n"))
        begun = slow.recv(1)
        for _ in range(2 * CLIENTS):
            silent.enter_context(_client(server, b""))
        answer = begun + b"".join(iter(lambda: slow.recv(1 << 20), b""))

    assert answer.endswith(pages[METRICS])


def _client(server: MetricsServer, said: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.server_port), 60)
    connection.sendall(said)
    return connection


def test_an_address_of_ipv6(pages: dict[str, bytes]) -> None:
    try:
        made = MetricsServer(address_of(f"[::1]:{free_port('127.0.0.1')}"), pages)
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    with urllib.request.urlopen(f"http://[::1]:{made.server_port}{METRICS}", timeout=60) as answer:
        assert b"a 1\n" == answer.read()
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize("text", ["", "9402", ":9402", "host:", "host:0", "host:65536", "host:http"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        address_of(text)
