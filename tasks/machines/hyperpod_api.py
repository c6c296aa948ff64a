"""The calls to SageMaker that read a HyperPod cluster, and the three that change a node of it.

What reads is asked again until a deadline. What changes a node is called once and never again: the operations have no client token
(botocore 1.44.5), so a second call could reboot or replace a node twice. Each failure is one of three: the request was not sent, AWS
refused it, or it may have been taken.

StartClusterHealthCheck answers before the tests begin, and has no result: they show by the status of the node alone, and a node that
fails them is rebooted or replaced by HyperPod.

Sources: botocore 1.44.5, service "sagemaker"; Amazon SageMaker API reference, BatchRebootClusterNodesError,
BatchReplaceClusterNodesError and "Common Error Types".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from tasks.launchers.base import LaunchError
from tasks.launchers.sagemaker.api import Clients, Passing, fault
from tasks.launchers.sagemaker.errors import DENIED, EXPIRED, MISSING, STRANGE, Refused, clean, explained
from tasks.machines.base import ActAmbiguous, ActRefused, EngineSilent, MachineError, Rung

T = TypeVar("T")
# Both kinds of deep health checks of one node; the third of the operation trains on several.
TESTS = ("InstanceStress", "InstanceConnectivity")
PAGE = 100  # the most that ListClusterNodes returns at once
# AWS refuses a throttled request before it does anything ("Common Error Types": the request was denied). Other codes that botocore
# takes for passing faults, such as InternalFailure, leave open what was done.
THROTTLED = {
    "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException", "ThrottledException", "Throttling",
    "ThrottlingException", "TooManyRequestsException",
}  # fmt: skip
_WAIT = "Wait until HyperPod has finished with the node, then look again (prelaunch machines)."
# An error code of one node -> what it means for the act, and what to do.
NODE_ERRORS: Mapping[str, tuple[type[MachineError], str]] = {
    "InstanceIdNotFound": (ActRefused, "The cluster no longer has this instance. Look again (prelaunch machines)."),
    "InvalidInstanceStatus": (ActRefused, _WAIT),
    "InstanceIdInUse": (ActRefused, _WAIT),
    "InternalServerError": (ActAmbiguous, "Whether HyperPod took the request is not known; its node list will show it."),
}  # fmt: skip


class Status(StrEnum):
    """InstanceStatus of a node. UNKNOWN is one that this version does not know."""

    RUNNING = "Running"
    FAILURE = "Failure"
    PENDING = "Pending"
    SHUTTING_DOWN = "ShuttingDown"
    SYSTEM_UPDATING = "SystemUpdating"
    DEEP_HEALTH_CHECK = "DeepHealthCheckInProgress"
    NOT_FOUND = "NotFound"
    UNKNOWN = ""


class Recovery(StrEnum):
    """NodeRecovery of a cluster: whether HyperPod repairs nodes by itself, and obeys Slurm reasons and Kubernetes labels."""

    AUTOMATIC = "Automatic"
    NONE = "None"
    UNKNOWN = ""


@dataclass(frozen=True)
class Instance:
    """One node as ListClusterNodes shows it. `host` is the first label of its private host name, "" if HyperPod names none."""

    id: str
    host: str
    group: str
    kind: str
    status: Status
    words: str


@dataclass(frozen=True)
class Cluster:
    """`id` is the last part of the cluster's ARN. `service_groups` are instance groups of Slurm controllers and login nodes."""

    id: str
    in_service: bool
    status: str
    recovery: Recovery
    on_eks: bool
    service_groups: frozenset[str]


