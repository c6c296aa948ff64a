"""A site's own template of a pod, and what a gate's pod adds to it. What both would set is refused, never overwritten.

The file is YAML (or JSON) with the `metadata` and `spec` of a pod, and at most one container, which is the gate's.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from checks.documents.decode import nearest
from tasks.launchers.base import LaunchRejected

FILE_BYTES = 1 << 20
# Keys of PodSpec and Container, Kubernetes 1.37 API reference, without those that the launcher sets.
TOP = ("metadata", "spec")
METADATA = ("labels", "annotations")
SPEC = (
    "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases",
    "hostIPC", "hostNetwork", "hostPID", "hostUsers", "imagePullSecrets", "initContainers", "nodeSelector", "os", "overhead",
    "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources", "runtimeClassName",
    "schedulerName", "schedulingGates", "securityContext", "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace",
    "tolerations", "topologySpreadConstraints", "volumes",
)  # fmt: skip
CONTAINER = (
    "env", "envFrom", "imagePullPolicy", "lifecycle", "name", "ports", "resources", "securityContext", "volumeDevices",
    "volumeMounts",
)  # fmt: skip
# What the launcher sets itself, for a better message.
OURS = {
    "restartPolicy": "a pod is not started again on its own",
    "hostname": "the pods' names belong to the gate",
    "subdomain": "the pods' names belong to the gate",
    "activeDeadlineSeconds": "it follows from max_runtime_minutes of the gate file",
    "terminationGracePeriodSeconds": "it is grace_s of [cluster.options]",
    "nodeName": "the scheduler, and the nodes that passed, decide it",
    "image": "it is image of [cluster.options], or of [training]",
    "command": "it is [training] command",
    "args": "it is [training] command",
    "workingDir": "it belongs to the image",
    "terminationMessagePath": "the gate's verdict is left there",
    "terminationMessagePolicy": "the gate's verdict is left there",
}
LABEL_DOMAIN = "prelaunch.dev/"
Table = dict[str, Any]


def read_template(path: str) -> Mapping[str, Any]:
    """The template in that file, {} for no path. Raises LaunchRejected."""
    if not path:
        return {}
    import yaml

    try:
        with open(Path(path).expanduser(), encoding="utf-8") as file:
            text = file.read(FILE_BYTES + 1)
        found = yaml.safe_load(text) if len(text) <= FILE_BYTES else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LaunchRejected(
            f"pod_template_file {path} cannot be read: {' '.join(str(error).split())}. Correct it."
        ) from error
    if not isinstance(found, dict):
        raise LaunchRejected(f"pod_template_file {path} is no table with metadata and spec. Correct it.")
    return checked(found, path)


def checked(template: Table, where: str) -> Mapping[str, Any]:
    """The template itself, if it has no key that a gate's pod cannot have. Raises LaunchRejected."""
    _known(template, TOP, where, "")
    _known(template.get("metadata"), METADATA, where, "metadata.")
    spec = template.get("spec")
    _known(spec, SPEC, where, "spec.")
    containers = (spec or {}).get("containers") or []
    if not isinstance(containers, list) or len(containers) > 1:
        raise LaunchRejected(f"{where}: spec.containers may hold one container, which is the gate's.")
    for container in containers:
        _known(container, CONTAINER, where, "spec.containers[0].")
    for kind in METADATA:
        for key in (template.get("metadata") or {}).get(kind) or {}:
            if str(key).startswith(LABEL_DOMAIN):
                raise LaunchRejected(
                    f"{where}: metadata.{kind} {key}: {LABEL_DOMAIN}* belongs to Prelaunch. Remove it."
                )
    return template


def merged(template: Mapping[str, Any], metadata: Table, spec: Table, container: Table) -> Table:
    """The pod's metadata and spec: the template's with those of the gate. Raises LaunchRejected where both set the same.

    Lists (env, volumes, mounts) are joined, tables (labels, limits) are united.
    """
    given = deepcopy(dict(template))
    own = given.get("spec") or {}
    base = (own.pop("containers", None) or [{}])[0]
    base.pop("name", None)
    return {
        "metadata": united(given.get("metadata") or {}, metadata, "metadata"),
        "spec": {
            **united(own, spec, "spec"),
            "containers": [{"name": container["name"], **united(base, container, "spec.containers[0]")}],
        },
    }


def united(given: Mapping[str, Any], ours: Mapping[str, Any], where: str) -> Table:
    """Both tables as one. Raises LaunchRejected if they say different things of the same."""
    made: Table = dict(given)
    for key, value in ours.items():
        there = made.get(key)
        if there is None or there == value:
            made[key] = value
        elif isinstance(there, Mapping) and isinstance(value, Mapping):
            made[key] = united(there, value, f"{where}.{key}")
        elif isinstance(there, list) and isinstance(value, list):
            made[key] = _joined(there, value, f"{where}.{key}")
        else:
            raise LaunchRejected(
                f"the pod template sets {where}.{key} to {str(there)[:80]!r}, and the gate to {str(value)[:80]!r}. "
                "Take it out of the template."
            )
    return made


def _joined(there: list[Any], ours: list[Any], where: str) -> list[Any]:
    taken = {name for name in map(_name, there) if name}
    for value in ours:
        if _name(value) in taken:
            raise LaunchRejected(
                f"the pod template has {where} {_name(value)!r}, which is the gate's. Rename it."
            )
    return [*there, *ours]


def _name(value: object) -> str:
    return str(value.get("name") or "") if isinstance(value, Mapping) and "mountPath" not in value else ""


def _known(table: object, keys: tuple[str, ...], where: str, prefix: str) -> None:
    if table is None:
        return
    if not isinstance(table, dict):
        raise LaunchRejected(f"{where}: {prefix.rstrip('.') or 'the file'} is no table. Correct it.")
    for key in table:
        if key in OURS and key not in keys:
            raise LaunchRejected(f"{where}: {prefix}{key} cannot be set: {OURS[key]}.")
        if key not in keys:
            near = nearest(str(key), keys)
            hint = f" Did you mean {near!r}?" if near else ""
            raise LaunchRejected(f"{where}: {prefix}{key!s:.80}: unknown key.{hint}")
