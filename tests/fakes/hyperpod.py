"""A stand-in of the part of SageMaker's API that reads and repairs HyperPod clusters. It is a simulation, and never AWS.

States, codes and shapes are those of botocore 1.44.5 and of AWS's API reference; the order of the states, times and messages are made
up. What passes here has not passed on AWS. Requests are compared with botocore's own model, and malformed ones are refused.

A repair goes on by one state at each `advance()`, or at each first page of ListClusterNodes if `advances` is set. A replacement has
another instance id under the same host name. This server has no jobs, machines or storage, unlike tests/fakes/sagemaker.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import botocore.session
from botocore.validate import validate_parameters

from tests.fakes.sagemaker.errors import ApiError, invalid

CLUSTER, REGION, CLUSTER_ID = "ml-cluster", "us-west-2", "abcdef123456"
ARN = f"arn:aws:sagemaker:{REGION}:123456789012:cluster/{CLUSTER_ID}"
KIND, GROUP = "ml.p5.48xlarge", "worker"
LAUNCHED = 1_764_000_000.0
REBOOT, REPLACE = "BatchRebootClusterNodes", "BatchReplaceClusterNodes"
CHECK = "StartClusterHealthCheck"
REASONS = {"Action:Reboot": REBOOT, "Action:Replace": REPLACE}
OPERATIONS = ("DescribeCluster", "DescribeClusterNode", "ListClusterNodes", REBOOT, REPLACE, CHECK)
# AWS, "Common Error Types".
WORDS = {
    "ThrottlingException": "Rate exceeded",
    "AccessDeniedException": "User is not authorized to perform: sagemaker:{operation}",
}


class Fate(StrEnum):
    """What becomes of a repair that is accepted. SAME_INSTANCE: the replacement is the instance that was to be replaced. REPLACED: the
    deep health check finds the node broken, and HyperPod replaces it.
    """

    DONE = "done"
    NEVER_DONE = "never done"
    FAILURE = "failure"
    SAME_INSTANCE = "same instance"
    REPLACED = "replaced"


class Answer(StrEnum):
    """What the client gets for a repair that was taken. NAMES_NEITHER is an answer in which the node does not occur."""

    GIVEN = "given"
    NEVER = "never"
    CLOSED = "connection closed"
    ERROR_500 = "error 500"
    CUT = "cut"
    NAMES_NEITHER = "names neither"
    NAMES_TWICE = "names it as taken and as failed"


@dataclass
class Node:
    """One instance. `repair` is the last operation on it, `ahead` are its next states: a status and the instance id from then on."""

    host: str
    id: str
    group: str = GROUP
    status: str = "Running"
    message: str = ""
    launched_at: float = LAUNCHED
    listed_host: bool = True
    repair: str = ""
    ahead: list[tuple[str, str]] = field(default_factory=list)

    def row(self, full: bool) -> dict[str, Any]:
        """As ListClusterNodes has it; `full` as DescribeClusterNode has it."""
        status = {"Status": self.status} | ({"Message": self.message} if self.message else {})
        row = {"InstanceGroupName": self.group, "InstanceId": self.id, "InstanceType": KIND}
        named = {"PrivateDnsHostname": f"{self.host}.{REGION}.compute.internal"}
        given = row | {"LaunchTime": self.launched_at, "InstanceStatus": status}
        return given | (named if full or self.listed_host else {})


class HyperPod(ThreadingHTTPServer):
    """One cluster on a port of its own. `calls` are the operations with their requests, in order.

    `errors` (host -> code) fail single nodes; `refused` (operation -> code) refuses requests. `fates` and `answers` are by host.
    `happened` is called for each repair that is done, with the operation and the host.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, hosts: Sequence[str], recovery: str = "Automatic") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.nodes = [Node(host, instance_id(number)) for number, host in enumerate(hosts)]
        self.recovery, self.status, self.orchestrator = recovery, "InService", "Slurm"
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.errors: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.fates: dict[str, Fate] = {}
        self.answers: dict[str, Answer] = {}
        self.page, self.advances, self.repeats_page = 100, False, False
        self.happened: Callable[[str, str], object] = lambda operation, host: None
        self.lock, self.over = threading.RLock(), threading.Event()
        self._made = len(self.nodes)

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def node(self, host: str) -> Node:
        """The instance under this name."""
        (found,) = (node for node in self.nodes if node.host == host)
        return found

    def repairs(self) -> list[tuple[str, list[str]]]:
        """The repairs that were requested, with their instance ids."""
        acts = (REBOOT, REPLACE, CHECK)
        return [(name, _instances(asked)) for name, asked in self.calls if name in acts]

    def recover(self, host: str, operation: str = REPLACE) -> None:
        """HyperPod found a fault by itself: it repairs the node if NodeRecovery is Automatic, and else does nothing."""
        with self.lock:
            if self.recovery == "Automatic" and not self.node(host).ahead:
                self._begin(operation, self.node(host))

    def read_reason(self, host: str, reason: str) -> None:
        """Slurm shows the node in state fail with this reason, of which HyperPod knows two and ignores all others."""
        if reason in REASONS:
            self.recover(host, REASONS[reason])

    def advance(self, steps: int = 1) -> None:
        """Let each repair go on by this many states."""
        for _ in range(steps):
            with self.lock:
                for node in self.nodes:
                    self._advance(node)

    def _advance(self, node: Node) -> None:
        if not node.ahead:
            return
        node.status, node.id = node.ahead.pop(0)
        if not node.ahead and node.status == "Running":
            self.happened(node.repair, node.host)

    def answer(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        """What AWS would answer. Raises ApiError."""
        with self.lock:
            self.calls.append((operation, asked))
            if operation in self.refused:
                code = self.refused[operation]
                raise ApiError(code, WORDS.get(code, f"made up for {code}").format(operation=operation))
            if asked["ClusterName"] not in (CLUSTER, ARN):
                raise ApiError("ResourceNotFound", f"Cluster {asked['ClusterName']} not found")
            if operation == "DescribeCluster":
                return self._describe()
            if operation == "ListClusterNodes":
                return self._list(asked)
            if operation == "DescribeClusterNode":
                return self._describe_node(asked)
            return self._check(asked) if operation == CHECK else self._repair(operation, asked)

    def _describe(self) -> dict[str, Any]:
        groups = sorted({node.group for node in self.nodes})
        return {
            "ClusterArn": ARN,
            "ClusterName": CLUSTER,
            "ClusterStatus": self.status,
            "NodeRecovery": self.recovery,
            "Orchestrator": {self.orchestrator: {}},
            "InstanceGroups": [
                {
                    "InstanceGroupName": name,
                    "SlurmConfig": {"NodeType": "Controller" if name == "controller" else "Compute"},
                }
                for name in groups
            ],
        }

    def _list(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        begin = int(asked.get("NextToken", 0))
        if self.advances and not begin:
            self.advance()
        end = begin + min(self.page, int(asked.get("MaxResults", 10)))
        said: dict[str, Any] = {"ClusterNodeSummaries": [node.row(False) for node in self.nodes[begin:end]]}
        return said | ({"NextToken": "0" if self.repeats_page else str(end)} if end < len(self.nodes) else {})

    def _describe_node(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        found = [node for node in self.nodes if node.id == asked.get("NodeId")]
        if not found:
            raise invalid(f"Node {asked.get('NodeId')} not found")
        return {"NodeDetails": found[0].row(True)}

    def _repair(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        taken, failed = [], []
        for wanted in asked["NodeIds"]:
            code = self._refusal(wanted)
            if code:
                failed.append({"NodeId": wanted, "ErrorCode": code, "Message": f"made up for {code}"})
            else:
                self._begin(operation, next(node for node in self.nodes if node.id == wanted))
                taken.append(wanted)
        return {"Successful": taken, "Failed": failed}

    def _check(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Begin the tests of these instances, or of a whole group. It answers before they begin, and has errors for none alone."""
        for one in asked["DeepHealthCheckConfigurations"]:
            group = [node for node in self.nodes if node.group == one["InstanceGroupName"]]
            chosen = [node for node in group if node.id in one.get("InstanceIds", [node.id])]
            if not chosen or any(self._refusal(node.id) for node in chosen):
                raise invalid("made up: an instance cannot be tested now")
            for node in chosen:
                self._begin(CHECK, node)
        return {"ClusterArn": ARN}

    def _refusal(self, wanted: str) -> str:
        found = [node for node in self.nodes if node.id == wanted]
        if not found:
            return "InstanceIdNotFound"
        (node,) = found
        busy = "InstanceIdInUse" if node.ahead else ""
        return self.errors.get(
            node.host, busy or ("" if node.status == "Running" else "InvalidInstanceStatus")
        )

    def _begin(self, operation: str, node: Node) -> None:
        fate = self.fates.get(node.host, Fate.DONE)
        node.repair = operation
        if fate is Fate.NEVER_DONE:
            return
        if operation == CHECK and fate is not Fate.REPLACED:
            end = "Failure" if fate is Fate.FAILURE else "Running"
            node.ahead = [("DeepHealthCheckInProgress", node.id), (end, node.id)]
            return
        if operation == REBOOT:
            end = "Failure" if fate is Fate.FAILURE else "Running"
            node.ahead = [("SystemUpdating", node.id), (end, node.id)]
            return
        self._made += 1
        new = node.id if fate is Fate.SAME_INSTANCE else instance_id(self._made)
        end = "Failure" if fate is Fate.FAILURE else "Running"
        node.ahead = [("ShuttingDown", node.id), ("Pending", new), ("SystemUpdating", new), (end, new)]
        if operation == CHECK:
            node.ahead.insert(0, ("DeepHealthCheckInProgress", node.id))


def _instances(asked: Mapping[str, Any]) -> list[str]:
    """The instances that a request is about."""
    lists = [one.get("InstanceIds", ()) for one in asked.get("DeepHealthCheckConfigurations", ())]
    return list(asked.get("NodeIds", ())) + [name for one in lists for name in one]


def instance_id(number: int) -> str:
    """The instance id of that number."""
    return f"i-{number:017x}"


@contextmanager
def hyperpod(hosts: Sequence[str], recovery: str = "Automatic") -> Iterator[HyperPod]:
    """A cluster with these host names that answers until the end of the block."""
    server = HyperPod(hosts, recovery)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: HyperPod
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # one packet an answer
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        try:
            asked = _valid(operation, json.loads(body))
            said = self.server.answer(operation, asked)
        except ApiError as error:
            self._send(error.status, {"__type": error.code, "message": error.message})
            return
        self._answer(self._fault(operation, asked), said)

    def _fault(self, operation: str, asked: Mapping[str, Any]) -> Answer:
        """By the node that was asked for, whose id may have moved on."""
        if operation not in (REBOOT, REPLACE, CHECK):
            return Answer.GIVEN
        hosts = [node.host for node in self.server.nodes if node.id in _instances(asked)]
        return self.server.answers.get(hosts[0], Answer.GIVEN) if hosts else Answer.GIVEN

    def _answer(self, fault: Answer, said: dict[str, Any]) -> None:
        if fault is Answer.NEVER:
            self.server.over.wait(60)
            self.close_connection = True
        elif fault is Answer.CLOSED:
            self.close_connection = True
        elif fault is Answer.ERROR_500:
            self._send(500, {"__type": "InternalFailure", "message": "An internal failure occurred."})
        elif fault is Answer.CUT:
            self._send(200, said, keep=10)
        elif fault is Answer.NAMES_TWICE:
            failed = [
                {"NodeId": one, "ErrorCode": "InstanceIdInUse", "Message": ""} for one in said["Successful"]
            ]
            self._send(200, said | {"Failed": failed})
        elif fault is Answer.NAMES_NEITHER:
            self._send(200, {"Successful": [], "Failed": []})
        else:
            self._send(200, said)

    def _send(self, status: int, said: Mapping[str, Any], keep: int | None = None) -> None:
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:keep])
        if keep is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """stderr is for what goes wrong."""


def _valid(operation: str, asked: Any) -> dict[str, Any]:
    """The request if AWS's model has it. Raises ApiError."""
    if operation not in OPERATIONS:
        raise ApiError("UnknownOperationException", f"the stand-in has no {operation}")
    try:
        validate_parameters(asked, _model().operation_model(operation).input_shape)
    except Exception as error:  # what botocore raises for a malformed request
        raise invalid(str(error)) from error
    return dict(asked)


@lru_cache(maxsize=1)
def _model() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker")
