"""The folder store: whole values, atomic conditions, and errors with a remedy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.store.base import BadKey, StoreError, StoreFull, StoreUnwritable
from tasks.store.folder import FolderStore

ROOT = Path(__file__).parents[3]


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """An empty one, whose folder is not there yet."""
    return FolderStore(tmp_path / "store")


def test_what_was_put_is_got(store: FolderStore) -> None:
    """Also where it replaces something."""
    store.put("a/b.json", b"1")
    store.put("a/b.json", b"2")

    assert (store.get("a/b.json"), store.get("a/c.json")) == (b"2", None)
    assert Path(store.place("a/b.json")).read_bytes() == b"2"


def test_put_if_absent_sets_only_once(store: FolderStore) -> None:
    """The second one is told so, and changes nothing."""
    assert [store.put_if_absent("k", b"1"), store.put_if_absent("k", b"2")] == [True, False]
    assert store.get("k") == b"1"


def test_conditions_look_at_the_value(store: FolderStore) -> None:
    """Replace and delete happen only to what the caller saw."""
    store.put("k", b"1")

    assert [store.replace_if("k", b"0", b"2"), store.replace_if("k", b"1", b"2")] == [False, True]
    assert [store.delete_if("k", b"1"), store.delete_if("k", b"2"), store.delete_if("k", b"2")] == [
        False,
        True,
        False,
    ]
    assert not store.replace_if("k", b"2", b"3")


RACER = """
import sys
from pathlib import Path
from tasks.store.folder import FolderStore
sys.exit(0 if FolderStore(Path(sys.argv[1])).replace_if("k", b"start", sys.argv[2].encode()) else 1)
"""


def test_of_many_that_replace_one_wins(store: FolderStore) -> None:
    """Compare-and-set holds between processes."""
    store.put("k", b"start")
    argv = (sys.executable, "-c", RACER, str(store.root))
    racers = [subprocess.Popen((*argv, str(number)), cwd=ROOT) for number in range(4)]

    won = [number for number, racer in enumerate(racers) if racer.wait(60) == 0]

    assert len(won) == 1
    assert store.get("k") == str(won[0]).encode()


def test_list_gives_keys_below_a_folder(store: FolderStore) -> None:
    """Sorted, without what is being written or what the store keeps for itself."""
    for key in ("g/2/a", "g/1/b", "h"):
        store.put(key, b"")
    store.probe()
    (store.root / "g" / ".tmp-1-x").write_bytes(b"half")

    assert store.list("g") == ("g/1/b", "g/2/a")
    assert store.list("") == ("g/1/b", "g/2/a", "h")
    assert store.list("absent") == ()


@pytest.mark.parametrize(
    "key", ["", "/a", "../a", "a/../b", "a//b", ".a", "a/.b", "a\n", "a/", "ä", "a" * 600]
)
def test_a_key_cannot_leave_the_store(store: FolderStore, key: str) -> None:
    """Names of files are made of few characters."""
    with pytest.raises(BadKey):
        store.put(key, b"")


def test_deleting_what_is_not_there_is_fine(store: FolderStore) -> None:
    """Idempotent."""
    store.delete("a/b")


def test_a_file_in_the_way_is_unwritable(tmp_path: Path) -> None:
    """The store's folder cannot be made: the error says what to do."""
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreUnwritable, match=r"set \[store\] path"):
        FolderStore(tmp_path / "file" / "store").probe()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    if os.geteuid():
        pytest.skip("needs root to mount")
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


def test_every_error_is_a_store_error() -> None:
    """One base for the seam."""
    assert all(issubclass(kind, StoreError) for kind in (BadKey, StoreFull, StoreUnwritable))
