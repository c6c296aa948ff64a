"""What AWS made of a request: the fields of CreateTrainingJob that DescribeTrainingJob answers otherwise. Pure.

Fields that AWS adds are no difference, and neither is a value that says nothing (false, 0, empty) and is left out of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.text.inert import one_line

# Members of CreateTrainingJobRequest that DescribeTrainingJobResponse does not have (botocore 1.44.5).
NEVER_DESCRIBED = ("Tags", "SessionChainingConfig")
# The lists whose order has a meaning; of all others AWS promises none.
COMMANDS = ("ContainerEntrypoint", "ContainerArguments")
# Their values may be secrets, so that only their names are shown.
SECRET = ("Environment", "HyperParameters")
# "The ID of a KMS key ... or its ARN" (API Reference, VolumeKmsKeyId): AWS may answer with the other one.
KEY = "KmsKeyId"
MOST = 4


@dataclass(frozen=True)
class Difference:
    """One field: what was sent, and what AWS has, which is None where it has nothing."""

    field: str
    sent: object
    has: object

    @property
    def text(self) -> str:
        """For people; ends without a full stop."""
        if self.field.partition(".")[0] in SECRET:
            return f"{self.field} has another value" if self.has is not None else f"{self.field} is missing"
        has = "missing" if self.has is None else one_line(repr(self.has), 120)
        return f"{self.field} is {has}, and {one_line(repr(self.sent), 120)} was sent"


def differences(sent: Mapping[str, Any], has: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Every field of the request that AWS does not have as it was sent."""
    fields = {key: value for key, value in sent.items() if key not in NEVER_DESCRIBED}
    return tuple(_different("", fields, has))


def differences_text(wrong: Sequence[Difference]) -> str:
    """The first of them, for people."""
    more = f"; and {len(wrong) - MOST} more fields" if len(wrong) > MOST else ""
    return "; ".join(difference.text for difference in wrong[:MOST]) + more


def _different(field: str, sent: Any, has: Any) -> Iterator[Difference]:
    if isinstance(sent, Mapping) and isinstance(has, Mapping | None):
        for key, value in sent.items():
            yield from _different(f"{field}.{key}".lstrip("."), value, (has or {}).get(key))
    elif isinstance(sent, Sequence) and isinstance(has, Sequence) and not isinstance(sent, str):
        yield from _different_rows(field, sent, has)
    elif not _is_same(field, sent, has):
        yield Difference(field, sent, has)


def _different_rows(field: str, sent: Sequence[Any], has: Sequence[Any]) -> Iterator[Difference]:
    """The rows of a list. One that AWS has nowhere is compared with the one in its place, to name what differs in it."""
    if len(sent) != len(has) or field.endswith(COMMANDS):
        if list(sent) != list(has):
            yield Difference(field, sent, has)
        return
    left = [item for item in sent if all(any(_different("", item, other)) for other in has)]
    other = [item for item in has if all(any(_different("", candidate, item)) for candidate in sent)]
    for item, answer in zip(left, other or has, strict=False):
        yield from _different(f"{field}[{sent.index(item)}]", item, answer)


def _is_same(field: str, sent: Any, has: Any) -> bool:
    if has is None:
        return not sent
    if isinstance(sent, str) and isinstance(has, str):
        if field.endswith(KEY):
            return sent.rpartition("/")[2] == has.rpartition("/")[2]
        return sent == has or (sent.startswith("s3://") and sent.rstrip("/") == has.rstrip("/"))
    return bool(sent == has)
