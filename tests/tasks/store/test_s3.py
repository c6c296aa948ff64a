"""S3 on its bad days: answers that are lost, "later", "no", nobody there, and conditions that nobody heeds."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator

import boto3
import pytest

from tasks.store import s3
from tasks.store.aws import AwsTimeouts
from tasks.store.base import BadAddress, StoreError, StoreMissing, StoreUnreachable, StoreUnwritable
from tasks.store.open import absolute, open_store
from tasks.store.s3 import S3Store
from tests.fakes.serving import serving
from tests.tasks.store.servers import BUCKET, SECRET, Flaky, moto, named


@pytest.fixture(scope="module")
def proxy() -> Iterator[Flaky]:
    """A proxy before an S3 with one bucket; this process's environment names the proxy."""
    with moto() as behind, serving(Flaky(behind)) as made, named(made.url):
        boto3.session.Session().client("s3").create_bucket(Bucket=BUCKET)
        yield made


@pytest.fixture
def server(proxy: Flaky) -> Flaky:
    """The proxy, without a fault yet."""
    proxy.faults, proxy.always, proxy.dies_at, proxy.seen = [], "ok", "nothing", []
    return proxy


@pytest.fixture
def store(server: Flaky) -> S3Store:
    """An empty store."""
    return S3Store(BUCKET, uuid.uuid4().hex, AwsTimeouts(connect_s=10, read_s=10, deadline_s=30))


def test_what_was_throttled_or_cut_is_tried_again(server: Flaky, store: S3Store) -> None:
    """The value is kept all the same, and half a report is none."""
    server.faults = ["slow", "slow"]
    store.put("k", b"12345678" * 100)

    assert ["PUT slow", "PUT slow", "PUT ok"] == server.seen
    server.faults = ["cut"]
    assert b"12345678" * 100 == store.get("k")


def test_s3_writer_that_came_first_wins_though_the_answer_was_lost(server: Flaky, store: S3Store) -> None:
    """The second attempt finds the object of the first, and says that it is its own. Where somebody else was there first, also with
    the same value, a lost answer makes no winner.
    """
    server.faults = ["lost"]

    assert store.put_if_absent("k", b"same")
    assert ["PUT lost", "PUT ok", "HEAD ok"] == server.seen
    store.put("other", b"same")
    server.faults = ["lost"]
    assert not store.put_if_absent("other", b"same")


def test_a_change_whose_answer_was_lost_has_happened(server: Flaky, store: S3Store) -> None:
    """A lease that was renewed is not given up for a connection; one that was removed is there no more."""
    store.put("k", b"1")
    server.faults = ["ok", "lost"]
    assert store.replace_if("k", b"1", b"2") and b"2" == store.get("k")

    server.faults = ["ok", "lost"]
    assert store.delete_if("k", b"2") and store.get("k") is None


@pytest.mark.parametrize("call", ["put", "get", "put_if_absent", "list", "delete", "probe"])
def test_an_outage_ends_at_the_deadline(server: Flaky, store: S3Store, call: str) -> None:
    """Unreachable, with the remedy; never a value that is not there."""
    server.always = "slow"
    given = {"put": ("k", b"1"), "put_if_absent": ("k", b"1"), "get": ("k",), "list": ("",), "delete": ("k",)}

    with pytest.raises(StoreUnreachable, match=r"SlowDown.*AWS_ENDPOINT_URL"):
        getattr(S3Store(BUCKET, "x", AwsTimeouts(0.5, 0.5, 0.3)), call)(*given.get(call, ()))


def test_a_silent_server_ends_at_the_deadline(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts the connection and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(StoreUnreachable, match="Read timeout"):
            S3Store(BUCKET, "x", AwsTimeouts(0.3, 0.3, 0.5)).probe()


def test_s3_store_without_a_server_is_unreachable_and_hides_passwords(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connection refused; a password in the endpoint's URL stays out of the message."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://me:hunter22@127.0.0.1:9")

    with pytest.raises(StoreUnreachable) as caught:
        S3Store(BUCKET, "x", AwsTimeouts(0.3, 0.3, 0.1)).put("k", b"")

    assert "hunter22" not in str(caught.value)


def test_a_bucket_that_is_not_there(server: Flaky) -> None:
    """Said with the remedy, by reading, listing and writing alike."""
    store = S3Store("no-such-bucket", "x")

    for call in (store.probe, lambda: store.get("k"), lambda: store.list("")):
        with pytest.raises(StoreMissing, match="Create it"):
            call()


def test_no_permission_is_unwritable_at_once_and_no_absence(server: Flaky, store: S3Store) -> None:
    """Nothing is tried again; the permissions that it takes are named, the secret is not. A PASS or lease that may not be read is not
    one that is not there.
    """
    server.always = "denied"

    with pytest.raises(StoreUnwritable, match="s3:PutObject") as caught:
        store.put("k", b"")

    assert ["PUT denied"] == server.seen and SECRET not in str(caught.value)
    for call in (lambda: store.get("k"), lambda: store.list("")):
        with pytest.raises(StoreUnwritable):
            call()


def test_no_credentials_is_unwritable(server: Flaky, store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ways to give some."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    with pytest.raises(StoreUnwritable, match="AWS_PROFILE"):
        store.put("k", b"")


def test_an_endpoint_that_ignores_conditions_is_refused(server: Flaky, store: S3Store) -> None:
    """Two gates could hold one cluster: the probe finds out before anything starts."""
    server.faults = ["ok", "blind"]
    with pytest.raises(StoreError, match="ignores If-None-Match on PutObject: two gates"):
        store.probe()

    server.always = "blind"
    with pytest.raises(StoreError, match=r"If-Match on PutObject and If-Match on DeleteObject"):
        store.probe()


def test_more_than_a_page_is_listed(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 lists so many keys at a time; what lies on the third page is there, too."""
    monkeypatch.setattr(s3, "PAGE_KEYS", 2)
    for number in range(5):
        store.put(f"g/{number}", b"")

    assert ("g/0", "g/1", "g/2", "g/3", "g/4") == store.list("g")


@pytest.mark.parametrize(
    "address",
    ["s3://", "s3:///x", "s3://B!/x", "s3://me:secret99@bucket/x", "s3://bucket/a b", "gs://b/x", "S3://b/x"],
)
def test_store_address_of_another_kind_is_refused_without_passwords(address: str) -> None:
    """No folder called "gs:" is made; nothing that looks like a password is repeated."""
    with pytest.raises(BadAddress) as caught:
        open_store(address)

    assert "secret99" not in str(caught.value)


def test_an_address_means_the_same_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook in another process finds the same store."""
    monkeypatch.chdir("/tmp")

    assert ["/tmp/x", "s3://bucket/a"] == [absolute("x"), absolute("s3://bucket/a/")]
