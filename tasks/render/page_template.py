"""How every page is made of its template: with what keeps data from becoming markup or script, in one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).parent


def page_template(path: Path, **filters: Callable[..., Any]) -> Template:
    """The template of a page, which may use these filters and begins with head.html: a report is only ever a value in it."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.from_string(path.read_text(encoding="utf-8"))
