"""Preflight of the storage: the gate's S3 prefix, the training's input channels, and the KMS keys.

It finds out whether the gate can write, read and delete its objects, and whether they are in the job's region; whether the
training's input channels contain anything, because SageMaker looks only once the machines are billed; and whether the KMS keys
exist and are enabled.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from tasks.launchers.base import LaunchError, PreflightCheck
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.preflight.probe import ok, unanswered, unseen, wrong
from tasks.launchers.sagemaker.preflight.requirements import Requirements
from tasks.launchers.sagemaker.request.locations import bucket_of, key_of
from tasks.launchers.sagemaker.request.validate import at
from tasks.store.aws import Refused

PREFIX, REGION = "S3 prefix", "S3 region"
POLICY = "deployments/iam/orchestrator-reports.json"
# GetBucketLocation, Amazon S3 API reference: what it says for the two oldest regions.
NAMED_OTHERWISE = {None: "us-east-1", "": "us-east-1", "EU": "eu-west-1"}
INPUT_CHANNEL = "input channel"
KMS_KEY = "KMS key"


def prefix(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """Write a small object below the prefix, read it back, list it and remove it."""
    key = f"{asked.prefix}/.prelaunch-probe-{secrets.token_hex(8)}".lstrip("/")
    data = secrets.token_bytes(16)
    try:
        clients.request("s3", "put_object", Bucket=asked.bucket, Key=key, Body=data)
    except Refused as error:
        return (_unwritable(asked, error),)
    try:
        return (_read_back(asked, clients, key, data), *_left(asked, clients, key))
    except (Refused, LaunchError) as error:
        return (_unreadable(asked, error), *_left(asked, clients, key))


def region(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A training job reads its channels and writes its output in its own region (CreateTrainingJob, S3DataSource)."""
    try:
        answer = clients.request("s3", "get_bucket_location", Bucket=asked.bucket)
    except Refused as error:
        if error.code == "NoSuchBucket":
            return (_no_bucket(asked, REGION),)
        raise
    said = answer.get("LocationConstraint")
    found = NAMED_OTHERWISE.get(said, said)
    if found != asked.region:
        said = f"bucket {asked.bucket} is in {found}, the job in {asked.region}"
        return (wrong(REGION, said, f"Use a bucket in {asked.region}."),)
    return (ok(REGION, f"bucket {asked.bucket} is in {found}"),)


def _read_back(asked: Requirements, clients: Clients, key: str, data: bytes) -> PreflightCheck:
    found, _ = clients.tried("s3:GetObject", lambda: clients.read(asked.bucket, key))
    if found != data:
        said = f"{asked.root}: what was written is not what is read"
        return wrong(
            PREFIX, said, "See that nothing stands between here and S3 that changes or caches objects."
        )
    listed = clients.request("s3", "list_objects_v2", Bucket=asked.bucket, Prefix=key, MaxKeys=1)
    if not listed.get("Contents"):
        return wrong(
            PREFIX, f"{asked.root}: what was written is not listed", "Use a bucket that lists what it has."
        )
    return ok(PREFIX, f"{asked.root}: written, read, listed")


def _left(asked: Requirements, clients: Clients, key: str) -> tuple[PreflightCheck, ...]:
    try:
        clients.request("s3", "delete_object", Bucket=asked.bucket, Key=key)
    except (Refused, LaunchError) as error:
        said = f"the probe s3://{asked.bucket}/{key} (16 bytes) stays: {error}"
        return (unseen(PREFIX, said, f"Attach {POLICY}, or remove it."),)
    return ()


def _unwritable(asked: Requirements, error: Refused) -> PreflightCheck:
    if error.code == "NoSuchBucket":
        return _no_bucket(asked, PREFIX)
    if error.is_denied:
        said = f"{asked.root} cannot be written: {error.message or error.code}"
        return wrong(PREFIX, said, f"Attach {POLICY} to who runs the gate; see the bucket's own policy too.")
    return unanswered(PREFIX, error)


def _unreadable(asked: Requirements, error: Refused | LaunchError) -> PreflightCheck:
    if isinstance(error, Refused) and error.is_denied:
        said = f"{asked.root} is written, but not read: {error.action} is not allowed"
        return wrong(PREFIX, said, f"Attach {POLICY} to who runs the gate: without it no report comes back.")
    return unanswered(PREFIX, error)


def _no_bucket(asked: Requirements, what: str) -> PreflightCheck:
    make = f"aws s3 mb s3://{asked.bucket} --region {asked.region}"
    return wrong(what, f"there is no bucket {asked.bucket}", f"{make}, or correct prefix in the gate file.")


def channels(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each channel in S3 that is not the gate's to fill."""
    return tuple(_channel(name, url, clients) for name, url in sources(asked).items())


def sources(asked: Requirements) -> dict[str, str]:
    """Channel -> address, without those below the jobs' own prefixes, which are filled on submit. Pure."""
    ours = tuple(f"{asked.root}/{job}/" for job in asked.jobs)
    return {name: url for name, url in _named(asked) if not url.startswith(ours)}


def _named(asked: Requirements) -> Iterator[tuple[str, str]]:
    for body in asked.bodies:
        for row in body.get("InputDataConfig", ()):
            url = at(row, "DataSource.S3DataSource.S3Uri")
            if isinstance(url, str):
                yield str(row.get("ChannelName")), url


def _channel(name: str, url: str, clients: Clients) -> PreflightCheck:
    try:
        found = clients.request("s3", "list_objects_v2", Bucket=bucket_of(url), Prefix=key_of(url), MaxKeys=1)
    except Refused as error:
        if error.code == "NoSuchBucket":
            return wrong(INPUT_CHANNEL, f"{name}: there is no bucket {bucket_of(url)}", "Correct its S3Uri.")
        return unanswered(INPUT_CHANNEL, error)
    if not found.get("KeyCount"):
        return wrong(
            INPUT_CHANNEL, f"{name}: nothing begins with {url}", "Put the data there, or correct its S3Uri."
        )
    return ok(INPUT_CHANNEL, f"{name}: {url}")


def keys(asked: Requirements, clients: Clients) -> tuple[PreflightCheck, ...]:
    """A line for each key; whether the role may use it is not asked."""
    return tuple(_key(key, asked.region, clients) for key in asked.keys)


def _key(key: str, region: str, clients: Clients) -> PreflightCheck:
    try:
        found = clients.request("kms", "describe_key", KeyId=key)["KeyMetadata"]
    except Refused as error:
        if error.code == "NotFoundException":
            remedy = "Correct volume_kms_key or output_kms_key in the gate file."
            return wrong(KMS_KEY, f"{key} is not there in {region}", remedy)
        return unanswered(KMS_KEY, error)
    if not found.get("Enabled"):
        remedy = f"aws kms enable-key --region {region} --key-id {found['KeyId']}"
        return wrong(KMS_KEY, f"{key} is {found.get('KeyState', 'not enabled')}", remedy)
    return ok(KMS_KEY, f"{key} is enabled")
