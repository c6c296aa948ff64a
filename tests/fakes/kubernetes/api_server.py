"""A stand-in of the API server of Kubernetes; controllers and kubelets are beside it. It is a simulation, and never Kubernetes.

It speaks HTTP on a loopback socket: objects, labels, merge patches, dry runs, conflicts, access reviews and logs, as far as the
launcher uses them. New objects are compared with the API's own schemas (kubernetes-validate), strictly, and unknown keys are refused.
Reasons and conditions are the API's own words; times and messages are made up. What passes here has not passed on Kubernetes.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import kubernetes_validate

from tests.fakes.kubernetes.operator_schemas import SCHEMAS, problem_of
from tests.fakes.serving import QuietHandler

Object = dict[str, Any]
KINDS = {
    "ConfigMap": "configmaps", "Secret": "secrets", "Service": "services", "Pod": "pods", "Node": "nodes",
    "Job": "jobs", "SelfSubjectAccessReview": "selfsubjectaccessreviews",
    "LocalQueue": "localqueues", "ServiceAccount": "serviceaccounts",
    "PyTorchJob": "pytorchjobs",
}  # fmt: skip
MODIFIED = "the object has been modified; please apply your changes to the latest version"
VERBS = {"POST": "create", "GET": "get", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Problem(Exception):
    """An answer of the API that is no object."""

    status: int
    reason: str
    message: str


class ApiServer(ThreadingHTTPServer):
    """One cluster with one namespace. `objects` are by plural and name.

    `denied` are verbs with their plurals that RBAC does not grant. `fails` (method, plural) -> status answers so, `lost` takes effect
    and closes the connection. While `silent` is set nobody is answered. `takes` may refuse an object that is created: a message.
    """

    block_on_close = False

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.lock = threading.RLock()
        self.objects: dict[str, dict[str, Object]] = {plural: {} for plural in KINDS.values()}
        self.logs: dict[str, list[tuple[str, str]]] = {}
        self.denied: set[tuple[str, str]] = set()
        self.fails: dict[tuple[str, str], int] = {}
        self.lost: set[tuple[str, str]] = set()
        self.silent = threading.Event()
        self.takes: Callable[[Object], str] = lambda made: ""
        self.calls: list[tuple[str, str, str]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"

    def kubeconfig(self) -> Path:
        """A file with which the client finds it."""
        path = self.folder / "kubeconfig"
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "stand-in",
            "clusters": [{"name": "stand-in", "cluster": {"server": self.url}}],
            "users": [{"name": "gate", "user": {"token": "stand-in"}}],
            "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": "gate"}}],
        }  # fmt: skip
        path.write_text(json.dumps(config))
        return path

    def names(self, plural: str) -> list[str]:
        """The names of all objects of that kind."""
        with self.lock:
            return sorted(self.objects[plural])

    def selected(self, plural: str, selector: Mapping[str, str]) -> list[Object]:
        """The objects themselves with these labels, for controllers. The caller has the lock."""
        return [
            made for made in self.objects[plural].values()
            if all((made["metadata"].get("labels") or {}).get(key) == value for key, value in selector.items())
        ]  # fmt: skip

    def create(self, plural: str, made: Object, dry_run: bool = False) -> Object:
        """Keep the object, and return it. Raises Problem."""
        if KINDS.get(made.get("kind", "")) != plural:
            raise Problem(400, "BadRequest", f"the object of kind {made.get('kind')!r} is none of {plural}")
        if plural == "selfsubjectaccessreviews":
            return self._review(made)
        _validate(made)
        name = made["metadata"]["name"]
        with self.lock:
            if name in self.objects[plural]:
                raise Problem(409, "AlreadyExists", f'{plural} "{name}" already exists')
            if refused := self.takes(made):
                raise Problem(403, "Forbidden", refused)
            kept, uid = deepcopy(made), str(uuid.uuid4())
            kept["metadata"] |= {"uid": uid, "creationTimestamp": stamp(), "namespace": "default"}
            if not dry_run:
                self.objects[plural][name] = kept
            return kept

    def found(self, plural: str, name: str) -> Object:
        """The object itself. Raises Problem."""
        with self.lock:
            if name not in self.objects[plural]:
                raise Problem(404, "NotFound", f'{plural} "{name}" not found')
            return self.objects[plural][name]

    def delete(self, plural: str, name: str) -> Object:
        """Jobs and pods are marked, and go once their controller or kubelet has ended them. Raises Problem."""
        with self.lock:
            gone = self.found(plural, name)
            if plural in ("jobs", "pytorchjobs", "pods"):
                gone["metadata"].setdefault("deletionTimestamp", stamp())
            else:
                del self.objects[plural][name]
            return gone

    def _review(self, made: Object) -> Object:
        asked = made["spec"]["resourceAttributes"]
        part = f"/{asked['subresource']}" if asked.get("subresource") else ""
        denied = (asked["verb"], asked["resource"] + part) in self.denied
        return {**made, "metadata": {}, "status": {"allowed": not denied}}


def _validate(made: Object) -> None:
    if made["kind"] == "LocalQueue":
        return
    if made["kind"] in SCHEMAS:
        if problem := problem_of(made):
            raise Problem(422, "Invalid", f"{made['kind']} is invalid: {problem}")
        return
    try:
        kubernetes_validate.validate(made, "1.31", strict=True)
    except kubernetes_validate.ValidationError as error:
        raise Problem(422, "Invalid", f"{made['kind']} is invalid: {error.message[:300]}") from error


def stamp(at: float | None = None) -> str:
    """A time as the API writes it, with fractions of a second."""
    return datetime.fromtimestamp(time.time() if at is None else at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def version_of(made: Object) -> str:
    """Its resourceVersion."""
    return str(made["metadata"].get("resourceVersion") or "1")


def merged(target: Object, change: Object) -> None:
    """RFC 7386."""
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(target.get(key), dict):
                target[key] = {}
            merged(target[key], value)
        else:
            target[key] = value


class _Handler(QuietHandler):
    server: ApiServer
    protocol_version = "HTTP/1.1"
    # Headers and body are two packets; Nagle's algorithm would hold the second one back for 40 ms.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PATCH = do_DELETE = do_GET

    def _handle(self) -> None:
        server, parts = self.server, urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        while server.silent.is_set() and not server.over.wait(0.05):
            pass
        words = [word for word in parts.path.split("/") if word]
        query = dict(parse_qsl(parts.query))
        try:
            if words == ["version"]:
                self._answer(200, {"gitVersion": "v1.31.0-stand-in", "major": "1", "minor": "31"})
                return
            body = json.loads(data) if data else {}
            plural, rest = _place(words)
            method = self.command
            server.calls.append((method, plural, "/".join(rest)))
            if status := server.fails.get((method, plural)):
                raise Problem(status, "InternalError", "the stand-in was told to fail")
            verb = "list" if method == "GET" and not rest else VERBS[method]
            part = f"/{rest[1]}" if len(rest) > 1 else ""
            if (verb, plural + part) in server.denied:
                said = f'{plural} is forbidden: User "gate" cannot {verb} resource "{plural}{part}" in the namespace "default"'
                raise Problem(403, "Forbidden", said)
            found = self._done(method, plural, rest, query, body)
            if (method, plural) in server.lost:
                server.lost.discard((method, plural))
                self.close_connection = True
                self.connection.close()
                return
        except Problem as problem:
            status_object = {
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": problem.message,
                "reason": problem.reason, "code": problem.status,
            }  # fmt: skip
            self._answer(problem.status, status_object)
            return
        self._answer(201 if self.command == "POST" else 200, found)

    def _done(
        self, method: str, plural: str, rest: list[str], query: Mapping[str, str], body: Object
    ) -> object:
        server = self.server
        with server.lock:
            if method == "POST":
                assert query["fieldValidation"] == "Strict"  # else servers drop what they do not know
                return deepcopy(server.create(plural, body, query.get("dryRun") == "All"))
            if method == "GET" and not rest:
                pairs = (pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair)
                found = server.selected(plural, dict(pairs))
                return self._page(found, query)
            if method == "GET" and len(rest) > 1:
                return _log(server, rest[0], query)
            if method == "GET":
                return deepcopy(server.found(plural, rest[0]))
            if method == "PATCH":
                target = server.found(plural, rest[0])
                given = (body.get("metadata") or {}).get("resourceVersion")
                if given not in (None, version_of(target)):
                    raise Problem(409, "Conflict", MODIFIED)
                merged(target, body)
                target["metadata"]["resourceVersion"] = str(int(version_of(target)) + 1)
                return deepcopy(target)
            return deepcopy(server.delete(plural, rest[0]))

    def _page(self, found: list[Object], query: Mapping[str, str]) -> Object:
        """Two objects a page, however many are asked for, as a server may do it."""
        begin = int(query.get("continue") or 0)
        more = {"continue": str(begin + 2)} if begin + 2 < len(found) and "limit" in query else {}
        page = found[begin : begin + 2] if "limit" in query else found
        return {"kind": "List", "apiVersion": "v1", "metadata": more, "items": deepcopy(page)}

    def _answer(self, status: int, found: object) -> None:
        data = found.encode() if isinstance(found, str) else json.dumps(found).encode()
        kind = "text/plain" if isinstance(found, str) else "application/json"
        with contextlib.suppress(OSError):
            self.answer(status, data, Content_Type=kind)


def _place(words: list[str]) -> tuple[str, list[str]]:
    """The plural and what follows it: /api/v1/namespaces/NS/pods/NAME/log, /apis/batch/v1/namespaces/NS/jobs."""
    rest = words[2:] if words[0] == "api" else words[3:]
    if rest[0] == "namespaces":
        rest = rest[2:]
    if rest[0] not in KINDS.values():
        raise Problem(404, "NotFound", "the server could not find the requested resource")
    return rest[0], rest[1:]


def _log(server: ApiServer, pod: str, query: Mapping[str, str]) -> str:
    server.found("pods", pod)
    if pod not in server.logs:
        said = f'container "prelaunch" in pod "{pod}" is waiting to start: ContainerCreating'
        raise Problem(400, "BadRequest", said)
    return log_text(server.logs[pod], query)


def log_text(rows: Iterable[tuple[str, str]], query: Mapping[str, str]) -> str:
    """What a kubelet answers: the lines with the time that the node's container runtime wrote, in the zone of that node."""
    rows = list(rows)
    if "sinceTime" in query:
        since = datetime.fromisoformat(query["sinceTime"])
        assert since.tzinfo is not None  # RFC 3339
        rows = [row for row in rows if datetime.fromisoformat(row[0]) >= since]
    if "tailLines" in query:
        rows = rows[-int(query["tailLines"]) :]
    stamps = query.get("timestamps") == "true"
    text = "".join(f"{at} {line}\n" if stamps else f"{line}\n" for at, line in rows)
    return text[: int(query.get("limitBytes") or len(text))]
