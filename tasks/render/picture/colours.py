"""The colours of the report's style sheet, for what is drawn without a browser, so that page and picture have the same colours."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STYLE = Path(__file__).parents[1] / "report.css"
_VALUE = re.compile(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})")
_SHADE = re.compile(r"\.h(\d) \{ --fill: (#[0-9a-f]{6}); --ink: (#[0-9a-f]{6}); \}")


@cache
def light() -> dict[str, str]:
    """Name -> "#rrggbb" of the light scheme, such as "fail-fill" and "fail-ink"."""
    return _scheme(STYLE.read_text(encoding="utf-8").partition("@media")[0])


@cache
def shades() -> tuple[tuple[str, str], ...]:
    """(fill, ink) of each step of a heat map, the slowest first."""
    found = {int(step): (fill, ink) for step, fill, ink in _SHADE.findall(STYLE.read_text(encoding="utf-8"))}
    return tuple(found[step] for step in sorted(found))


def _scheme(text: str) -> dict[str, str]:
    return dict(_VALUE.findall(text))
