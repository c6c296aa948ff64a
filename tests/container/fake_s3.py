"""A fake S3 over real HTTP, of one bucket, which fails as a test says."""

from __future__ import annotations

from http.server import ThreadingHTTPServer

from tests.fakes.serving import QuietHandler

BUCKET = "prelaunch-test"
CODES = {403: "AccessDenied", 404: "NoSuchKey", 503: "SlowDown"}


class FakeS3:
    """`objects` by their keys. `failing` are statuses, one a request, before it answers as it should."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.failing: list[int] = []
        self.asked: list[str] = []
        store = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                key = self._key()
                found = store.objects.get(key)
                self._answer(200 if found is not None else 404, found or b"")

            def do_PUT(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                key = self._key()
                if key:
                    store.objects[key] = data
                self._answer(200 if key else 404, b"")

            def _key(self) -> str:
                store.asked.append(self.path)
                bucket, _, key = self.path.partition("?")[0].removeprefix("/").partition("/")
                return key if bucket == BUCKET else ""

            def _answer(self, status: int, body: bytes) -> None:
                status = store.failing.pop(0) if store.failing else status
                if status != 200:
                    code = CODES.get(status, "InternalError")
                    body = f"<Error><Code>{code}</Code><Message>as the test says</Message></Error>".encode()
                self.answer(status, body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
