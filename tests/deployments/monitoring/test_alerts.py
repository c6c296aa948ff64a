"""Real Prometheus, Alertmanager, and node exporter: each fault is an alert at the webhook."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.deployments.monitoring.alert_world import INTERVAL, NODE, ROUND, World, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.root,
    pytest.mark.needs(
        "prometheus", "prometheus-alertmanager", "prometheus-node-exporter", "unshare", "ip", "nsenter"
    ),
    pytest.mark.timeout(900),
]
# What a busy machine of two cores adds to three intervals.
SLACK = 1.5


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Healthy, with every target up and nothing that fires."""
    with World(tmp_path_factory.mktemp("world")) as made:
        until("every target is up", lambda: len(made.query("up == 1")) == 4 == len(made.query("up")))
        until("the heartbeat is heard", lambda: made.told("heartbeat", "PrelaunchHeartbeat"))
        time.sleep(5 * INTERVAL)
        yield made


def healthy_again(world: World) -> None:
    """Nothing fires."""
    until(f"something still fires: {world.firing()}", lambda: not world.firing(), 90)


@pytest.fixture(autouse=True)
def _healthy_before_and_after(world: World) -> Iterator[None]:
    """Each test mends what it broke."""
    healthy_again(world)
    yield
    healthy_again(world)


def within(seconds: float, interval: float = INTERVAL) -> None:
    """Three intervals."""
    assert seconds <= 3 * interval + SLACK, f"{seconds:.1f} s"


def test_an_exporter_that_stopped(world: World) -> None:
    """Killed on one node."""
    world.end("node")
    since = time.time()
    with ExitStack() as mended:
        mended.callback(world.node_exporter)

        within(world.first_fired("PrelaunchTargetDown", since, job="node", node=NODE))
        until(
            "on-call is notified", lambda: world.told("on-call", "PrelaunchTargetDown", job="node", node=NODE)
        )


def _ended_rounds(world: World, count: int) -> None:
    """Waits until the watch that runs has ended so many rounds, by what Prometheus has of them."""
    pid = world.running["watch"].pid
    begun = time.time()
    ended = 'prelaunch_watch_rounds_total{node="node-0"}'
    until(
        f"the watch {pid} ends no round",
        lambda: any(
            float(one["value"][1]) >= count
            for one in world.query(f"{ended} and timestamp({ended}) > {begun + INTERVAL}")
        ),
    )


def test_an_xid_in_the_kernel_log(world: World) -> None:
    """Seed 001's line: an open finding within two rounds, an alert at the webhook, and still there when the log was rotated."""
    line = (
        f"{time.strftime('%b %d %H:%M:%S')} node-0 kernel: NVRM: Xid (PCI:0000:b9:00): 74, pid=<unknown>, name=<unknown>, "
        "NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)\n"
    )
    before = world.query('sum(prelaunch_watch_rounds_total{node="node-0"})')[0]["value"][1]
    since = time.time()
    with ExitStack() as mended:
        mended.callback(world.close_findings)
        with world.kernel_log.open("a") as log:
            log.write(line)
        found = 'prelaunch_finding_open{check="kernel.xid",level="FAIL",cause="HARDWARE"}'
        until("the finding is open", lambda: bool(world.query(found)))
        rounds = world.query('sum(prelaunch_watch_rounds_total{node="node-0"})')[0]["value"][1]
        assert float(rounds) <= float(before) + 3

        fired = world.first_fired(
            "PrelaunchFindingOpen", since, node=NODE, check="kernel.xid", cause="HARDWARE"
        )
        within(fired, ROUND)
        until(
            "on-call is notified", lambda: world.told("on-call", "PrelaunchFindingOpen", check="kernel.xid")
        )
        os.truncate(world.kernel_log, 0)
        time.sleep(4 * INTERVAL)
        assert world.query(found), "a log that was rotated closes nothing"
        for days in (15, 0):
            world.end("watch")
            world.watch(days)
            _ended_rounds(world, 2)
            assert world.query(found), "no clock closes a finding"
            assert any(one.startswith("PrelaunchFindingOpen/") for one in world.firing())
            # A clock that is wrong is an alert of its own.
            stale = "PrelaunchWatchStale//node-0"
            until(f"{days} days: {world.firing()}", lambda: (stale in world.firing()) == bool(days))  # noqa: B023
    os.truncate(world.kernel_log, 0)