class HyperPodApi:
    """One cluster, by its name or ARN. Safe between threads."""

    def __init__(self, cluster: str, region: str, clients: Clients | None = None) -> None:
        self.cluster, self.region = cluster, region
        self.clients = clients or Clients(region, attempts=1)
        if self.clients.attempts != 1:
            raise ValueError("HyperPod's clients must try each call once: botocore would repeat a reboot.")
        self._hosts: dict[str, str] = {}

    def describe(self) -> Cluster:
        """The cluster now. Raises EngineSilent."""
        said = self._read(
            "sagemaker:DescribeCluster",
            lambda: self.clients.sagemaker.describe_cluster(ClusterName=self.cluster),
        )
        groups = said.get("InstanceGroups") or ()
        types = {str(row.get("InstanceGroupName", "")): row.get("SlurmConfig") or {} for row in groups}
        return Cluster(
            id=str(said.get("ClusterArn", "")).rpartition("/")[2],
            in_service=said.get("ClusterStatus") == "InService",
            status=str(said.get("ClusterStatus", "")),
            recovery=_member(Recovery, said.get("NodeRecovery"), Recovery.UNKNOWN),
            on_eks="Eks" in (said.get("Orchestrator") or {}),
            service_groups=frozenset(
                name for name, slurm in types.items() if slurm.get("NodeType") in ("Controller", "Login")
            ),
        )

    def instances(self) -> tuple[Instance, ...]:
        """Every node that has an instance, from all pages. Raises EngineSilent."""
        return tuple(self._instance(row) for page in self._pages() for row in page)

    def change(self, rung: Rung, instance: str) -> str:
        """Request a reboot or a replacement of one instance, once; returns what AWS answered.

        Raises EngineSilent (no connection was made, so nothing was sent), ActRefused, ActAmbiguous.
        """
        asked: dict[str, Any] = {"ClusterName": self.cluster, "NodeIds": [instance]}
        if rung is Rung.REBOOT:
            action = "sagemaker:BatchRebootClusterNodes"
            said = _once(action, lambda: self.clients.sagemaker.batch_reboot_cluster_nodes(**asked))
        elif rung is Rung.REPLACE:
            action = "sagemaker:BatchReplaceClusterNodes"
            said = _once(action, lambda: self.clients.sagemaker.batch_replace_cluster_nodes(**asked))
        else:
            raise ActRefused(f"HyperPod's API cannot {rung} a node. It reboots and replaces.")
        return _outcome(action, instance, said)

    def test(self, instance: str, group: str) -> str:
        """Request deep health checks of one instance, once; returns what AWS answered. Raises as `change` does."""
        # Without instances AWS would test, and may replace, the whole group.
        if not instance or not group:
            raise ActRefused(
                "A deep health check needs the instance and its group, and one of them is not known."
            )
        one = {"InstanceGroupName": group, "InstanceIds": [instance], "DeepHealthChecks": list(TESTS)}
        asked: dict[str, Any] = {"ClusterName": self.cluster, "DeepHealthCheckConfigurations": [one]}
        action = "sagemaker:StartClusterHealthCheck"
        said = _once(action, lambda: self.clients.sagemaker.start_cluster_health_check(**asked))
        if not said.get("ClusterArn"):
            raise ActAmbiguous(
                f"{action}: AWS's answer does not name the cluster, so it may have taken the request."
            )
        return f"{action} was accepted for {instance}"

    def _pages(self) -> Iterator[list[Mapping[str, Any]]]:
        token, used = "", set[str]()
        while True:
            asked: dict[str, Any] = {"ClusterName": self.cluster, "MaxResults": PAGE}
            if token:
                asked["NextToken"] = token
            said = self._read(
                "sagemaker:ListClusterNodes",
                lambda asked=asked: self.clients.sagemaker.list_cluster_nodes(**asked),  # type: ignore[misc]
            )
            yield list(said.get("ClusterNodeSummaries") or ())
            token = str(said.get("NextToken") or "")
            if not token:
                return
            if token in used:
                raise EngineSilent(
                    "sagemaker:ListClusterNodes returned the same page twice. Try again later."
                )
            used.add(token)

    def _instance(self, row: Mapping[str, Any]) -> Instance:
        status = row.get("InstanceStatus") or {}
        said = (str(status.get("Status", "")), clean(status.get("Message") or ""))
        return Instance(
            id=str(row.get("InstanceId", "")),
            host=self._host(row),
            group=str(row.get("InstanceGroupName", "")),
            kind=str(row.get("InstanceType", "")),
            status=_member(Status, status.get("Status"), Status.UNKNOWN),
            words=" ".join(word for word in said if word),
        )

    def _host(self, row: Mapping[str, Any]) -> str:
        """From the list, else from DescribeClusterNode: PrivateDnsHostname is optional in the list. An instance keeps its name."""
        instance, name = str(row.get("InstanceId", "")), str(row.get("PrivateDnsHostname") or "")
        if not name and instance:
            if instance not in self._hosts:
                self._hosts[instance] = self._asked_host(instance)
            name = self._hosts[instance]
        return name.partition(".")[0]

    def _asked_host(self, instance: str) -> str:
        said = self._read(
            "sagemaker:DescribeClusterNode",
            lambda: self.clients.sagemaker.describe_cluster_node(ClusterName=self.cluster, NodeId=instance),
            absent={},  # the instance ended between the two questions
        )
        return str((said.get("NodeDetails") or {}).get("PrivateDnsHostname") or "")

    def _read(
        self, action: str, call: Callable[[], Mapping[str, Any]], absent: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """The answer, or `absent` where AWS says that there is no such thing. Raises EngineSilent."""
        try:
            return self.clients.tried(action, call)
        except Refused as refusal:
            if refusal.missing and absent is not None:
                return absent
            raise EngineSilent(_advice(refusal)) from None
        except LaunchError as error:
            raise EngineSilent(str(error)) from None


def _once(action: str, call: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - `fault` raises what is not AWS's
        raise _failure(action, error) from None


def _failure(action: str, error: Exception) -> MachineError:
    """What an exception of a call says about the request. Raises `error` if neither boto3 nor the network raised it."""
    from botocore import exceptions as known

    # urllib3 raises the exceptions behind these three before it has a connection, and a request is written to a connection
    # (botocore.httpsession.URLLib3Session.send; urllib3.connectionpool.HTTPConnectionPool.urlopen). All others may come later.
    if isinstance(
        error, (known.EndpointConnectionError, known.ConnectTimeoutError, known.ProxyConnectionError)
    ):
        return EngineSilent(
            f"{action}: no connection to AWS was made ({clean(error)}), so nothing was requested. Check the network, then try again."
        )
    try:
        passing = fault(action, error)
    except Refused as refusal:
        return ActRefused(_advice(refusal))
    except LaunchError as wrong:
        return ActRefused(str(wrong))
    code = error.response.get("Error", {}).get("Code", "") if isinstance(error, known.ClientError) else ""
    return _passing(action, code, passing)


def _passing(action: str, code: str, passing: Passing) -> MachineError:
    if code in THROTTLED and not passing.lost:
        return ActRefused(
            f"{action}: AWS refused the request because there were too many ({passing.why}); nothing was changed. "
            "Try again in a minute."
        )
    return ActAmbiguous(
        f"{action}: AWS did not confirm the request ({passing.why}), so it may have taken it. It is not repeated. "
        "The node list (aws sagemaker list-cluster-nodes) will show what happened."
    )


def _outcome(action: str, instance: str, said: Mapping[str, Any]) -> str:
    """What AWS answered about this instance. Raises ActRefused, ActAmbiguous."""
    taken = instance in (said.get("Successful") or ())
    errors = [row for row in said.get("Failed") or () if row.get("NodeId") == instance]
    if taken and not errors:
        return f"{action} was accepted for {instance}"
    if taken or not errors:
        raise ActAmbiguous(
            f"{action}: AWS's answer does not say whether it took the request for {instance}. It is not repeated. "
            "The node list (aws sagemaker list-cluster-nodes) will show what happened."
        )
    code, message = str(errors[0].get("ErrorCode", "")), clean(errors[0].get("Message", ""))
    kind, remedy = NODE_ERRORS.get(
        code, (ActAmbiguous, "Prelaunch does not know this code. Ask AWS what became of it.")
    )
    raise kind(f"{action}: AWS answered {code} for {instance}: {message}. {remedy}")


def _advice(refusal: Refused) -> str:
    if refusal.missing or refusal.code in MISSING:
        return f"{refusal}. Correct the name and the region of the HyperPod cluster."
    if refusal.code in DENIED | EXPIRED | STRANGE or refusal.status in (401, 403):
        return str(explained(refusal))
    return f"{refusal}. Nothing was changed. Correct what AWS names, or ask AWS."


def _member(kind: type[T], value: object, unknown: T) -> T:
    """The member of an enum that AWS wrote, or `unknown`."""
    try:
        return kind(value)  # type: ignore[call-arg]
    except ValueError:
        return unknown
