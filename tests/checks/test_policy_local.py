"""The local policy's bounds: what an ordinary container shows passes, and each line says no beyond its bound."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.local_policy import findings, verdicts
from tests.checks.proc_trees import GIB

# What an ordinary container shows: two CPUs, 4 GiB, Docker's /dev/shm, Linux's default limits.
GOOD: dict[str, dict[str, Any]] = {
    "system.resources": {
        "memory_available_bytes": 4 * GIB,
        "cpus": 2.0,
        "disk_free_bytes": 20 * GIB,
        "inodes_free_fraction": 0.5,
        "shm_free_bytes": 64 << 20,
        "nofile": 1024,
        "pids_limit": 4096,
    },
    "system.clock": {"wall_rate": 1.0, "year": 2026, "clocksource": "tsc"},
    "system.identity": dict.fromkeys(
        ("torch", "driver", "architecture", "kernel", "python", "cpu_model"), "1"
    ),
}


@pytest.mark.parametrize(
    ("check", "metric", "good", "bad"),
    [
        ("system.resources", "memory_available_bytes", 2_000_000_000, 1_999_999_999),
        ("system.resources", "cpus", 1.0, 0.9),
        ("system.resources", "disk_free_bytes", 500_000_000, 499_999_999),
        ("system.resources", "inodes_free_fraction", 0.01, 0.009),
        ("system.resources", "shm_free_bytes", 16_000_000, 15_999_999),
        ("system.resources", "nofile", 1024, 1023),
        ("system.resources", "pids_limit", 256, 255),
        ("system.clock", "wall_rate", 0.91, 0.89),
        ("system.clock", "wall_rate", 1.09, 1.11),
        ("system.clock", "year", 2026, 2025),
    ],
)
def test_the_bounds_of_the_local_policy(check: str, metric: str, good: float, bad: float) -> None:
    """A value on either side of each."""
    assert verdicts(check, {**GOOD[check], metric: good}) == []
    assert verdicts(check, {**GOOD[check], metric: bad}) == [("FAIL", "CONFIGURATION", metric)]


@pytest.mark.parametrize(
    ("check", "metric", "level"),
    [
        ("system.identity", "torch", "FAIL"),
        ("system.identity", "driver", "FAIL"),
        ("system.identity", "architecture", "FAIL"),
        ("system.identity", "kernel", "WARN"),
        ("system.identity", "python", "WARN"),
        ("system.identity", "cpu_model", "WARN"),
        ("system.clock", "clocksource", "WARN"),
    ],
)
def test_drift_between_nodes(check: str, metric: str, level: str) -> None:
    """Equal everywhere is nothing; one that differs from two is named."""
    good = GOOD[check]
    found = findings(check, good, {**good, metric: "another"}, good)

    assert verdicts(check, good, good, good) == []
    assert [(f.level.value, f.cause.value) for f in found] == [(level, "CONFIGURATION")]
    assert metric == found[0].metric
    assert found[0].message.endswith(f" is another, but on 2 of 3 it is {good[metric]}")


@pytest.mark.parametrize(
    ("metric", "bad", "cause"),
    [("other_catalogues", 1, "CONFIGURATION"), ("rendezvous", "timed out", "EVIDENCE")],
)
def test_the_network_lines_of_the_local_policy(metric: str, bad: int | str, cause: str) -> None:
    """Another catalogue is a mistake; an unreached rendezvous is no fault of this node's hardware."""
    good: dict[str, Any] = {"other_catalogues": 0, "rendezvous": "ok"}

    assert verdicts("network.reachability", good) == []
    assert verdicts("network.reachability", {**good, metric: bad}) == [("FAIL", cause, metric)]
