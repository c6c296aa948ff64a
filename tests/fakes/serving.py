"""A server of a test, while it answers in a thread of its own."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from typing import TypeVar

S = TypeVar("S", bound=socketserver.BaseServer)


class QuietHandler(BaseHTTPRequestHandler):
    """A handler of requests that prints no line about each of them."""

    def log_message(self, format: str, *args: object) -> None:
        """stderr is for what goes wrong."""

    def handle_expect_100(self) -> bool:
        """boto3 waits for it before it sends a body."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def answer(self, status: int, data: bytes = b"", **headers: str) -> None:
        """Send a whole answer. In the name of a header an underscore stands for a hyphen."""
        self.send_response(status)
        for name, value in {"Content_Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def passed_on(
        self, behind: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """What another server, "host:port", answers to this request."""
        with closing(HTTPConnection(behind, timeout=60)) as connection:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def reset(self) -> None:
        """Close the connection with a reset, instead of an answer."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


@contextmanager
def serving(server: S, release: Callable[[], object] = lambda: None) -> Iterator[S]:
    """The server until the end of the block; `release` is called first then, and lets go of requests that hang."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        release()
        server.shutdown()
        server.server_close()
        thread.join()
