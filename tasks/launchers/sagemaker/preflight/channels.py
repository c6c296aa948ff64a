"""Whether the training's own input channels have anything in them: SageMaker looks only once the machines are paid for."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.launchers.base import Line
from tasks.launchers.sagemaker.limits import at
from tasks.launchers.sagemaker.places import bucket_of, key_of
from tasks.launchers.sagemaker.preflight.asked import Asked
from tasks.launchers.sagemaker.preflight.looking import Clients, Unseen, ask, ok, wrong

WHAT = "input channel"


def channels(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """A line for each channel in S3 that is not the gate's to fill."""
    return tuple(_channel(name, url, clients) for name, url in sources(asked).items())


def sources(asked: Asked) -> dict[str, str]:
    """Channel -> address, without those below the jobs' own prefixes, which are filled on submit. Pure."""
    ours = tuple(f"{asked.root}/{job}/" for job in asked.jobs)
    return {name: url for name, url in _named(asked) if not url.startswith(ours)}


def _named(asked: Asked) -> Iterator[tuple[str, str]]:
    for body in asked.bodies:
        for row in body.get("InputDataConfig", ()):
            url = at(row, "DataSource.S3DataSource.S3Uri")
            if isinstance(url, str):
                yield str(row.get("ChannelName")), url


def _channel(name: str, url: str, clients: Clients) -> Line:
    try:
        found = ask(clients.s3, "list_objects_v2", Bucket=bucket_of(url), Prefix=key_of(url), MaxKeys=1)
    except Unseen as error:
        if error.code == "NoSuchBucket":
            return wrong(WHAT, f"{name}: there is no bucket {bucket_of(url)}", "Correct its S3Uri.")
        return error.line(WHAT)
    if not found.get("KeyCount"):
        return wrong(WHAT, f"{name}: nothing begins with {url}", "Put the data there, or correct its S3Uri.")
    return ok(WHAT, f"{name}: {url}")
