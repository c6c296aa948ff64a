"""S3 over real HTTP for tests: moto's server, and a proxy before it that fails on demand."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import urllib.request
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any
from unittest import mock

from tests.fakes.serving import QuietHandler

BUCKET = "prelaunch-test"
SECRET = "a-secret-of-the-test"
SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


def environment(endpoint: str) -> dict[str, str]:
    """What boto3 reads from a process's environment."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextlib.contextmanager
def named(endpoint: str) -> Iterator[None]:
    """This process's environment names it."""
    with mock.patch.dict(os.environ, environment(endpoint)):
        yield


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """An S3 on a port of its own: its URL. It begins without buckets, as moto keeps what one process has made in one place."""
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer  # half a second that only these tests pay

    # S3 decides a condition and writes in one step. moto compares, and writes later: of three threads two may win.
    one_at_a_time = threading.RLock()

    def locked(method: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            with one_at_a_time:
                return method(*arguments, **more)

        return call

    names = ("put_object", "delete_object")
    writes: dict[str, Any] = {name: locked(getattr(S3Response, name)) for name in names}
    made = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    made.start()
    host, port = made.get_host_and_port()
    with urllib.request.urlopen(f"http://{host}:{port}/moto-api/reset", data=b""):
        pass
    try:
        with mock.patch.multiple(S3Response, **writes):
            yield f"http://{host}:{port}"
    finally:
        made.stop()


class Flaky(ThreadingHTTPServer):
    """A proxy that stands in for S3's bad days. `faults` are used up, one a request, in their order:

    "ok" passes on, "slow" answers 503 SlowDown, "denied" 403, "lost" passes on and drops the answer, "cut" passes
    on and drops half of the answer's body, "blind" passes on without the conditional headers. When something is put whose
    name ends with `dies_at`, everything from there on is "slow".
    """

    daemon_threads = True

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passer)
        self.behind = behind.removeprefix("http://")
        self.faults: list[str] = []
        self.always = "ok"
        self.dies_at = "nothing"
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Passer(QuietHandler):
    server: Flaky
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # one packet an answer

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "PUT" and self.path.partition("?")[0].endswith(self.server.dies_at):
            self.server.always = "slow"
        fault = self.server.faults.pop(0) if self.server.faults else self.server.always
        self.server.seen.append(f"{self.command} {fault}")
        if fault in ("slow", "denied"):
            return self._answer(503 if fault == "slow" else 403, SLOW_DOWN if fault == "slow" else DENIED)
        left_out = ("expect", "if-match", "if-none-match") if fault == "blind" else ("expect",)
        kept = {k: v for k, v in self.headers.items() if k.lower() not in left_out}
        status, headers, data = self.passed_on(self.server.behind, body, kept)
        if fault == "lost":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        return self._answer(status, data, headers, cut=fault == "cut")

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass

    def _answer(
        self, status: int, data: bytes, headers: list[tuple[str, str]] | None = None, cut: bool = False
    ) -> None:
        self.send_response(status)
        for key, value in headers or [("Content-Type", "application/xml")]:
            if key.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(key, value)
        length = {k.lower(): v for k, v in headers or []}.get("content-length", "")
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self.close_connection = True
