"""Calls to the API server that always end: each has a time limit, and every refusal names what to do.

The official client finds the cluster, and signs in (kubeconfig with its plug-ins, or a pod's service account). Objects are plain
tables in the API's own words, so that one code path serves every kind, also those of operators.

ApiRefused                 an answer that trying again does not mend; `status` and `code` (StatusReason) are the API server's
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.launchers.base import EngineUnavailable, LaunchError, LaunchRejected, NoCapacity, QuotaExceeded
from tasks.text.inert import one_line
from tasks.text.redact import redact

Object = Mapping[str, Any]
CONNECT_S, READ_S = 5.0, 20.0
PAGE = 500
# The API's reasons (k8s.io/apimachinery, pkg/apis/meta/v1/types.go, StatusReason).
FORBIDDEN, EXISTS = "Forbidden", "AlreadyExists"
# The admission plug-in ResourceQuota (k8s.io/apiserver, pkg/admission/plugin/resourcequota/controller.go) has no word of its own.
QUOTA_EXCEEDED = re.compile(r"exceeded quota: ")
RBAC = "deployments/kubernetes/gate"


@dataclass(frozen=True)
class ObjectKind:
    """Where the API serves objects of a kind: apiVersion, kind, and the plural in its paths."""

    api_version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group, "" for the core."""
        return self.api_version.rpartition("/")[0]


CONFIG_MAP = ObjectKind("v1", "ConfigMap", "configmaps")
SECRET = ObjectKind("v1", "Secret", "secrets")
SERVICE = ObjectKind("v1", "Service", "services")
POD = ObjectKind("v1", "Pod", "pods")
SERVICE_ACCOUNT = ObjectKind("v1", "ServiceAccount", "serviceaccounts")
NODE = ObjectKind("v1", "Node", "nodes", namespaced=False)
JOB = ObjectKind("batch/v1", "Job", "jobs")
PYTORCH_JOB = ObjectKind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs")
HYPERPOD_JOB = ObjectKind("sagemaker.amazonaws.com/v1", "HyperPodPyTorchJob", "hyperpodpytorchjobs")
ACCESS_REVIEW = ObjectKind(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False
)
LOCAL_QUEUE = ObjectKind("kueue.x-k8s.io/v1beta1", "LocalQueue", "localqueues")
KINDS: Mapping[str, ObjectKind] = {
    resource.name: resource
    for resource in (
        CONFIG_MAP,
        SECRET,
        SERVICE,
        POD,
        SERVICE_ACCOUNT,
        NODE,
        JOB,
        PYTORCH_JOB,
        HYPERPOD_JOB,
        ACCESS_REVIEW,
        LOCAL_QUEUE,
    )
}


class ApiRefused(LaunchError):
    """The API server refused to `verb` objects, by the `plural` of their kind."""

    def __init__(self, verb: str, plural: str, status: int, code: str, message: str) -> None:
        super().__init__(f"the API server refused to {verb} {plural}: {message or code or status}")
        self.verb, self.plural, self.status, self.code, self.message = verb, plural, status, code, message


