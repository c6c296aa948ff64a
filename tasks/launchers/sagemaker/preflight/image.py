"""Whether the containers' images are in ECR."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tasks.launchers.base import Line
from tasks.launchers.sagemaker.preflight.asked import Asked
from tasks.launchers.sagemaker.preflight.looking import Clients, Unseen, ask, ok, unseen, wrong

WHAT = "image"
# ECR, "Amazon ECR private registry": registry, repository, and a tag or a digest.
ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[a-z0-9._/-]+?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
GB = 10**9


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


def parse(uri: str) -> Image | None:
    """None for what is not in ECR's private registries."""
    found = ECR.fullmatch(uri)
    if not found:
        return None
    tag, sha = found["tag"] or "", found["digest"] or ""
    return Image(
        found["account"], found["region"], found["repository"], tag or ("" if sha else "latest"), sha
    )


def images(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """A line for each image."""
    account = asked.roles[0].account if asked.roles else ""
    return tuple(_image(uri, account, asked.region, clients) for uri in asked.images)


def _image(uri: str, account: str, region: str, clients: Clients) -> Line:
    image = parse(uri)
    if image is None:
        return unseen(WHAT, f"{uri} is not in ECR, so nobody looked whether it is there")
    if image.account != account:
        return unseen(
            WHAT, f"{uri} is of account {image.account}: whether it is there only that account can see"
        )
    if image.region != region:
        return unseen(WHAT, f"{uri} is in {image.region}, the job in {region}: nobody looked there")
    try:
        return _seen(uri, image, clients)
    except Unseen as error:
        return _missing(uri, image, error)


def _seen(uri: str, image: Image, clients: Clients) -> Line:
    answer = ask(
        clients.ecr,
        "describe_images",
        registryId=image.account,
        repositoryName=image.repository,
        imageIds=[image.id],
    )
    found = answer["imageDetails"][0]
    size = found.get("imageSizeInBytes")
    shown = f"{size / GB:.1f} GB to pull" if size else "size not told"
    return ok(WHAT, f"{uri}: {shown}, {found.get('imageDigest', '')[:19]}")


def _missing(uri: str, image: Image, error: Unseen) -> Line:
    if error.code == "RepositoryNotFoundException":
        create = f"aws ecr create-repository --repository-name {image.repository} --region {image.region}"
        return wrong(
            WHAT,
            f"{uri}: there is no repository {image.repository}",
            f"{create}, then container/create-image.sh pushes it.",
        )
    if error.code == "ImageNotFoundException":
        said = f"{uri}: the repository has no such {'digest' if image.digest else 'tag'}"
        return wrong(WHAT, said, "Push it (container/create-image.sh), or correct image in the gate file.")
    return error.line(WHAT)
