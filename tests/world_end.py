"""When the world of tests.world ends: with the last of its tests, not with the session. tests/conftest.py imports the hook.

Its server with all services and PostgreSQL take 3 % of a core for as long as they run, and a worker of pytest-xdist that had the
tests of the world has other tests next.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

IMPORT = "from tests.world import"


@pytest.hookimpl(specname="pytest_runtest_teardown", wrapper=True)
def pytest_world_ends_with_its_tests(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End it where the next test is in a file that does not import it."""
    try:
        yield
    finally:
        if nextitem is not None and _imports_it(item.path) and not _imports_it(nextitem.path):
            end_fixture(item, "world")


def end_fixture(item: pytest.Item, name: str) -> None:
    """End a fixture of the session, and what was made of it. The next test that wants it makes another. pytest itself has no public
    way to do so.
    """
    for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ():
        fixture.finish(item._request)  # type: ignore[attr-defined]


@functools.cache
def _imports_it(path: Path) -> bool:
    return IMPORT in path.read_text(encoding="utf-8")
