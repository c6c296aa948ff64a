"""Whether the containers' images are in ECR, and whether the labels of the images in which checks run name the checks' tools."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks.launchers.base import LaunchError, PreflightCheck
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.probe import ok, unanswered, unseen, wrong
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
# OCI image specification 1.1 and Docker's manifests of version 2, schema 2.
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
PLATFORM = {"os": "linux", "architecture": "amd64"}
CONFIG_BYTES, DOWNLOAD_S = 1 << 20, 5.0


@dataclass(frozen=True)
class Image:
    """An image in a private registry of ECR. A digest says more than a tag; without either it is "latest"."""

    account: str
    region: str
    repository: str
    tag: str
    digest: str

    @property
    def id(self) -> dict[str, str]:
        """As ECR's API names it."""
        return {"imageDigest": self.digest} if self.digest else {"imageTag": self.tag}

    @property
    def repository_id(self) -> dict[str, Any]:
        """Its repository as ECR's API names it."""
        return {"registryId": self.account, "repositoryName": self.repository}


def parse(uri: str) -> Image | None:
    """None for what is not in ECR's private registries."""
    found = ECR.fullmatch(uri)
    if not found:
        return None
    tag, sha = found["tag"] or "", found["digest"] or ""
    return Image(
        found["account"], found["region"], found["repository"], tag or ("" if sha else "latest"), sha
    )


def images(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each image."""
    return tuple(_image(uri, asked, clients) for uri in asked.images)


def tools(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each image in which checks run: what its label says of the tools that they need."""
    return tuple(_tools(one, asked, clients) for one in asked.checked)


def _tools(checked: Checked, asked: Requirements, clients: Clients) -> PreflightCheck:
    image = parse(checked.image)
    if image is None or (image.account, image.region) != (asked.account, asked.region):
        said = f"the image was not inspected, because it is not in ECR of {asked.account} in {asked.region}"
        return unlabelled(checked, said)
    try:
        label = _labels(image, clients).get(LABEL)
    except (Refused, LaunchError) as error:
        line = unanswered(WHAT, error)
        return replace(
            unlabelled(checked, f"the image was not inspected ({line.message})"), behind=line.behind
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return unlabelled(checked, f"its configuration could not be read ({type(error).__name__})")
    if not isinstance(label, str):
        return unlabelled(checked, f"it has no label {LABEL}, so nobody knows what is inside")
    return labelled(checked, label)


def _labels(image: Image, clients: Clients) -> Mapping[str, Any]:
    """The labels in the image's configuration. Raises Refused, LaunchError, OSError, and what a document of another form raises."""
    manifest = _manifest(image, image.id, clients)
    if "manifests" in manifest:
        rows = [row for row in manifest["manifests"] if PLATFORM.items() <= row.get("platform", {}).items()]
        manifest = _manifest(image, {"imageDigest": rows[0]["digest"]} if rows else {}, clients)
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
    accepted = [*INDEXES, *MANIFESTS]
    answer = clients.request(
        "ecr", "batch_get_image", **image.repository_id, imageIds=[dict(which)], acceptedMediaTypes=accepted
    )
    if not answer.get("images"):
        failures = answer.get("failures") or [{}]
        code = str(failures[0].get("failureCode", ""))
        raise Refused("ecr:BatchGetImage", code, 0, "there is no such image")
    manifest: Mapping[str, Any] = json.loads(answer["images"][0]["imageManifest"])
    return manifest


def _downloaded(url: str) -> bytes:
    """A layer from the address that ECR signed. Raises OSError, and ValueError for what is no address or too long."""
    if not url.startswith(("https://", "http://")):
        raise ValueError("ECR gave no address")
    with urllib.request.urlopen(url, timeout=DOWNLOAD_S) as answer:  # noqa: S310 - the scheme was looked at
        data = bytes(answer.read(CONFIG_BYTES + 1))
    if len(data) > CONFIG_BYTES:
        raise ValueError("the configuration is longer than any image's")
    return data


def _image(uri: str, asked: Requirements, clients: Clients) -> PreflightCheck:
    image = parse(uri)
    if image is None:
        return unseen(WHAT, f"{uri} is not in ECR, so it is unknown whether the image exists")
    if image.account != asked.account:
        said = f"{uri} is of account {image.account}: whether it is there only that account can see"
        return unseen(WHAT, said)
    if image.region != asked.region:
        said = f"{uri} is in {image.region}, but the job is in {asked.region}: it is unknown whether the image exists"
        return unseen(WHAT, said)
    try:
        answer = clients.request("ecr", "describe_images", **image.repository_id, imageIds=[image.id])
    except (Refused, LaunchError) as error:
        return _missing(uri, image, error)
    found = answer["imageDetails"][0]
    size = found.get("imageSizeInBytes")
    shown = f"{size / GB:.1f} GB to pull" if size else "size unknown"
    return ok(WHAT, f"{uri}: {shown}, {found.get('imageDigest', '')[:19]}")


def _missing(uri: str, image: Image, error: Refused | LaunchError) -> PreflightCheck:
    code = error.code if isinstance(error, Refused) else ""
    if code == "RepositoryNotFoundException":
        create = f"aws ecr create-repository --repository-name {image.repository} --region {image.region}"
        return wrong(
            WHAT,
            f"{uri}: there is no repository {image.repository}",
            f"{create}, then container/create-image.sh pushes it.",
        )
    if code == "ImageNotFoundException":
        said = f"{uri}: the repository has no such {'digest' if image.digest else 'tag'}"
        return wrong(WHAT, said, "Push it (container/create-image.sh), or correct image in the gate file.")
    line = unanswered(WHAT, error)
    return replace(line, message=f"{uri}: {line.message}")
