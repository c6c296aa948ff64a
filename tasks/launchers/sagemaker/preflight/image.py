"""Whether the containers' images are in ECR."""

from __future__ import annotations

import re
from typing import Any

from tasks.launchers.base import PreflightCheck
from tasks.launchers.preflight import ok, unseen
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.probe import line_of
from tasks.launchers.sagemaker.preflight.requirements import Requirements

SUBJECT = "image"
# ECR, "Amazon ECR private registry": registry, repository, and a tag or a digest.
ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[a-z0-9._/-]+?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
GB = 10**9


def parse(uri: str, needs: Requirements) -> dict[str, Any] | None:
    """What ECR is asked for: a digest, which says more than a tag, or a tag, "latest" if neither is named. None for what the gate's
    credentials cannot see: another account's, another region's, or not in ECR.
    """
    match = ECR.fullmatch(uri)
    if not match or (match["account"], match["region"]) != (needs.account, needs.region):
        return None
    which = {"imageDigest": match["digest"]} if match["digest"] else {"imageTag": match["tag"] or "latest"}
    return {"registryId": match["account"], "repositoryName": match["repository"], "imageIds": [which]}


def images(needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each image."""
    return tuple(line_of(SUBJECT, uri, lambda uri: _image(uri, needs, clients)) for uri in needs.images)


def _image(uri: str, needs: Requirements, clients: Clients) -> PreflightCheck:
    image = parse(uri, needs)
    if image is None:
        where = f"ECR of {needs.account} in {needs.region}"
        return unseen(SUBJECT, f"{uri} is not in {where}, so that it is unknown whether it exists")
    details = clients.request("ecr", "describe_images", **image)["imageDetails"][0]
    size = details.get("imageSizeInBytes") or 0
    return ok(SUBJECT, f"{uri}: {size / GB:.1f} GB to pull, {details.get('imageDigest', '')[:19]}")
