"""Which AWS operations the product's own code calls, read from its syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import botocore.session

# How a client is called in the code -> botocore's name of the service.
NAMES = {
    "sagemaker": "sagemaker",
    "s3": "s3",
    "logs": "logs",
    "ecr": "ecr",
    "iam": "iam",
    "ec2": "ec2",
    "quotas": "service-quotas",
    "sts": "sts",
    "kms": "kms",
}
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
    for service in NAMES.values():
        for operation in session.get_service_model(service).operation_names:
            found.setdefault(botocore.xform_name(operation), {})[service] = operation
    return found


def _calls(tree: ast.AST, by_default: str) -> Iterator[str]:
    """`clients.s3.put_object`, `ask(clients.ecr, "describe_images")` and `calls.make("get_object")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_call(node.attr):
            yield from _action(node.attr, _last(node.value), by_default)
        if isinstance(node, ast.Call):
            words = [one.value for one in node.args if isinstance(one, ast.Constant)]
            named = [_last(one) for one in node.args]
            service = next((name for name in named if name in NAMES), "")
            for word in words:
                if isinstance(word, str) and _is_call(word):
                    yield from _action(word, service, by_default)


def _is_call(word: str) -> bool:
    return "_" in word and word in operations()  # "search" and "decrypt" are everybody's words


def _action(call: str, client: str, by_default: str) -> Iterator[str]:
    known = operations()[call]
    service = NAMES.get(client) or by_default
    if service not in known:
        if len(known) > 1:
            raise AssertionError(
                f"{call} is an operation of {sorted(known)}, and {client!r} says not of which"
            )
        service = next(iter(known))
    yield f"{service.replace('-', '')}:{known[service]}"


def _last(node: ast.AST) -> str:
    """The last name of an expression: "s3" of `self.clients.s3`, of `s3` and of `_s3()`."""
    if isinstance(node, ast.Call):
        return _last(node.func).lstrip("_")
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
