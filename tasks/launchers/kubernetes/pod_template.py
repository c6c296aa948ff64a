"""A site's own template of a pod, and what a gate's pod adds to it. What both would set is refused, never overwritten.

The file is YAML (or JSON) with the `metadata` and `spec` of a pod, and at most one container, which is the gate's.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from tasks.launchers.base import LaunchRejected

FILE_BYTES = 1 << 20
# What the launcher sets or decides without a pod's saying so. Every other key is the API server's to refuse (fieldValidation=Strict).
METADATA = ("labels", "annotations")
SPEC_OURS = ("ephemeralContainers", "hostname", "nodeName", "restartPolicy", "subdomain")
CONTAINER_OURS = ("args", "command", "image", "livenessProbe", "readinessProbe", "startupProbe", "workingDir")
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
        template = yaml.safe_load(text) if len(text) <= FILE_BYTES else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        message = f"pod_template_file {path} cannot be read: {' '.join(str(error).split())}. Correct it."
        raise LaunchRejected(message) from error
    return checked(template if isinstance(template, dict) else {"": template}, path)


def checked(template: Table, where: str) -> Mapping[str, Any]:
    """The template itself, if it has nothing that a gate's pod cannot have. Raises LaunchRejected."""
    spec, metadata = template.get("spec") or {}, template.get("metadata") or {}
    containers = (spec.get("containers") if isinstance(spec, dict) else None) or [{}]
    tables = isinstance(spec, dict) and isinstance(metadata, dict) and isinstance(containers, list)
    if (
        not tables
        or {*template} - {"metadata", "spec"}
        or len(containers) != 1
        or not isinstance(containers[0], dict)
    ):
        form = "a table with metadata and spec, and at most one container, which is the gate's"
        raise LaunchRejected(f"pod_template_file {where}: it is not {form}. Correct it.")
    labels = [f"metadata.{table}.{key}" for table in METADATA for key in metadata.get(table) or {}]
    ours = [
        *(f"metadata.{key}" for key in metadata if key not in METADATA),
        *(f"spec.{key}" for key in SPEC_OURS if key in spec),
        *(f"spec.containers[0].{key}" for key in CONTAINER_OURS if key in containers[0]),
        *(label for label in labels if label.split(".", 2)[2].startswith(LABEL_DOMAIN)),
    ]
    if ours:
        raise LaunchRejected(f"pod_template_file {where}: the gate decides {', '.join(ours)}. Remove it.")
    return template


def merged(template: Mapping[str, Any], metadata: Table, spec: Table, container: Table) -> Table:
    """The pod's metadata and spec: the template's with those of the gate. Raises LaunchRejected where both set the same.

    Lists (env, volumes, mounts) are joined, tables (labels, limits) are united.
    """
    pod = deepcopy(dict(template))
    own = pod.get("spec") or {}
    base = (own.pop("containers", None) or [{}])[0]
    base.pop("name", None)
    return {
        "metadata": united(pod.get("metadata") or {}, metadata, "metadata"),
        "spec": {
            **united(own, spec, "spec"),
            "containers": [{"name": container["name"], **united(base, container, "spec.containers[0]")}],
        },
    }


def united(theirs: Mapping[str, Any], ours: Mapping[str, Any], where: str) -> Table:
    """Both tables as one. Raises LaunchRejected if they say different things of the same."""
    union: Table = dict(theirs)
    for key, value in ours.items():
        current = union.get(key)
        if current is None or current == value:
            union[key] = value
        elif isinstance(current, Mapping) and isinstance(value, Mapping):
            union[key] = united(current, value, f"{where}.{key}")
        elif isinstance(current, list) and isinstance(value, list):
            union[key] = _joined(current, value, f"{where}.{key}")
        else:
            raise LaunchRejected(
                f"the pod template sets {where}.{key} to {str(current)[:80]!r}, and the gate to {str(value)[:80]!r}. "
                "Take it out of the template."
            )
    return union


def _joined(theirs: list[Any], ours: list[Any], where: str) -> list[Any]:
    names = {name for name in map(_name, theirs) if name}
    for value in ours:
        if _name(value) in names:
            message = f"the pod template has {where} {_name(value)!r}, which is the gate's. Rename it."
            raise LaunchRejected(message)
    return [*theirs, *ours]


def _name(value: object) -> str:
    return str(value.get("name") or "") if isinstance(value, Mapping) and "mountPath" not in value else ""
