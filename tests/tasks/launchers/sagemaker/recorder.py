"""A proxy that writes down whom a program wants to reach: it plays AWS at one made-up host, and refuses all others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

# RFC 2606: a name that never resolves, so that only the proxy can answer for it.
ENDPOINT = "http://aws.invalid"
ROLE = (
    '<GetRoleResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><GetRoleResult><Role><Path>/</Path><RoleName>x</RoleName>'
    "<RoleId>AROAXXXXXXXXXXXXXXXXX</RoleId><Arn>arn:aws:iam::123456789012:role/prelaunch-training</Arn>"
    "<CreateDate>2026-01-01T00:00:00Z</CreateDate></Role></GetRoleResult></GetRoleResponse>"
)


@dataclass
class Recorder:
    """Where it listens, the hosts that were asked for, and what AWS was asked, in the order of the calls."""

    url: str
    hosts: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    job: str = ""  # the body of the job that was created

    def answer(self, target: str, body: str) -> tuple[int, str]:
        """The status and the body of AWS's answer."""
        if target.endswith("CreateTrainingJob"):
            self.job = body
            return 200, '{"TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/x"}'
        if target.endswith("DescribeTrainingJob"):
            if not self.job:
                return 400, '{"__type": "ValidationException", "message": "Requested resource not found."}'
            state = {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Starting"}
            return 200, json.dumps({**json.loads(self.job), **state})
        return 200, ROLE if "Action=GetRole" in body else ""

    @property
    def environment(self) -> dict[str, str]:
        """For a program that is to be watched."""
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), self.url)
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
        no = {"NO_PROXY": "", "no_proxy": "", "AWS_EC2_METADATA_DISABLED": "true"}
        return {**proxies, **keys, **no, "AWS_ENDPOINT_URL": ENDPOINT}

    @property
    def strangers(self) -> set[str]:
        """Hosts that are no AWS endpoint as the environment names it."""
        return {host for host in self.hosts if not host.endswith(urlsplit(ENDPOINT).netloc)}


@contextmanager
def recording() -> Iterator[Recorder]:
    """A recorder, listening."""
    recorder = Recorder("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            recorder.hosts.append(urlsplit(self.path).hostname or self.path.partition(":")[0])
            target = self.headers.get("X-Amz-Target", "")
            recorder.calls.append(target.partition(".")[2] or f"{self.command} {urlsplit(self.path).path}")
            status, text = recorder.answer(target, body.decode("utf-8", "replace"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("ETag", '"0"')
            self.end_headers()
            self.wfile.write(text.encode())

        def do_CONNECT(self) -> None:
            recorder.hosts.append(self.path.partition(":")[0])
            self.send_error(403)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        do_GET = do_PUT = do_POST = do_HEAD = _answer

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        recorder.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield recorder
        server.shutdown()
