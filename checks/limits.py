"""What a value from outside is held to beyond its type, and how it is refused.

DecodeError        what, where, and the nearest valid key
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any


@dataclasses.dataclass(frozen=True)
class Range:
    """Bounds of a number, both included: Annotated[int, Range(1, 8)]."""

    least: float
    most: float

    def check(self, value: object, path: str) -> None:
        """Raise DecodeError for a number outside."""
        if isinstance(value, (int, float)) and not self.least <= value <= self.most:
            raise DecodeError(f"{value!r:.40} is not between {self.least:g} and {self.most:g}", path)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        """The same bounds for the generated JSON Schema (called by pydantic, which is not needed here)."""
        return {**handler(core), "minimum": self.least, "maximum": self.most}


@dataclasses.dataclass(frozen=True)
class Text:
    """The whole of a string matches `pattern` and has at most `most` characters."""

    pattern: str
    most: int

    def check(self, value: object, path: str) -> None:
        """Raise DecodeError for another string."""
        if isinstance(value, str) and (len(value) > self.most or not re.fullmatch(self.pattern, value)):
            raise DecodeError(f"{value!r:.80} is not of the form {self.pattern}", path)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        """The same form for the generated JSON Schema."""
        return {**handler(core), "pattern": f"^({self.pattern})$", "maxLength": self.most}


class DecodeError(ValueError):
    """Input that is not what its schema says. `path` is dotted; `nearest` is a valid key or value, or None."""

    def __init__(self, message: str, path: str = "", nearest: str | None = None) -> None:
        hint = f" Did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"{path or 'document'}: {message}.{hint}")
        self.path = path
        self.reason = message
        self.nearest = nearest
