"""Runs under the Python of aws-parallelcluster, which has an environment of its own: loads a configuration by its schema.

    python schema_process.py CONFIGURATION CLUSTER_NAME

It prints one JSON document: `package` is its version; `schema` holds what the schema refuses; `rules` are the outcomes of the rules
that ParallelCluster has beyond the schema, or null where this version has them in a way that is not known here; `unknown` says why
nothing was validated. Nothing is asked of AWS: there are no credentials, every call of its client fails, and so does every connection.
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
from typing import Any

PACKAGE = "aws-parallelcluster"


class _Offline(BaseException):
    """A rule wants to ask AWS, or another machine. Not an Exception, so that no rule takes it for an answer."""


class _Network:
    """Refuses every connection. While the schema is loaded, as a failure that it knows; then so that the rule ends."""

    def __init__(self) -> None:
        self.is_load = True

    def refuse(self) -> None:
        """Raise what the caller has to get."""
        if self.is_load:
            raise OSError("no connection is allowed here")
        raise _Offline

    def audit(self, event: str, _: object) -> None:
        """A hook of sys.addaudithook, which sees every connection of this process."""
        if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
            self.refuse()


def validated(configuration: str, cluster_name: str) -> dict[str, object]:
    """The document that is printed."""
    network = _Network()
    sys.addaudithook(network.audit)
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return {"unknown": f"{PACKAGE} is not installed for {sys.executable}"}
    try:
        cluster, refused = _loaded(configuration, cluster_name, network)
    except Exception as error:  # noqa: BLE001 - another version may fail in any way
        said = f"{type(error).__name__}: {error}"
        return {"package": version, "unknown": f"its schema could not be used ({said})"}
    if refused is not None:
        return {"package": version, "schema": refused, "rules": None}
    network.is_load = False
    return {"package": version, "schema": [], "rules": _rules(cluster)}


def _loaded(configuration: str, cluster_name: str, network: _Network) -> tuple[Any, list[str] | None]:
    """The configuration as ParallelCluster's objects, or what the schema refuses."""
    import botocore.client
    import botocore.exceptions
    import yaml
    from marshmallow import ValidationError
    from pcluster.schemas.cluster_schema import ClusterSchema

    def no_call(*_: object, **__: object) -> None:
        if network.is_load:
            raise botocore.exceptions.EndpointConnectionError(endpoint_url="nothing")
        raise _Offline

    botocore.client.BaseClient._make_api_call = no_call
    text = Path(configuration).read_text(encoding="utf-8")
    try:
        return ClusterSchema(cluster_name=cluster_name).load(yaml.safe_load(text)), None
    except ValidationError as error:
        return None, list(_flat(error.messages, ()))


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


def _rules(cluster: Any) -> dict[str, list[str]] | None:
    """What each rule says. `unasked` names the rules that need AWS."""
    found: dict[str, list[str]] = {"passed": [], "error": [], "warning": [], "info": [], "unasked": []}
    try:
        for resource in _resources(cluster):
            _register(resource, found)
            for rule, values in list(resource._validators):
                _run(rule, values, found)
    except AttributeError:
        return None  # another version has them elsewhere
    return found


def _resources(resource: Any) -> Iterator[Any]:
    yield resource
    for inner in resource._nested_resources():
        yield from _resources(inner)


def _register(resource: Any, found: dict[str, list[str]]) -> None:
    """A resource names its rules; some need AWS to know which there are."""
    resource._validators.clear()
    try:
        resource._register_validators(None)
    except (AttributeError, TypeError):
        raise AttributeError from None
    except (_Offline, Exception):  # noqa: BLE001 - code of another package
        found["unasked"].append(type(resource).__name__)


def _run(rule: Any, values: Any, found: dict[str, list[str]]) -> None:
    try:
        results = rule().execute(**values)
    except (_Offline, Exception):  # noqa: BLE001 - code of another package
        found["unasked"].append(rule.__name__)
        return
    if not results:
        found["passed"].append(rule.__name__)
    for result in results:
        found.get(result.level.name.lower(), found["error"]).append(f"{rule.__name__}: {result.message}")


def _clean_environment() -> None:
    """No credentials, no settings of a person, and no metadata service."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name in ("BOTO_CONFIG", "HTTP_PROXY", "HTTPS_PROXY"):
            del os.environ[name]
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        os.environ[name] = os.devnull
    os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_DEFAULT_REGION="us-east-1")


def main(configuration: str, cluster_name: str) -> None:
    """Print the document on the real stdout; whatever else is printed goes to stderr."""
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    here = Path(__file__).parent
    sys.path[:] = [name for name in sys.path if Path(name or ".").resolve() != here]
    _clean_environment()
    logging.disable(logging.CRITICAL)
    asyncio.set_event_loop(asyncio.new_event_loop())
    with stdout:
        json.dump(validated(configuration, cluster_name), stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
