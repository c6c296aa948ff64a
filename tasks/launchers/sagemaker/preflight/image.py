"""Whether the containers' images are in ECR, and whether the labels of the images in which checks run name the checks' tools."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.launchers.base import LaunchError, PreflightCheck
from tasks.launchers.preflight import ok, unseen
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.probe import line_of, unanswered
from tasks.launchers.sagemaker.preflight.requirements import Requirements
from tasks.launchers.sagemaker.request.image import LABEL, Checked, labelled, unlabelled
from tasks.store.aws import Refused

WHAT = "image"
# ECR, "Amazon ECR private registry": registry, repository, and a tag or a digest.
ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[a-z0-9._/-]+?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
GB = 10**9
# OCI image specification 1.1 and Docker's manifests of version 2, schema 2: indexes, and what they list.
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
PLATFORM = {"os": "linux", "architecture": "amd64"}
CONFIG_BYTES, DOWNLOAD_S = 1 << 20, 5.0


@dataclass(frozen=True)
class Image:
    """An image in ECR of the gate's account and region. `id` is a digest, which says more than a tag, or a tag, "latest" if neither
    is named.
    """

    repository: str
    repository_id: Mapping[str, Any]
    id: Mapping[str, str]


def parse(uri: str, asked: Requirements) -> Image | None:
    """None for what cannot be seen with the gate's credentials: another account's, another region's, or not in ECR."""
    found = ECR.fullmatch(uri)
    if not found or (found["account"], found["region"]) != (asked.account, asked.region):
        return None
    which = {"imageDigest": found["digest"]} if found["digest"] else {"imageTag": found["tag"] or "latest"}
    repository = {"registryId": found["account"], "repositoryName": found["repository"]}
    return Image(found["repository"], repository, which)


def images(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each image."""
    return tuple(line_of(WHAT, uri, lambda uri: _image(uri, asked, clients)) for uri in asked.images)


def _image(uri: str, asked: Requirements, clients: Clients) -> PreflightCheck:
    image = parse(uri, asked)
    if image is None:
        return unseen(WHAT, f"{uri} {_elsewhere(asked)}, so that it is unknown whether it exists")
    answer = clients.request("ecr", "describe_images", **image.repository_id, imageIds=[image.id])
    found = answer["imageDetails"][0]
    size = found.get("imageSizeInBytes") or 0
    return ok(WHAT, f"{uri}: {size / GB:.1f} GB to pull, {found.get('imageDigest', '')[:19]}")


def _elsewhere(asked: Requirements) -> str:
    return f"is not in ECR of {asked.account} in {asked.region}"


def tools(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each image in which checks run: what its label says of the tools that they need."""
    return tuple(_tools(one, asked, clients) for one in asked.checked)


def _tools(checked: Checked, asked: Requirements, clients: Clients) -> PreflightCheck:
    image = parse(checked.image, asked)
    if image is None:
        return unlabelled(checked, f"the image was not inspected, because it {_elsewhere(asked)}")
    try:
        label = _labels(image, clients).get(LABEL)
    except (Refused, LaunchError) as error:
        return unlabelled(checked, f"the image was not inspected ({unanswered(WHAT, error).message})")
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return unlabelled(checked, f"its configuration could not be read ({type(error).__name__})")
    if not isinstance(label, str):
        return unlabelled(checked, f"it has no label {LABEL}, so nobody knows what is inside")
    return labelled(checked, label)


def _labels(image: Image, clients: Clients) -> Mapping[str, Any]:
    """The labels in the image's configuration. Raises Refused, LaunchError, OSError, and what a document of another form raises."""
    manifest = _manifest(image, image.id, clients)
    if "manifests" in manifest:
        digests = [
            row["digest"]
            for row in manifest["manifests"]
            if PLATFORM.items() <= row.get("platform", {}).items()
        ]
        manifest = _manifest(image, {"imageDigest": digests[0]} if digests else {}, clients)
    digest = str(manifest["config"]["digest"])
    where = clients.request("ecr", "get_download_url_for_layer", **image.repository_id, layerDigest=digest)
    data = _downloaded(str(where["downloadUrl"]))
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
        raise ValueError("the configuration has another digest than the manifest says")
    labels = json.loads(data).get("config", {}).get("Labels") or {}
    return dict(labels)


def _manifest(image: Image, which: Mapping[str, str], clients: Clients) -> Mapping[str, Any]:
    if not which:
        raise ValueError("the image has nothing for linux/amd64")
    answer = clients.request(
        "ecr", "batch_get_image", **image.repository_id, imageIds=[which], acceptedMediaTypes=[*MANIFESTS]
    )
    if not answer.get("images"):
        raise ValueError("there is no such image")
    manifest: Mapping[str, Any] = json.loads(answer["images"][0]["imageManifest"])
    return manifest


def _downloaded(url: str) -> bytes:
    """A layer from the address that ECR signed. Raises OSError, and ValueError for what is no address."""
    if not url.startswith(("https://", "http://")):
        raise ValueError("ECR gave no address")
    with urllib.request.urlopen(url, timeout=DOWNLOAD_S) as answer:  # noqa: S310 - the scheme was looked at
        return bytes(answer.read(CONFIG_BYTES))
