"""A store that does not answer holds nobody, and is waited for once."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from checks.runner.deadline import limited
from tasks.store import call_timeout
from tasks.store.base import StoreUnreachable
from tasks.store.call_timeout import HUNG_S, PatientStore
from tasks.store.folder import FolderStore


class Fifo(FolderStore):
    """A folder whose values are read through a FIFO: who opens it waits for a writer, as for a dead file server."""

    def get(self, key: str) -> bytes | None:
        with open(self.root / "fifo", "rb") as file:
            return file.read()


@pytest.fixture
def hung(tmp_path: Path) -> Fifo:
    """A store whose `get` hangs until somebody writes into the FIFO."""
    os.mkfifo(tmp_path / "fifo")
    return Fifo(tmp_path)


def test_a_store_that_answers_is_itself(tmp_path: Path) -> None:
    """Whatever it returns or raises passes."""
    store = PatientStore(FolderStore(tmp_path))
    store.put("a/b", b"1")

    assert (b"1", None) == (store.get("a/b"), store.get("a/c"))
    assert (True, ("a/b",)) == (store.replace_if("a/b", b"1", b"2"), store.list("a"))
    store.delete("a/b")
    assert store.put_if_absent("a/b", b"3") and store.delete_if("a/b", b"3")
    store.probe()


def test_hung_store_is_waited_for_once_until_it_answers(hung: Fifo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is paid by the first call; the others fail at once, until the first one ended after all. Not each leaves a thread."""
    store = PatientStore(hung, limit_s=0.5)
    monkeypatch.setattr(call_timeout, "MOST_HUNG", 2)
    monkeypatch.setattr(call_timeout, "limited", waits := Mock(side_effect=limited))
    for _ in range(3):
        with pytest.raises(StoreUnreachable, match="a/b was not read"):
            store.get("a/b")
    end = time.monotonic() + 60
    while store._patience_s() == HUNG_S and time.monotonic() < end:
        with contextlib.suppress(OSError):  # nobody has it open to read at this moment
            os.close(os.open(hung.root / "fifo", os.O_WRONLY | os.O_NONBLOCK))
        time.sleep(0.01)

    assert [0.5, HUNG_S] == [wait.args[0] for wait in waits.mock_calls]
    assert 0.5 == store._patience_s()


def test_a_verdict_that_is_due_shortens_the_wait(hung: Fifo, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left until then, and never less than a moment."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    store = PatientStore(hung)
    store.answer_by = 1030.0

    assert 30.0 == store._patience_s()
    store.answer_by = 995.0
    assert 1.0 == store._patience_s()
