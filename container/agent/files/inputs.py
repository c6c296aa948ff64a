"""Reads the bundle, the key of the exchange and a pass: from a file, an s3:// object, or SageMaker's input channel.

FetchError      it is not there or cannot be used; the message says where it was looked for, and the remedy
`- Missing     it is not there
"""

from __future__ import annotations

from pathlib import Path

from checks import bundle as bundles
from checks.bundle import BUNDLE_BYTES, Bundle
from checks.exchange import secret_key
from checks.exchange.secret_key import Secret
from checks.value_types import DecodeError
from container.agent import sagemaker
from container.agent.files import s3
from container.agent.settings import Settings

PASS_BYTES = 1 << 26


class FetchError(Exception):
    """What the agent needs is missing or garbled."""


class InputMissing(FetchError):
    """The file or object does not exist."""


def fetch_bundle(location: str, root: Path) -> tuple[Bundle, bytes]:
    """The bundle and its bytes. Raises FetchError."""
    bundle_location = location or _in_channels(root)
    data = fetch(bundle_location, BUNDLE_BYTES)
    try:
        return bundles.load(data), data
    except DecodeError as error:
        raise FetchError(f"the bundle {bundle_location} cannot be used: {error}") from error


def fetch_key(settings: Settings, nodes: int, scratch: Path) -> tuple[Secret, Path]:
    """The key of the exchange and its file on this host, which is deleted before a command starts. Raises FetchError.

    It is named, or lies beside the bundle, or in our input channel where there is no bundle. What came from S3, or from a
    folder that the hosts share, is put into `scratch`.
    """
    location = settings.exchange_key
    if not location and settings.bundle:
        location = f"{settings.bundle.rpartition('/')[0] or '.'}/{secret_key.FILE}"
    paths = sagemaker.channel_bundles(settings.root)
    channel = paths[0].parent if paths else sagemaker.channel(settings.root)
    location = location or str(channel / secret_key.FILE)
    try:
        if nodes == 1 or not (settings.shared or s3.is_url(location)):
            # A shared folder may be read-only, as a mounted Secret is: nothing there has to be removed.
            return secret_key.load(
                Path(location), nodes
            ), scratch / secret_key.FILE if settings.shared else Path(location)
        data = fetch(location, secret_key.FILE_BYTES)
        secret_key.write(scratch / secret_key.FILE, data)
        return secret_key.parse(data, location), scratch / secret_key.FILE
    except secret_key.KeyUnavailable as error:
        raise FetchError(str(error)) from error


def fetch(location: str, most: int) -> bytes:
    """At most `most` bytes of a file or an object. Raises FetchError."""
    try:
        data = s3.get(location, most + 1) if s3.is_url(location) else _read(Path(location), most + 1)
    except OSError as error:
        error_type = InputMissing if isinstance(error, FileNotFoundError) else FetchError
        raise error_type(f"{location} cannot be read: {error.strerror or error}") from error
    except s3.NoObject as error:
        raise InputMissing(str(error)) from error
    except s3.S3Error as error:
        raise FetchError(str(error)) from error
    if len(data) > most:
        raise FetchError(f"{location} has more than {most} bytes")
    return data


def usable_bundle(location: str, root: Path) -> tuple[Bundle | None, bytes]:
    """The bundle if nothing requires it: None if there is none that can be used."""
    try:
        return fetch_bundle(location, root)
    except FetchError:
        return None, b""


def _read(path: Path, most: int) -> bytes:
    with open(path, "rb") as file:
        return file.read(most)


def _in_channels(root: Path) -> str:
    paths = sagemaker.channel_bundles(root)
    if len(paths) == 1:
        return str(paths[0])
    problem = ", ".join(str(path) for path in paths) if paths else f"no {root}/input/data/*/bundle.json"
    message = f"no bundle: PRELAUNCH_BUNDLE is not set, and there is {problem}. Set it, or give one channel."
    raise FetchError(message)
