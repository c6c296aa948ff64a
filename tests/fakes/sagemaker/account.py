"""What else an account has that can run a gate: the execution role, and the images in ECR."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from tests.fakes.sagemaker.images import Image

STATEMENT = {
    "Effect": "Allow",
    "Principal": {"Service": "sagemaker.amazonaws.com"},
    "Action": "sts:AssumeRole",
}
TRUST = {"Version": "2012-10-17", "Statement": [STATEMENT]}
# ECR, "Docker image manifest V2 schema 2".
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "size": 7023,
            "digest": "sha256:" + "a" * 64,
        },
        "layers": [],
    }
)
REGISTRY = ".dkr.ecr."


def furnish(iam: Any, ecr: Any, images: Mapping[str, Image]) -> None:
    """Make the roles, and push each image by its tag, or by the usual tags where the table names none."""
    # The tests' own role, and the one that the shipped gate files name.
    for role in ("PrelaunchTraining", "prelaunch-execution"):
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(TRUST))
    for uri in images:
        host, _, name = uri.partition("/")
        if REGISTRY in host:
            repository, _, tag = name.partition(":")
            _push(ecr, repository, (tag,) if tag else ("latest", "test"))


def _push(ecr: Any, repository: str, tags: tuple[str, ...]) -> None:
    """The same image under each tag. A repository that is there already is as good."""
    with contextlib.suppress(ecr.exceptions.RepositoryAlreadyExistsException):
        ecr.create_repository(repositoryName=repository)
    for tag in tags:
        # It may be of another region's registry here.
        with contextlib.suppress(ecr.exceptions.ImageAlreadyExistsException):
            ecr.put_image(repositoryName=repository, imageTag=tag, imageManifest=MANIFEST)
