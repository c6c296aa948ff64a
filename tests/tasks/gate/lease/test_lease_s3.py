"""Two machines, one cluster, one bucket: the lease in S3 keeps their gates apart."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import TTL_S, HeldLease, LauncherAddress, Lease, LeaseHeld, LeaseLost
from tasks.gate.lease.owner import Owner
from tasks.store.base import Store
from tasks.store.open import open_store
from tests.tasks.store.servers import BUCKET, environment, moto

ROOT = Path(__file__).parents[4]
NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """An S3 with one bucket."""
    with moto() as url, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(url).items():
            patch.setenv(name, value)
        boto3.session.Session().client("s3").create_bucket(Bucket=BUCKET)
        yield


@pytest.fixture
def store(server: None, request: pytest.FixtureRequest) -> Store:
    """An empty one a test."""
    return open_store(f"s3://{BUCKET}/{request.node.name}")


def lease(host: str, now: float = NOW) -> Lease:
    """A lease as a gate on that machine asks for it."""
    owner = Owner(host, f"boot-of-{host} pid:[1]", 7, 5)
    return Lease(
        1,
        "c",
        f"g-{host}",
        1,
        "d",
        "g.toml",
        False,
        LauncherAddress("local", {}, "/none"),
        owner,
        now,
        now,
        now + TTL_S,
    )


def take(store: Store, wanted: Lease) -> HeldLease:
    """Acquire where no job runs."""
    return leases.acquire(store, wanted, lambda held: (), lambda held: None)


RACER = """
import sys, time
from tasks.gate.lease.lease import LeaseHeld
from tasks.store.open import open_store
from tests.tasks.gate.lease.test_lease_s3 import lease, take
store = open_store(sys.argv[1])
store.get("warm")
print("ready", flush=True)
sys.stdin.readline()
try:
    take(store, lease(sys.argv[2]))
except LeaseHeld as error:
    print(error, flush=True)
    sys.exit(1)
"""


def test_of_two_gates_that_come_at_once_one_gets_the_cluster(store: Store) -> None:
    """Two processes, as on two machines; the other one is told who holds it."""
    argv = (sys.executable, "-c", RACER, store.place("x").removesuffix("/x"))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    racers = [
        subprocess.Popen(
            (*argv, host), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        for host in ("one", "two")
    ]
    assert ["ready\n"] * 2 == [racer.stdout.readline() for racer in racers if racer.stdout]
    said = [racer.communicate("go\n")[0] for racer in racers]

    assert [0, 1] == sorted(racer.returncode for racer in racers)
    winner = ("one", "two")[[racer.returncode for racer in racers].index(0)]
    assert f"is locked by gate g-{winner}" in "".join(said)


def test_it_is_renewed_lost_and_given_back_as_in_a_folder(store: Store) -> None:
    """Elsewhere only the end of its time frees it; whoever had it notices."""
    held = leases.renew(store, take(store, lease("one")), NOW + 10)
    with pytest.raises(LeaseHeld, match="g-one"):
        take(store, lease("two", NOW + 11))
    other = take(store, lease("two", NOW + 10 + TTL_S + 1))

    with pytest.raises(LeaseLost):
        leases.renew(store, held, NOW + 20)
    leases.release(store, held)
    assert ("leases/c.json",) == store.list("leases")
    leases.release(store, other)
    assert () == store.list("leases")


def test_a_flow_run_finds_its_lease(store: Store) -> None:
    """For hooks in another process."""
    held = leases.bind_run(store, take(store, lease("one")), "run-1")

    assert held == leases.lease_of_run(store, "run-1")
    assert leases.lease_of_run(store, "run-2") is None
