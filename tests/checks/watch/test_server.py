"""What a watch serves: two pages, whatever its clients do."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

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


def test_clients_that_say_nothing_are_bounded_and_stop_nobody_for_ever(server: MetricsServer) -> None:
    """More than the threads are closed at once; when those that say nothing are gone, the others are answered."""
    silent = [socket.create_connection(("127.0.0.1", server.server_port), 5) for _ in range(CLIENTS)]
    try:
        ends_at = time.monotonic() + 60
        while server._free.acquire(blocking=False):
            server._free.release()
            assert time.monotonic() < ends_at
            time.sleep(0.01)
        with pytest.raises((ConnectionError, urllib.error.URLError)):
            fetched(server, METRICS)
    finally:
        for one in silent:
            one.close()
    ends_at = time.monotonic() + 60
    while True:
        try:
            assert b"a 1\n" == fetched(server, METRICS)
            break
        except (ConnectionError, urllib.error.URLError):
            assert time.monotonic() < ends_at
            time.sleep(0.05)


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
