"""Runs under the Python of aws-parallelcluster, which has an environment of its own: loads a configuration by its schema.

    python schema_process.py CONFIGURATION CLUSTER_NAME

It prints one JSON document: `package` is its version; `refused` holds what the schema refuses; `unknown` says why nothing was
validated. Nothing is asked of AWS: there are no credentials, every call of its client fails, and so does every connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

PACKAGE = "aws-parallelcluster"


def validated(configuration: str, cluster_name: str) -> dict[str, object]:
    """The document that is printed."""
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return {"unknown": f"{PACKAGE} is not installed for {sys.executable}"}
    try:
        return {"package": version, "refused": _refused(configuration, cluster_name)}
    except Exception as error:  # noqa: BLE001 - another version may fail in any way
        return {
            "unknown": f"the schema of {PACKAGE} {version} could not be used ({type(error).__name__}: {error})"
        }


def _refused(configuration: str, cluster_name: str) -> list[str]:
    """What the schema refuses."""
    import botocore.client
    import botocore.exceptions
    import yaml
    from marshmallow import ValidationError
    from pcluster.schemas.cluster_schema import ClusterSchema

    def no_call(*_: object, **__: object) -> None:
        raise botocore.exceptions.EndpointConnectionError(endpoint_url="nothing")

    botocore.client.BaseClient._make_api_call = no_call
    text = Path(configuration).read_text(encoding="utf-8")
    try:
        ClusterSchema(cluster_name=cluster_name).load(yaml.safe_load(text))
    except ValidationError as error:
        return list(_flat(error.messages, ()))
    return []


def _flat(messages: object, path: tuple[str, ...]) -> Iterator[str]:
    """One line for each message, after the path of its key."""
    if isinstance(messages, dict):
        for key, inner in messages.items():
            yield from _flat(inner, path if key == "_schema" else (*path, str(key)))
    elif isinstance(messages, list):
        for inner in messages:
            yield from _flat(inner, path)
    else:
        yield f"{'.'.join(path)}: {messages}" if path else str(messages)


def _refuse_connections(event: str, _: object) -> None:
    """A hook of sys.addaudithook, which sees every connection of this process."""
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise OSError("no connection is allowed here")


def main(configuration: str, cluster_name: str) -> None:
    """Print the document on the real stdout; whatever else is printed goes to stderr."""
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    here = Path(__file__).parent
    sys.path[:] = [name for name in sys.path if Path(name or ".").resolve() != here]
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(
        AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull, AWS_DEFAULT_REGION="us-east-1"
    )
    logging.disable(logging.CRITICAL)
    asyncio.set_event_loop(asyncio.new_event_loop())
    sys.addaudithook(_refuse_connections)
    with stdout:
        json.dump(validated(configuration, cluster_name), stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