class Api:
    """One namespace of one cluster. The client is made at the first call. Safe between threads."""

    def __init__(self, namespace: str, kubeconfig: str = "", context: str = "") -> None:
        self.namespace = namespace
        self._kubeconfig, self._context = kubeconfig, context
        self._made: Any = None
        self._lock = threading.Lock()

    def create(self, body: Object, dry_run: bool = False) -> Object:
        """Create an object; returns it as the server has it. Raises ApiRefused, EngineUnavailable."""
        resource = KINDS[body["kind"]]
        query = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        return self._table("POST", resource, "create", body=body, query=query)

    def get(self, resource: ObjectKind, name: str) -> Object | None:
        """The object, None if there is none. Raises ApiRefused, EngineUnavailable."""
        return self._or_none("GET", resource, "get", name)

    def items(self, resource: ObjectKind, selector: str = "") -> Iterator[Object]:
        """All objects with these labels, page by page. Raises ApiRefused, EngineUnavailable."""
        query = {"limit": str(PAGE), **({"labelSelector": selector} if selector else {})}
        while True:
            page = self._table("GET", resource, "list", query=query)
            yield from page.get("items") or ()
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return
            query["continue"] = following

    def patch(self, resource: ObjectKind, name: str, body: Object) -> Object | None:
        """Merge into the object (RFC 7386); None if there is none. Raises ApiRefused, EngineUnavailable."""
        return self._or_none("PATCH", resource, "patch", name, body)

    def delete(self, resource: ObjectKind, name: str) -> bool:
        """Delete the object after all that it owns; whether there was one. Raises ApiRefused, EngineUnavailable."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
        return self._or_none("DELETE", resource, "delete", name, body) is not None

    def log(self, pod: str, query: Mapping[str, str]) -> str:
        """What a pod printed, "" if it has not started or is gone. Raises ApiRefused, EngineUnavailable."""
        path = f"{self._path(POD)}/{pod}/log"
        try:
            return self._call("GET", path, "get", "pods/log", query).decode("utf-8", "replace")
        except ApiRefused as refusal:
            # BadRequest: its container is waiting to start.
            if refusal.status in (400, 404):
                return ""
            raise

    def version(self) -> str:
        """The server's version, such as v1.31.2. Raises ApiRefused, EngineUnavailable."""
        return str(json.loads(self._call("GET", "/version", "get", "version", {})).get("gitVersion", ""))

    def _path(self, resource: ObjectKind) -> str:
        top = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.api_version}"
        scope = f"/namespaces/{self.namespace}" if resource.namespaced else ""
        return f"{top}{scope}/{resource.plural}"

    def _table(
        self, method: str, resource: ObjectKind, verb: str, name: str = "", body: Object | None = None,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        path = f"{self._path(resource)}/{name}" if name else self._path(resource)
        data = self._call(method, path, verb, resource.plural, query or {}, body)
        answer = f"the answer to {verb} {resource.plural}"
        try:
            table = json.loads(data)
        except ValueError as error:
            raise EngineUnavailable(f"{answer} cannot be read: {error}") from error
        if not isinstance(table, dict):
            raise EngineUnavailable(f"{answer} is no object")
        return table

    def _or_none(
        self, method: str, resource: ObjectKind, verb: str, name: str, body: Object | None = None
    ) -> Object | None:
        try:
            return self._table(method, resource, verb, name, body=body)
        except ApiRefused as refusal:
            if refusal.status == 404:
                return None
            raise

    def _call(
        self,
        method: str,
        path: str,
        verb: str,
        plural: str,
        query: Mapping[str, str],
        body: Object | None = None,
    ) -> bytes:
        client = self._client()  # says which package is missing, where one is
        from kubernetes.client.rest import ApiException
        from urllib3.exceptions import HTTPError

        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            answer = client.call_api(
                path, method, query_params=list(query.items()), body=body, auth_settings=["BearerToken"],
                header_params={"Accept": "application/json, */*", "Content-Type": content},
                _preload_content=False, _return_http_data_only=True, _request_timeout=(CONNECT_S, READ_S),
            )  # fmt: skip
            return bytes(answer.data)
        except ApiException as error:
            raise _refusal(error, verb, plural) from None
        except (HTTPError, OSError) as error:
            raise EngineUnavailable(f"the API server does not answer: {clean(error)}") from None

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = self._new()
            return self._made

    def _new(self) -> Any:
        try:
            from kubernetes import client, config
            from kubernetes.config.config_exception import ConfigException
        except ImportError as error:
            raise LaunchRejected(
                "the launcher kubernetes needs the package of that name: pip install 'prelaunch[kubernetes]'."
            ) from error
        settings = client.Configuration()
        in_a_pod = "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ
        try:
            if self._kubeconfig or self._context or not in_a_pod:
                path = str(Path(self._kubeconfig).expanduser()) if self._kubeconfig else None
                config.load_kube_config(path, self._context or None, settings, persist_config=False)
            else:
                config.load_incluster_config(settings)
        except (ConfigException, OSError, ValueError) as error:
            raise LaunchRejected(
                f"no cluster of Kubernetes can be reached from here: {clean(error)}. Correct context and kubeconfig_file in "
                "[cluster.options], or KUBECONFIG; `kubectl auth can-i create jobs` must answer."
            ) from error
        settings.retries = False
        return client.ApiClient(settings)


def _refusal(error: Any, verb: str, plural: str) -> LaunchError:
    """What the server answered, as ApiRefused; EngineUnavailable where trying again may help."""
    try:
        document = json.loads(error.body or b"{}")
    except ValueError:
        document = {}
    table = document if isinstance(document, dict) else {}
    reason, message = str(table.get("reason") or ""), clean(table.get("message") or error.reason or "")
    status = int(error.status or 0)
    if status == 429 or status >= 500 or status == 0:
        return EngineUnavailable(f"the API server answered {status} to {verb} {plural}: {message}")
    return ApiRefused(verb, plural, status, reason, message)


def explained(refusal: ApiRefused, name: str, rules: Mapping[str, str] | None = None) -> LaunchError:
    """The error to raise to the caller of a launcher, about the job of that name."""
    text = f"{name}: {refusal}"
    if refusal.status == 401:
        return LaunchRejected(f"{text}. Renew the credentials; `kubectl auth can-i create jobs` must answer.")
    if refusal.code == FORBIDDEN and QUOTA_EXCEEDED.search(refusal.message):
        return QuotaExceeded(f"{text}. Ask for a larger ResourceQuota, or end what uses it up.")
    if refusal.status == 403:
        return LaunchRejected(f"{text}. {grant(refusal.verb, refusal.plural, refusal_group(refusal.plural))}")
    if refusal.code == EXISTS:
        return LaunchRejected(f"{text}. It is not of Prelaunch; choose another name for the gate.")
    if refusal.status == 410:
        return NoCapacity(f"{text}. Try again.")
    return LaunchRejected(f"{text}. Correct [cluster.options] or the pod template.")


@contextmanager
def explaining(name: str) -> Iterator[None]:
    """What is refused within is raised as the launcher's error, about the job of that name."""
    try:
        yield
    except ApiRefused as refusal:
        raise explained(refusal, name) from refusal


def grant(verb: str, plural: str, group: str) -> str:
    """The RBAC rule that allows it, and where it is shipped."""
    rule = {"apiGroups": [group], "resources": [plural], "verbs": [verb]}
    return f"Grant it in the namespace: {json.dumps(rule)}; {RBAC} has all rules of a gate."


def refusal_group(plural: str) -> str:
    """The API group of that plural."""
    return next((resource.group for resource in KINDS.values() if resource.plural == plural), "")


def clean(text: object) -> str:
    """One line without secrets."""
    return one_line(redact(str(text), os.environ), 600).rstrip(".")
