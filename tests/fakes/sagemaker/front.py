"""The HTTP server that AWS_ENDPOINT_URL names: SageMaker's training operations are answered here, the rest goes to moto.

Two answers that moto has not are here as well. Service Quotas API reference, ListServiceQuotas: enough of each type that the account
has. IAM API reference, SimulatePrincipalPolicy (its protocol is a form): everything is allowed.
"""

from __future__ import annotations

import datetime
import json
import re
import zlib
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.fakes.sagemaker import control, faults
from tests.fakes.sagemaker.errors import ApiError
from tests.fakes.sagemaker.faults import Broken, Faults
from tests.fakes.sagemaker.plane import OPERATIONS, Plane
from tests.fakes.serving import QuietHandler

HOPS = ("content-length", "transfer-encoding", "connection", "expect", "keep-alive")
JSON = {
    "Content-Type": "application/x-amz-json-1.1",
    "x-amzn-RequestId": "00000000-0000-4000-8000-000000000000",
}
QUOTAS = [("ServiceQuotasV20190624", name) for name in ("ListServiceQuotas", "ListAWSDefaultServiceQuotas")]
# "Amazon SageMaker AI endpoints and quotas", AWS General Reference: the defaults of one job.
# AWS gives a new account 20 instances per job; this one has asked for more.
ONE_JOB = {"Maximum number of instances per training job": 64, "Longest run time for a training job": 432_000}


class Front(ThreadingHTTPServer):
    """The account's listener."""

    request_queue_size = 256

    def __init__(self, plane: Plane, behind: str, port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), Handler)
        self.plane, self.behind = plane, behind.removeprefix("http://")
        self.faults = Faults(plane.dials)


class Handler(QuietHandler):
    """One connection."""

    server: Front
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # one packet an answer
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self._body()
        path = unquote(urlsplit(self.path).path)
        service, _, operation = self.headers.get("X-Amz-Target", "").rpartition(".")
        if path.startswith("/_stand_in/"):
            status, answer = control.answer(self.server, self.command, path, body)
            self._answer(status, json.dumps(answer).encode(), {"Content-Type": "application/json"})
            return
        if service == "SageMaker" and operation in OPERATIONS:
            self._operate(operation, body)
        elif (service, operation) in QUOTAS and json.loads(body or b"{}").get("ServiceCode") == "sagemaker":
            kinds = {machine.type for machine in self.server.plane.fleet.machines}
            names = {f"{kind} for training warm pool usage": 100 for kind in kinds} | ONE_JOB
            rows = [_quota(name, limit) for name, limit in sorted(names.items())]
            self._answer(200, json.dumps({"Quotas": rows}).encode(), JSON)
        elif b"Action=SimulatePrincipalPolicy" in body.split(b"&"):
            self._answer(200, _allowed(body), {"Content-Type": "text/xml"})
        else:
            self._pass(path, body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = do_PATCH = _serve

    def _operate(self, operation: str, body: bytes) -> None:
        try:
            if self.server.faults.throttles():
                raise ApiError("ThrottlingException", "Rate exceeded")
            answer = self.server.plane.call(operation, json.loads(body or b"{}"))
        except ApiError as error:
            said = {"__type": error.code, "message": error.message}
            self._answer(error.status, json.dumps(said).encode(), JSON)
            return
        self._answer(200, json.dumps(answer).encode(), JSON)

    def _pass(self, path: str, body: bytes) -> None:
        broken = self._broken(path)
        if broken is not None:
            status, said = faults.error(broken.code)
            self._answer(status, said, {"Content-Type": "application/xml"})
            return
        kept = {k: v for k, v in self.headers.items() if k.lower() not in HOPS}
        kept |= {"Content-Length": str(len(body))}
        status, headers, data = self.passed_on(self.server.behind, body, kept)
        self._answer(status, data, dict(headers))

    def _broken(self, path: str) -> Broken | None:
        """Only objects suffer: requests that are signed for S3 and name a key."""
        key = path.partition("/")[2].partition("/")[2]
        signed = re.search(r"/s3/aws4_request", self.headers.get("Authorization", ""))
        return self.server.faults.of_object(self.command, key) if signed and key else None

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            if key.lower() not in (*HOPS, "date", "server"):
                self.send_header(key, value)
        empty = self.command == "HEAD" or status in (204, 304)
        length = {k.lower(): v for k, v in headers.items()}.get("content-length") if empty else None
        if status != 204:
            self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        if not empty:
            self.wfile.write(data)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def date_time_string(self, timestamp: float | None = None) -> str:
        """AWS's clock, which the dial may set wrong."""
        skew = self.server.plane.dials.clock_skew_s
        now = datetime.datetime.now(datetime.UTC).timestamp() if timestamp is None else timestamp
        return super().date_time_string(now + skew)  # type: ignore[arg-type, unused-ignore]

    def handle(self) -> None:
        """A client that was killed is no error of ours."""
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True


def _quota(name: str, limit: int) -> dict[str, Any]:
    """AWS gives each name a code, without a rule: this one is made up."""
    code = f"L-{zlib.crc32(name.encode()):08X}"
    return {"ServiceCode": "sagemaker", "QuotaName": name, "QuotaCode": code, "Value": float(limit)}


def _allowed(body: bytes) -> bytes:
    """One decision for every action."""
    given = parse_qs(body.decode())
    actions = [values[0] for key, values in given.items() if key.startswith("ActionNames.member.")]
    entry = "<member><EvalActionName>{}</EvalActionName><EvalDecision>allowed</EvalDecision></member>"
    results = "".join(entry.format(escape(action)) for action in actions)
    return (
        '<SimulatePrincipalPolicyResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><SimulatePrincipalPolicyResult>'
        f"<IsTruncated>false</IsTruncated><EvaluationResults>{results}</EvaluationResults></SimulatePrincipalPolicyResult>"
        "<ResponseMetadata><RequestId>0</RequestId></ResponseMetadata></SimulatePrincipalPolicyResponse>"
    ).encode()
