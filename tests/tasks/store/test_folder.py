"""The folder store: whole values, atomic conditions, and errors with a remedy."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.store import folder
from tasks.store.base import StoreError, StoreFull, StoreUnreachable, StoreUnwritable
from tasks.store.folder import FolderStore


def test_list_leaves_out_what_is_no_value(store: FolderStore) -> None:
    """What is being written, what the store keeps for itself, and what somebody else left there."""
    store.put("g/1/b", b"")
    store.probe()
    for name in (".tmp-1-x", "copy of b"):
        (store.root / "g" / name).write_bytes(b"half")

    assert store.list("g") == ("g/1/b",)


def test_folder_store_names_what_it_cannot_list_or_read(store: FolderStore) -> None:
    """Reports that cannot be seen are not reports that are not there. Nobody writes into a pipe: to read it would never end."""
    store.put("a/b", b"1")
    (loop := store.root / "h").symlink_to(loop)
    os.mkfifo(store.root / "a" / "c")

    with pytest.raises(StoreError, match="cannot be listed"):
        store.list("h")
    with pytest.raises(StoreError, match="no file"):
        store.get("a/c")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)), check=True)
    yield folder
    subprocess.run(("umount", "-l", str(folder)), check=True)


@pytest.mark.root
def test_a_full_disk_keeps_the_old_value_and_no_half_file(small_disk: Path) -> None:
    """StoreFull says so; what was there stays whole."""
    store = FolderStore(small_disk / "s")
    store.put("k", b"old")

    with pytest.raises(StoreFull, match="Free space"):
        store.put("k", b"x" * 200_000)

    assert store.get("k") == b"old"
    assert store.list("") == ("k",)


@pytest.mark.root
def test_a_read_only_disk_is_unwritable(small_disk: Path) -> None:
    """Root ignores modes, so the probe really writes."""
    subprocess.run(("mount", "-o", "remount,ro", str(small_disk)), check=True)

    with pytest.raises(StoreUnwritable):
        FolderStore(small_disk / "s").probe()


def test_a_folder_that_cannot_be_made_is_unwritable(tmp_path: Path) -> None:
    """A file is in its way, or its file system takes no files: the error says what to do."""
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file" / "store", Path("/proc/prelaunch")):
        with pytest.raises(StoreUnwritable, match=r"cannot be written .*set \[store\] path"):
            FolderStore(root).probe()


def test_a_lock_that_is_never_let_go_of_is_said(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped while it held the lock; every method ends."""
    monkeypatch.setattr(folder, "LOCK_S", 0.1)
    store.put("a", b"1")
    with open(store.root / folder.LOCK, "ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreUnreachable, match="another process has held"):
            store.replace_if("a", b"1", b"2")

    assert (True, b"2") == (store.replace_if("a", b"1", b"2"), store.get("a"))


@pytest.mark.parametrize("how", ["put", "replace"])
def test_folder_store_lets_one_of_several_processes_win(store: FolderStore, how: str) -> None:
    """Put-if-absent and compare-and-set hold between processes: the lock of a cluster rests on them."""
    if how == "replace":
        store.put("k", b"start")
    context = multiprocessing.get_context("fork")
    begin = context.Barrier(4)

    def race(mine: bytes) -> None:
        begin.wait(60)
        won = store.put_if_absent("k", mine) if how == "put" else store.replace_if("k", b"start", mine)
        sys.exit(0 if won else 1)

    racers = [context.Process(target=race, args=(mine,)) for mine in (b"a", b"b", b"c", b"d")]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)

    assert [0, 1, 1, 1] == sorted(racer.exitcode or 0 for racer in racers)
