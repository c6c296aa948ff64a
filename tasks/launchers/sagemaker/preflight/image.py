"""Whether the containers' images are in ECR."""

from __future__ import annotations

import re
from typing import Any

from tasks.launchers.base import PreflightCheck
from tasks.launchers.preflight import ok, unseen
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.probe import line_of
from tasks.launchers.sagemaker.preflight.requirements import Requirements

WHAT = "image"
# ECR, "Amazon ECR private registry": registry, repository, and a tag or a digest.
ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[a-z0-9._/-]+?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
GB = 10**9


def parse(uri: str, asked: Requirements) -> dict[str, Any] | None:
    """What ECR is asked for: a digest, which says more than a tag, or a tag, "latest" if neither is named. None for what the gate's
    credentials cannot see: another account's, another region's, or not in ECR.
    """
    found = ECR.fullmatch(uri)
    if not found or (found["account"], found["region"]) != (asked.account, asked.region):
        return None
    which = {"imageDigest": found["digest"]} if found["digest"] else {"imageTag": found["tag"] or "latest"}
    return {"registryId": found["account"], "repositoryName": found["repository"], "imageIds": [which]}


def images(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each image."""
    return tuple(line_of(WHAT, uri, lambda uri: _image(uri, asked, clients)) for uri in asked.images)


def _image(uri: str, asked: Requirements, clients: Clients) -> PreflightCheck:
    image = parse(uri, asked)
    if image is None:
        where = f"ECR of {asked.account} in {asked.region}"
        return unseen(WHAT, f"{uri} is not in {where}, so that it is unknown whether it exists")
    answer = clients.request("ecr", "describe_images", **image)
    found = answer["imageDetails"][0]
    size = found.get("imageSizeInBytes") or 0
    return ok(WHAT, f"{uri}: {size / GB:.1f} GB to pull, {found.get('imageDigest', '')[:19]}")
