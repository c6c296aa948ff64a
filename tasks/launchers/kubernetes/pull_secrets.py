"""Whether the secrets with which a pod's images are pulled exist, have the right type, and name the registries of these images.

Only the names of registries are taken out of a secret. Sources: k8s.io/kubernetes, pkg/credentialprovider (which credentials a kubelet
takes for an image) and plugin/pkg/admission/serviceaccount (a pod without pull secrets gets those of its service account).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.launchers.kubernetes.api import SECRET, SERVICE_ACCOUNT, Api, Kind, Object, Refused, grant

# The type of a Secret with credentials of registries -> the key of its data (k8s.io/api, core/v1).
KEYS: Mapping[str, str] = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
HUB, HUB_KEY = "docker.io", "index.docker.io"
SUBJECT = "pull secrets"


def look(api: Api, specs: Iterable[Mapping[str, Any]]) -> Iterator[PreflightCheck]:
    """What is to be said of the pull secrets of pods with these specs; nothing where they have none. Raises EngineUnavailable.

    What the gate file's own pod template or service account names is wrong if it cannot be used. A secret of the namespace's default
    service account, and an image whose registry no secret names, are not: nodes may have credentials of their own, or need none.
    """
    rows = list(specs)
    images = {str(row.get("image") or "") for spec in rows for row in _containers(spec)} - {""}
    spec = rows[0] if rows else {}
    names, where = _names(spec.get("imagePullSecrets")), "the pod template"
    declared = bool(names)
    if not names:
        account = str(spec.get("serviceAccountName") or "default")
        declared, where = "serviceAccountName" in spec, f"service account {account}"
        try:
            found = api.get(SERVICE_ACCOUNT, account)
        except Refused as refusal:
            yield _not_allowed(SERVICE_ACCOUNT, where, refusal)
            return
        if found is None and declared:
            remedy = "Create it, or correct service_account in [cluster.options]."
            yield PreflightCheck(
                where, PreflightResult.WRONG, f"namespace {api.namespace} has none of that name", remedy
            )
        names = _names((found or {}).get("imagePullSecrets"))
    if names:
        yield from _secrets(api, names, where, declared, images)


def _secrets(
    api: Api, names: Iterable[str], where: str, declared: bool, images: Iterable[str]
) -> Iterator[PreflightCheck]:
    usable, keys = list[str](), list[str]()
    result = PreflightResult.WRONG if declared else PreflightResult.UNSEEN
    for name in names:
        try:
            found = api.get(SECRET, name)
        except Refused as refusal:
            yield _not_allowed(SECRET, where, refusal)
            return
        registries, problem = _registries(found, api.namespace)
        if problem:
            said = f"{where} names it to pull images with, and {problem}: a kubelet leaves it out"
            remedy = f"Make it with kubectl create secret docker-registry {name} -n {api.namespace}, or take it out."
            yield PreflightCheck(f"Secret {name}", result, said, remedy)
        else:
            usable.append(name)
            keys += registries
    if not usable:
        return
    uncovered = sorted(image for image in images if not any(covers(key, image) for key in keys))
    if uncovered:
        said = (
            f"{', '.join(usable)} of {where} have no credentials for the registry of {', '.join(uncovered)}: whether it can be "
            "pulled is not known. Public images can, and nodes may have credentials of their own"
        )
        yield PreflightCheck(SUBJECT, PreflightResult.UNSEEN, said)
    else:
        yield PreflightCheck(
            SUBJECT, PreflightResult.OK, f"{', '.join(usable)} of {where} name the registries of all images"
        )


def _registries(secret: Object | None, namespace: str) -> tuple[tuple[str, ...], str]:
    """The registries of which a Secret has credentials, as it names them, and why it cannot be used ("" if it can)."""
    if secret is None:
        return (), f"namespace {namespace} has none of that name"
    kind = str(secret.get("type") or "Opaque")
    if kind not in KEYS:
        return (), f"its type is {kind} and not {next(iter(KEYS))}"
    key = KEYS[kind]
    try:
        config: Any = json.loads(base64.b64decode((secret.get("data") or {})[key]))
        named = config["auths"] if kind == next(iter(KEYS)) else config
        return tuple(map(str, named.keys())), ""
    except (KeyError, TypeError, ValueError, AttributeError):
        return (), f"its {key} is no Docker config"


def covers(key: str, image: str) -> bool:
    """Whether a kubelet takes the credentials of that key of a Docker config, such as "*.example:5000/team", for the image."""
    place = urlsplit(key if re.match("https?://", key) else f"https://{key}")
    path = place.path[3:] if place.path.startswith(("/v1/", "/v2/")) else place.path
    host, _, rest = repository(image).partition("/")
    if host == HUB and place.netloc == HUB_KEY:
        return True
    (name, port), (wanted, wanted_port) = _host(place.netloc), _host(host)
    parts, pattern = wanted.split("."), name.split(".")
    if port != wanted_port or len(parts) != len(pattern) or not f"/{rest}".startswith(path):
        return False
    return all(fnmatchcase(part, one) for part, one in zip(parts, pattern, strict=True))


def repository(image: str) -> str:
    """The image's name with its registry and without tag and digest: "nginx:1" is docker.io/library/nginx."""
    name = re.sub(r":[^:/]*$", "", image.partition("@")[0])
    first, slash, _ = name.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return name
    return f"{HUB}/{name}" if slash else f"{HUB}/library/{name}"


def _host(netloc: str) -> tuple[str, str]:
    name, _, port = netloc.partition(":")
    return name, port


def _containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _names(rows: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(row.get("name") or "") for row in rows or ()))


def _not_allowed(kind: Kind, where: str, refusal: Refused) -> PreflightCheck:
    """The check that could not be made, which keeps no gate from starting: its pods show whether their images are pulled."""
    rule = grant("get", kind.plural, kind.group) if refusal.status == 403 else ""
    return PreflightCheck(
        SUBJECT, PreflightResult.UNSEEN, f"those of {where} could not be checked: {refusal}", rule
    )
