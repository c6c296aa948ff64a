"""What moto's ECR has not: an image's configuration, and the address from which it can be downloaded.

"Amazon ECR API reference", GetDownloadUrlForLayer; "OCI image specification", Image Configuration. The layers themselves are
no more than names: an image here is a PATH and an environment (tests/fakes/sagemaker/images.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from tests.fakes.sagemaker.images import Image

SERVICE, OPERATION = "AmazonEC2ContainerRegistry_V20150921", "GetDownloadUrlForLayer"
FOLDER = "/_stand_in_layers/"


def manifest(image: Image) -> str:
    """Docker's manifest, version 2 schema 2, of an image without layers."""
    data = configuration(image)
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "size": len(data),
                "digest": _digest(data),
            },
            "layers": [],
        }
    )


def configuration(image: Image) -> bytes:
    """The image's configuration: its entrypoint and its labels, null where it has none, as docker writes it."""
    inside = {"Entrypoint": list(image.entrypoint), "Labels": image.labels or None}
    return json.dumps({"architecture": "amd64", "os": "linux", "config": inside}).encode()


def knows(service: str, operation: str) -> bool:
    """Whether this is a question for here."""
    return (service, operation) == (SERVICE, OPERATION)


def answer(images: Iterable[Image], url: str, request: dict[str, Any]) -> dict[str, Any]:
    """The address of a configuration, or ECR's word for one that is not there."""
    digest = str(request.get("layerDigest"))
    if download(images, FOLDER + digest) is None:
        return {"__type": "LayersNotFoundException", "message": f"The layer {digest} does not exist."}
    return {"downloadUrl": f"{url}{FOLDER}{digest}", "layerDigest": digest}


def download(images: Iterable[Image], path: str) -> bytes | None:
    """The configuration of that digest. S3 asks for no further credentials: the address is signed."""
    found = (configuration(image) for image in images)
    return next((data for data in found if path == FOLDER + _digest(data)), None)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
