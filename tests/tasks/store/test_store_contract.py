"""What every store promises, over a folder and over S3 (moto, over HTTP)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest

from tasks.store.base import BadKey, Store
from tasks.store.open import open_store
from tests.tasks.store.servers import BUCKET, moto, named


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An S3 with one bucket; this process's environment names it."""
    with moto() as url, named(url):
        boto3.session.Session().client("s3").create_bucket(Bucket=BUCKET)
        yield url


@pytest.fixture(params=["folder", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "folder":
        return str(tmp_path / "store")
    request.getfixturevalue("server")
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/store"


@pytest.fixture
def store(address: str) -> Store:
    """The store."""
    return open_store(address)


def test_store_returns_the_value_that_was_put(store: Store) -> None:
    """Also where it replaces something, and every byte of it."""
    every = bytes(range(256)) * 5000
    store.put("a/b.json", b"1")
    store.put("a/b.json", every)

    assert (store.get("a/b.json"), store.get("a/c.json")) == (every, None)


def test_place_is_for_people(store: Store, address: str) -> None:
    """The store's address and the key."""
    assert f"{address}/a/b.json" == store.location("a/b.json")


def test_put_if_absent_sets_only_once(store: Store) -> None:
    """The second one is told so, and changes nothing."""
    assert [True, False] == [store.put_if_absent("k", b"1"), store.put_if_absent("k", b"2")]
    assert b"1" == store.get("k")


def test_conditions_look_at_the_value(store: Store) -> None:
    """Replace and delete happen only to what the caller saw."""
    store.put("k", b"1")

    assert [False, True] == [store.replace_if("k", b"0", b"2"), store.replace_if("k", b"1", b"2")]
    done = [store.delete_if("k", b"1"), store.delete_if("k", b"2"), store.delete_if("k", b"2")]
    assert [False, True, False] == done
    assert not store.replace_if("k", b"2", b"3")
    store.delete("k")


@pytest.mark.parametrize("how", ["put", "replace"])
def test_store_lets_one_of_several_writers_win(store: Store, address: str, how: str) -> None:
    """Put-if-absent and compare-and-set hold between those who opened the store on their own, as processes do."""
    if how == "replace":
        store.put("k", b"start")
    begin = threading.Barrier(4)

    def race(mine: bytes) -> bool:
        own = open_store(address)
        own.get("warm")
        begin.wait(60)
        return own.put_if_absent("k", mine) if how == "put" else own.replace_if("k", b"start", mine)

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(race, (b"a", b"b", b"c", b"d")))

    assert [False] * 3 + [True] == sorted(done)
    assert b"abcd"[done.index(True) :][:1] == store.get("k")


def test_list_gives_keys_below_a_folder(store: Store) -> None:
    """Sorted; a key is not below itself, and "g2" not below "g"."""
    for key in ("g/2/a", "g/1/b", "g2", "h", "k"):
        store.put(key, b"")
    store.probe()

    assert ("g/1/b", "g/2/a") == store.list("g")
    assert ("g/1/b", "g/2/a", "g2", "h", "k") == store.list("")
    assert () == store.list("absent")


@pytest.mark.parametrize(
    "key", ["", "/a", "../a", "a/../b", "a//b", ".a", "a/.b", "a\n", "a/", "ä", "a" * 600]
)
def test_a_key_cannot_leave_the_store(store: Store, key: str) -> None:
    """Names are made of few characters."""
    for method in (store.get, store.delete, store.location):
        with pytest.raises(BadKey):
            method(key)
    with pytest.raises(BadKey):
        store.put(key, b"")
    with pytest.raises(BadKey):
        store.put_if_absent(key, b"")


def test_a_probe_leaves_nothing(store: Store) -> None:
    """It proves that values can be kept, and keeps none."""
    store.probe()

    assert () == store.list("")
