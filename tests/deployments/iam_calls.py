"""Which AWS operations the product's own code calls, read from its syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import botocore.session

SERVICES = ("sagemaker", "s3", "logs", "ecr", "iam", "ec2", "service-quotas", "sts", "kms")
# Where an operation is granted under another name (Service Authorization Reference, Amazon S3).
GRANTED_AS = {"s3:ListObjectsV2": "s3:ListBucket", "s3:HeadObject": "s3:GetObject"}
# AWS STS API reference: "No permissions are required to perform this operation."
FREE = {"sts:GetCallerIdentity"}


def actions_of(files: list[Path], by_default: str = "") -> set[str]:
    """The IAM actions that these files need; `by_default` is the service of calls that name none."""
    calls = {call for path in files for call in _calls(ast.parse(path.read_text()), by_default)}
    return {GRANTED_AS.get(action, action) for action in calls} - FREE


@lru_cache(maxsize=1)
def operations() -> dict[str, dict[str, str]]:
    """boto3's name of a call -> botocore's service -> the operation's name."""
    session = botocore.session.get_session()
    found: dict[str, dict[str, str]] = {}
    for service in SERVICES:
        for operation in session.get_service_model(service).operation_names:
            found.setdefault(botocore.xform_name(operation), {})[service] = operation
    return found


def _calls(tree: ast.AST, by_default: str) -> Iterator[str]:
    """`clients.call("s3", "put_object")`, `self._call("put_object")` and `clients.client("s3").get_object`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_call(node.attr):
            yield from _action(node.attr, _client(node.value), by_default)
        if isinstance(node, ast.Call | ast.Dict):
            places = node.args if isinstance(node, ast.Call) else node.values
            words = [one.value for one in places if isinstance(one, ast.Constant)]
            service = next((word for word in words if word in SERVICES), "")
            for word in words:
                if isinstance(word, str) and _is_call(word):
                    yield from _action(word, service, by_default)


def _is_call(word: str) -> bool:
    return "_" in word and word in operations()  # "search" and "decrypt" are everybody's words


def _action(call: str, client: str, by_default: str) -> Iterator[str]:
    known = operations()[call]
    service = client if client in SERVICES else by_default
    if service not in known:
        if len(known) > 1:
            raise AssertionError(
                f"{call} is an operation of {sorted(known)}, and {client!r} says not of which"
            )
        service = next(iter(known))
    yield f"{service.replace('-', '')}:{known[service]}"


def _client(node: ast.AST) -> str:
    """ "s3" of `self.client("s3")`, "" of all else."""
    argument = node.args[0] if isinstance(node, ast.Call) and node.args else None
    return str(argument.value) if isinstance(argument, ast.Constant) else ""
