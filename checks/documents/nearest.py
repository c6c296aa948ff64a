"""The valid word that a misspelt one is nearest to."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(text: str, choices: Iterable[str]) -> str | None:
    """The valid word that a misspelt one most likely means."""
    matches = difflib.get_close_matches(text, choices, n=1, cutoff=0.5)
    return matches[0] if matches else None
