"""compute.memory_bandwidth: memory that loses or alters a word is found; rates count every byte moved."""

from __future__ import annotations

from unittest import mock

import pytest

from checks.probes.compute import device as devices
from checks.probes.compute import memory_bandwidth
from tests.late import Late

torch = Late("torch")
MIB = 1 << 20


def test_rates_count_two_and_three_bytes() -> None:
    """A copy reads and writes; a sum reads two and writes one (STREAM's way of counting)."""

    def timed(run: object, device: str) -> float:
        run()  # type: ignore[operator]
        return 0.001

    with mock.patch.object(memory_bandwidth, "timed", timed):
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

    with mock.patch.object(memory_bandwidth, "timed", timed):
        assert memory_bandwidth.copies(1000, "cpu", 0.0).wrong == 1000


def test_the_rates_of_a_gpu_are_those_of_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run after other work is slower there; every single run is compared as before, and counted."""
    monkeypatch.setattr(devices, "is_cuda", lambda device: True)
    monkeypatch.setattr(devices, "wait", lambda device: None)
    found = memory_bandwidth.triads(1 << 12, "cpu", 0.0)

    repeats, bursts = memory_bandwidth.LEAST_REPEATS, memory_bandwidth.BURSTS
    assert (len(found.seconds), len(found.bursts), found.wrong) == (repeats, bursts, 0)
    assert found.typical_s == sorted(found.bursts)[bursts // 2]
    monkeypatch.undo()
    alone = memory_bandwidth.triads(1 << 12, "cpu", 0.0)
    assert (alone.bursts, len(alone.seconds)) == ([], repeats)
