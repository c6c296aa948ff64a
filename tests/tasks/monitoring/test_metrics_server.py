"""The server of the exporter: metrics at one path, clients that hold nothing, and an address that is taken."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from checks.watch.server import CLIENTS
from tasks.monitoring.endpoint import fetched, samples
from tasks.monitoring.metrics_server import ListenError, server_of


class One(Collector):
    """One family."""

    def collect(self) -> Iterator[Metric]:
        metric = GaugeMetricFamily("a", "b", labels=("x",))
        metric.add_metric(('q"\n',), 1)
        yield metric


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server that serves."""
    with server_of(One(), "127.0.0.1", 0, {"/": "<p>fleet</p>", "/nodes/ü": "<p>node</p>"}.get) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def status(port: int, method: str, path: str) -> int:
    """Of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path)
    with connection.getresponse() as answer:
        connection.close()
        return answer.status


def test_the_metrics_are_at_one_path(port: int) -> None:
    """As text that our own verification reads."""
    assert ['q"\n'] == [sample.labels["x"] for sample in samples(fetched("127.0.0.1", port, 5))]
    assert [200, 404, 405] == [
        status(port, *words)
        for words in (("GET", "/metrics"), ("GET", "/metrics/../x"), ("POST", "/metrics"))
    ]


def test_pages_are_beside_the_metrics_and_are_only_read(port: int) -> None:
    """As HTML that no browser keeps."""
    assert [200, 200, 404, 405] == [
        status(port, *words)
        for words in (("GET", "/"), ("GET", "/nodes/%C3%BC"), ("GET", "/nodes/x"), ("POST", "/"))
    ]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/")
    with connection.getresponse() as answer:
        assert (b"<p>fleet</p>", "no-store") == (answer.read(), answer.headers["Cache-Control"])
    connection.close()


def test_clients_that_say_nothing_keep_no_scrape_out(port: int) -> None:
    """There are more of them than are served at a time, and a scrape is answered at once."""
    with ExitStack() as open_:
        for _ in range(2 * CLIENTS):
            open_.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))

        assert 200 == status(port, "GET", "/metrics")


def test_an_address_that_is_taken_is_refused(port: int) -> None:
    """With the option that names another."""
    with pytest.raises(ListenError, match="--listen"):
        server_of(One(), "127.0.0.1", port)


def test_it_listens_on_ipv6() -> None:
    """On loopback here."""
    try:
        server = server_of(One(), "[::1]", 0)
    except ListenError:
        pytest.skip("this machine has no ::1")
    with server:
        assert socket.AF_INET6 is server.socket.family


def test_a_service_that_comes_back_gets_its_port_at_once() -> None:
    """Connections of the process before are still in TIME_WAIT, because the server closes first."""
    with server_of(One(), "127.0.0.1", 0, {"/": "<p>fleet</p>", "/nodes/ü": "<p>node</p>"}.get) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        thread.join()
        assert b"200 OK" in answer
        port = server.server_port
    with server_of(One(), "127.0.0.1", port) as again:
        assert port == again.server_port
