"""Preflight of the storage: the gate's S3 prefix, and the training's input channels.

It finds out whether the gate can write, read and delete its objects, and whether the training's input channels contain anything,
because SageMaker looks only once the machines are billed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from tasks.launchers.base import LaunchError, PreflightCheck
from tasks.launchers.preflight import ok, unseen, wrong
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.probe import line_of, unanswered
from tasks.launchers.sagemaker.preflight.requirements import Requirements
from tasks.launchers.sagemaker.request.locations import bucket_of, key_of
from tasks.launchers.sagemaker.request.validate import at
from tasks.store.aws import AwsRefused

PREFIX, INPUT_CHANNEL = "S3 prefix", "input channel"
POLICY = "deployments/iam/orchestrator-reports.json"


def prefix(needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Write a small object below the prefix, read it back, list it and remove it."""
    key = f"{needs.prefix}/.prelaunch-probe-{secrets.token_hex(8)}".lstrip("/")
    data = secrets.token_bytes(16)
    left: tuple[PreflightCheck, ...] = ()
    try:
        clients.request("s3", "put_object", Bucket=needs.bucket, Key=key, Body=data)
    except AwsRefused as error:
        return (_unusable(needs, error),)
    try:
        line = _read_back(needs, clients, key, data)
    except (AwsRefused, LaunchError) as error:
        line = _unusable(needs, error)
    try:
        clients.request("s3", "delete_object", Bucket=needs.bucket, Key=key)
    except (AwsRefused, LaunchError) as error:
        message = f"the probe s3://{needs.bucket}/{key} (16 bytes) stays: {error}"
        left = (unseen(PREFIX, message, f"Attach {POLICY}, or remove it."),)
    return (line, *left)


def _read_back(needs: Requirements, clients: Clients, key: str, data: bytes) -> PreflightCheck:
    stored, _ = clients.tried("s3:GetObject", lambda: clients.read(needs.bucket, key))
    listed = clients.request("s3", "list_objects_v2", Bucket=needs.bucket, Prefix=key, MaxKeys=1)
    if stored != data or not listed.get("Contents"):
        message = f"{needs.root}: what was written is not what is read and listed"
        return wrong(PREFIX, message, "See that nothing between here and S3 changes or caches objects.")
    return ok(PREFIX, f"{needs.root}: written, read, listed")


def _unusable(needs: Requirements, error: AwsRefused | LaunchError) -> PreflightCheck:
    if isinstance(error, AwsRefused) and error.is_denied:
        text = f"{needs.root}: {error.action} is not allowed, and without it no report comes back"
        return wrong(PREFIX, text, f"Attach {POLICY} to who runs the gate; see the bucket's own policy too.")
    return unanswered(PREFIX, error, needs.bucket)


def channels(needs: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each channel in S3 that is not the gate's to fill."""
    urls = dict.fromkeys(sources(needs).values())
    return tuple(line_of(INPUT_CHANNEL, url, lambda url: _channel(url, clients)) for url in urls)


def sources(needs: Requirements) -> dict[str, str]:
    """Channel -> address, without those below the jobs' own prefixes, which are filled on submit. Pure."""
    ours = tuple(f"{needs.root}/{job}/" for job in needs.jobs)
    return {name: url for name, url in _channel_urls(needs) if not url.startswith(ours)}


def _channel_urls(needs: Requirements) -> Iterator[tuple[str, str]]:
    for body in needs.bodies:
        for channel in body.get("InputDataConfig", ()):
            url = at(channel, "DataSource.S3DataSource.S3Uri")
            if isinstance(url, str):
                yield str(channel.get("ChannelName")), url


def _channel(url: str, clients: Clients) -> PreflightCheck:
    listed = clients.request("s3", "list_objects_v2", Bucket=bucket_of(url), Prefix=key_of(url), MaxKeys=1)
    if not listed.get("KeyCount"):
        return wrong(INPUT_CHANNEL, f"nothing begins with {url}", "Put the data there, or correct its S3Uri.")
    return ok(INPUT_CHANNEL, url)
