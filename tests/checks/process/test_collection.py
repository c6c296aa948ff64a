"""Imports without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from checks.process.collection import without_collection


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_import_block_disables_the_garbage_collector_and_restores_it() -> None:
    """What the block made is never looked at again."""
    with without_collection():
        assert not gc.isenabled()

    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_a_failed_import_switches_the_collector_on_again() -> None:
    """The error goes on to the caller."""
    with pytest.raises(ImportError), without_collection():
        raise ImportError

    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    """The embedded server collects in a thread of its own."""
    gc.disable()
    with without_collection():
        pass

    assert not gc.isenabled()
