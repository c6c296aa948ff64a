"""compute.memory_bandwidth: memory that loses or alters a word is found; rates count every byte moved."""

from __future__ import annotations

from unittest import mock

import pytest

from checks.check import CheckError, fault_of
from checks.probes.compute import memory_bandwidth
from tests.late import Late

torch = Late("torch")
MIB = 1 << 20


def test_this_machine_keeps_what_is_written() -> None:
    """Nothing wrong, and all that the check promises."""
    metrics = memory_bandwidth.measure("cpu", MIB, 0.0).metrics

    assert fault_of(memory_bandwidth.memory_bandwidth, metrics) == ""
    assert metrics["wrong_words"] == 0
    assert metrics["repeats"] == 2 * memory_bandwidth.LEAST_REPEATS


def test_rates_count_two_and_three_bytes() -> None:
    """A copy reads and writes; a sum reads two and writes one (STREAM's way of counting)."""

    def timed(run: object, device: str) -> float:
        run()  # type: ignore[operator]
        return 0.001

    with mock.patch.object(memory_bandwidth, "_timed", timed):
        metrics = memory_bandwidth.measure("cpu", MIB, 0.0).metrics

    assert metrics["copy_gbps"] == pytest.approx(2 * MIB / 1e6)
    assert metrics["triad_gbps"] == pytest.approx(3 * MIB / 1e6)


@pytest.mark.parametrize("count", [1000, 1021 * 127, 1021 * 127 + 1, 300_000])
def test_sums_are_known_by_index(count: int) -> None:
    """Below, at and past the period of the two remainders; one wrong or NaN element counts once."""
    index = torch.arange(count)
    total = (index % 1021 + 3 * (index % 127)).float()
    assert memory_bandwidth._wrong_sums(total) == 0

    total[count - 1] += 1
    total[0] = float("nan")
    assert memory_bandwidth._wrong_sums(total) == 2


def test_an_old_copy_is_wrong_everywhere() -> None:
    """A copy that is skipped once leaves the complement."""
    calls = 0

    def timed(run: object, device: str) -> float:
        nonlocal calls
        calls += 1
        if calls != 2:
            run()  # type: ignore[operator]
        return 0.001

    with mock.patch.object(memory_bandwidth, "_timed", timed):
        assert memory_bandwidth.copies(1000, "cpu", 0.0).wrong == 1000


def test_too_little_memory_is_said() -> None:
    """With the numbers, before anything is allocated."""
    with (
        mock.patch("torch.cuda.mem_get_info", lambda device: (10**9, 80 * 10**9)),
        pytest.raises(CheckError, match=r"cuda:3 has 1\.0 of 80\.0 GB free, but 4\.3 GB are needed"),
    ):
        memory_bandwidth.measure("cuda:3", 1 << 30, 0.0)


def test_the_events_of_a_gpu_are_believed_only_near_the_hosts_clock() -> None:
    """A device whose own clock runs slow, stands still or answers nonsense must not look faster than the host saw it."""
    assert memory_bandwidth.credible(0.95, 1.0) == 0.95
    assert memory_bandwidth.credible(0.001, 1.0) == 0.8 == memory_bandwidth.credible(0.0, 1.0)
    assert memory_bandwidth.credible(float("nan"), 1.0) == 0.8 == memory_bandwidth.credible(-5.0, 1.0)
