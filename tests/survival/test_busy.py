"""A healthy machine beside other work is never called broken, and a slow part is never fit. Real stress-ng, real processes."""

from __future__ import annotations

import shutil

import pytest

from tests.benchmarks.busy import CPU_CGROUPS, once
from tests.survival.faulty_network import needs_root

needs_stress = pytest.mark.skipif(shutil.which("stress-ng") is None, reason="not installed: stress-ng")
pytestmark = [pytest.mark.long, pytest.mark.timeout(300), needs_stress]


@pytest.mark.parametrize("kind", ["check", "gate"])
@pytest.mark.parametrize("workers", [2, 8])
def test_a_healthy_machine_beside_other_work(kind: str, workers: int) -> None:
    """GO, or nobody can tell and the reason is given; never a NO-GO."""
    ended = once(kind, workers)

    assert ended.answer == "go" or (ended.answer == "cannot_tell" and ended.busy), ended


@needs_root
@pytest.mark.root
def test_a_slow_link_beside_other_work_is_no_go_or_unknown() -> None:
    """It is one of three, and held to a tenth."""
    assert once("slow link", 8).answer in ("no_go", "cannot_tell")


@needs_root
@pytest.mark.root
@pytest.mark.skipif(
    not (CPU_CGROUPS / "cpu.cfs_quota_us").exists(), reason="no cgroup v1 CPU controller, whose quota is cut"
)
def test_a_cpu_quota_of_a_tenth_is_named_beside_other_work() -> None:
    """By its own limit and counters: that is configuration, and not other work."""
    ended = once("quota", 8)

    assert "no_go" == ended.answer, ended
    assert "CONFIGURATION" in ended.causes and ended.said.startswith("node-1"), ended
