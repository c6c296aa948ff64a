"""The fields of a request that AWS, or somebody else, has otherwise. Pure.

Fields that AWS adds are no difference, and neither is a value that says nothing (false, 0, empty) and is left out of its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.text.inert import one_line


@dataclass(frozen=True)
class Difference:
    """One field: what was sent, and what AWS has, which is None where it has nothing."""

    field: str
    sent: object
    has: object

    @property
    def text(self) -> str:
        """For people; ends without a full stop."""
        has = "missing" if self.has is None else one_line(repr(self.has), 200)
        return f"{self.field} is {has}, and {one_line(repr(self.sent), 200)} was sent"


def differences(sent: Any, has: Any, field: str = "") -> tuple[Difference, ...]:
    """Every field of `sent` that `has` lacks or has otherwise."""
    if isinstance(sent, Mapping) and isinstance(has, Mapping | None):
        pairs = ((f"{field}.{key}".lstrip("."), value, (has or {}).get(key)) for key, value in sent.items())
        return tuple(found for path, value, other in pairs for found in differences(value, other, path))
    return () if _is_same(sent, has) else (Difference(field, sent, has),)


def _is_same(sent: Any, has: Any) -> bool:
    """AWS promises no order of its lists, and may write an address without the slash at its end."""
    if has is None:
        return not sent
    if isinstance(sent, list) and isinstance(has, list):
        return len(sent) == len(has) and all(
            any(not differences(row, other) for other in has) for row in sent
        )
    if isinstance(sent, str) and isinstance(has, str) and sent.startswith("s3://"):
        return sent.rstrip("/") == has.rstrip("/")
    return bool(sent == has)
