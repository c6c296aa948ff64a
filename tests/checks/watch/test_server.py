"""What a watch and the exporter of a store serve: their pages, whatever their clients do."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread

import pytest

from checks.watch.families import CONTENT_TYPE
from checks.watch.server import CLIENTS, METRICS, Page, PageServer, address_of


@pytest.fixture
def pages() -> dict[str, Page]:
    return {
        METRICS: (CONTENT_TYPE, b"a 1\n"), "/other": ("application/json", b"{}\n"), "/nodes/\xfc": ("text/html", b"<p>node</p>")
    }  # fmt: skip


@contextmanager
def serving(address: tuple[str, int], pages: dict[str, Page]) -> Iterator[PageServer]:
    """A server that serves until the end of the block."""
    with PageServer(address, pages.get) as made:
        thread = Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


@pytest.fixture
def server(pages: dict[str, Page]) -> Iterator[PageServer]:
    with serving(("127.0.0.1", 0), pages) as made:
        yield made


def fetched(server: PageServer, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=60) as answer:
        data = answer.read()
        assert isinstance(data, bytes)
        return data


def test_a_page_is_what_was_made_last(server: PageServer, pages: dict[str, Page]) -> None:
    assert (b"a 1\n", b"{}\n") == (fetched(server, METRICS), fetched(server, "/other?x=1"))
    pages[METRICS] = (CONTENT_TYPE, b"a 2\n")

    assert b"a 2\n" == fetched(server, METRICS)


@pytest.mark.parametrize("path", ["/", "/../etc/passwd"])
def test_page_server_answers_404_for_other_paths(server: PageServer, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(server, path)
    refused.value.close()

    assert 404 == refused.value.code


@pytest.mark.parametrize("said", [b"", b"GET /metrics HTTP/1.0\r\nX-Slow: "])
def test_clients_that_ask_nothing_keep_no_scrape_out(server: PageServer, said: bytes) -> None:
    """The oldest of them is ended for each new client, whether it is silent or does not come to the end of its request."""
    with ExitStack() as silent:
        first, *_ = [silent.enter_context(_client(server, said)) for _ in range(CLIENTS)]

        assert b"a 1\n" == fetched(server, METRICS)
        with suppress(ConnectionError):
            assert b"" == first.recv(1)


def test_a_client_that_asks_is_not_ended_for_a_silent_one(server: PageServer, pages: dict[str, Page]) -> None:
    """It reads slowly, and is the oldest; what it gets is whole."""
    pages[METRICS] = (CONTENT_TYPE, b"a 1\n" * 2_000_000)
    with ExitStack() as silent:
        slow = silent.enter_context(_client(server, b"GET /metrics HTTP/1.0\r\n\r\n"))
        begun = slow.recv(1)
        for _ in range(2 * CLIENTS):
            silent.enter_context(_client(server, b""))
        answer = begun + b"".join(iter(lambda: slow.recv(1 << 20), b""))

    assert answer.endswith(pages[METRICS][1])


def _client(server: PageServer, said: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.server_port), 60)
    connection.sendall(said)
    return connection


def test_a_page_has_its_type_and_no_browser_keeps_it(server: PageServer) -> None:
    """Its path is decoded."""
    url = f"http://127.0.0.1:{server.server_port}/nodes/%C3%BC"
    with urllib.request.urlopen(url, timeout=60) as answer:
        found = (answer.read(), answer.headers["Content-Type"], answer.headers["Cache-Control"])

    assert (b"<p>node</p>", "text/html", "no-store") == found


@pytest.mark.parametrize("text", ["9402", ":9402", "host:0", "host:65536", "host:http"])
def test_listen_address_rejects_text_that_is_no_host_and_port(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        address_of(text)
    assert ("::1", 9402) == address_of("[::1]:9402")
