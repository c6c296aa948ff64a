"""Notes in a store that hangs, fails or is slow: nobody waits for it longer than was said."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from checks.probes.pairs.rendezvous import NoteStore
from tests.fakes.torch_store import FakeStore


def broken() -> None:
    """What torch raises once the connection is gone."""
    raise RuntimeError("Broken pipe")


@pytest.fixture
def hang() -> Iterator[Callable[..., Any]]:
    """A call that does not return before the test's end."""
    end = threading.Event()
    yield end.wait
    end.set()


def test_a_store_that_cannot_be_reached_any_more_holds_nobody_up(hang: Callable[..., Any]) -> None:
    """Its host froze before the pair tests: each call hangs, in the thread of the notes."""
    note_store = NoteStore(FakeStore(hang), "p/", answer_s=0.2)
    note_store.post("a", "1")

    assert (note_store.last_seen("a"), note_store.read("a"), note_store.agree("b", "1")) == ("", None, None)
    assert note_store.lost == "the store gave no answer within 0.2 s"


def test_note_store_waits_no_longer_than_its_end(hang: Callable[..., Any]) -> None:
    """The check's deadline comes before the store's time is over."""
    note_store = NoteStore(FakeStore(hang), "p/", answer_s=600.0, end=time.monotonic() + 0.2)

    assert note_store.read("a") is None


def test_a_store_that_fails_is_known_at_once() -> None:
    """Its host was killed: who asked does not wait for the rest of the time."""
    note_store = NoteStore(FakeStore(broken), "p/", answer_s=600.0)

    assert (note_store.read("a"), note_store.read("b")) == (None, None)
    assert note_store.lost == "the store failed: Broken pipe" and note_store.is_slow_to_answer


def test_a_glance_never_waits_and_a_store_that_keeps_silent_is_mute_then_lost(
    hang: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call requests the read, later ones see its result."""
    store = FakeStore()
    note_store = NoteStore(store, "p/", answer_s=600.0)
    note_store.post("a", "1")
    assert note_store.read("a") == "1"
    note_store.last_seen("a")
    assert note_store.read("a") == note_store.last_seen("a") == "1"
    assert note_store.read("a") == "1" and not note_store.is_slow_to_answer

    store.fault = hang
    assert note_store.last_seen("a") == "1"
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 160.0)
    assert (note_store.is_slow_to_answer, note_store.lost) == (True, "")
    monkeypatch.setattr(time, "monotonic", lambda: now + 610.0)
    note_store.last_seen("a")
    assert note_store.lost


def test_a_board_that_is_closed_leaves_no_thread() -> None:
    """What was posted before is written."""
    store, before = FakeStore(), set(threading.enumerate())
    note_store = NoteStore(store, "p/")
    (own,) = set(threading.enumerate()) - before
    note_store.post("a", "1")
    note_store.close()
    own.join(60.0)

    assert (own.is_alive(), dict(store)) == (False, {"p/a": b"1"})
