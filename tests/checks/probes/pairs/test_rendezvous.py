"""The board over a store that hangs, fails or is slow: nobody waits for it longer than was said."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from checks.probes.pairs.rendezvous import Board


class Store(dict[str, bytes]):
    """As much of torch's store as the board asks for, with a fault before each answer."""

    def __init__(self, fault: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.fault = fault

    def set(self, key: str, note: str) -> None:
        self.fault()
        self[key] = note.encode()

    def check(self, keys: list[str]) -> bool:
        self.fault()
        return all(key in self for key in keys)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self[key] for key in keys]


def broken() -> None:
    """What torch raises once the connection is gone."""
    raise RuntimeError("Broken pipe")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What happens in here takes less."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < seconds


@pytest.fixture
def hang() -> Iterator[Callable[..., Any]]:
    """A call that does not return before the test's end."""
    end = threading.Event()
    yield lambda: end.wait(20)
    end.set()


def test_a_store_that_cannot_be_reached_any_more_holds_nobody_up(hang: Callable[..., Any]) -> None:
    """Its host froze before the tournament: the second connection hangs, in the board's thread."""
    with within(1.0):
        board = Board(hang, "p/", answer_s=0.2)
        board.post("a", "1")
        assert (board.glance("a"), board.read("a"), board.agree("b", "1")) == ("", None, None)

    assert board.lost == "the store gave no answer within 0.2 s"


def test_nothing_is_waited_for_beyond_the_end(hang: Callable[..., Any]) -> None:
    """The check's deadline is nearer than the board's patience."""
    board = Board(lambda: Store(hang), "p/", answer_s=10.0, end=time.monotonic() + 0.2)

    with within(1.0):
        assert board.read("a") is None


def test_a_store_that_fails_is_known_at_once() -> None:
    """Its host was killed: who asked does not wait for the rest of the time."""
    board = Board(lambda: Store(broken), "p/", answer_s=10.0)

    with within(1.0):
        assert (board.read("a"), board.read("b")) == (None, None)
    assert board.lost == "the store failed: Broken pipe" and board.mute


def test_a_glance_never_waits_and_a_store_that_keeps_silent_is_mute_then_lost(
    hang: Callable[..., Any],
) -> None:
    """The first glance asks, later ones see."""
    store = Store()
    board = Board(lambda: store, "p/", answer_s=0.4)
    board.post("a", "1")
    assert board.read("a") == "1"
    board.glance("a")
    assert board.read("a") == board.glance("a") == "1"
    assert board.read("a") == "1" and not board.mute

    store.fault = hang
    with within(0.1):
        assert board.glance("a") == "1"
    time.sleep(0.15)
    assert (board.mute, board.lost) == (True, "")
    time.sleep(0.4)
    board.glance("a")
    assert board.lost


def test_a_board_that_is_closed_leaves_no_thread() -> None:
    """What was posted before is written."""
    store, before = Store(), set(threading.enumerate())
    board = Board(lambda: store, "p/")
    (own,) = set(threading.enumerate()) - before
    board.post("a", "1")
    board.close()
    own.join(2.0)

    assert (own.is_alive(), dict(store)) == (False, {"p/a": b"1"})
