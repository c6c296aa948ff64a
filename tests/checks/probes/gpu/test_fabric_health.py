"""The fabric's health mask, bit by bit."""

from __future__ import annotations

import pytest

from checks.probes.gpu.fabric_health import decode
from checks.probes.gpu.fields import NotPlausible
from checks.probes.gpu.under_load import decoded

WELL = {"degraded_bandwidth": 0, "route_recovery": 0, "route_unhealthy": 0, "access_timeout": 0}


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (0, {}),  # "not supported" everywhere: no fault, and no health either
        (0xAA, WELL),  # as GB200 shows it
        (0x80, {"access_timeout": 0}),  # as B200 shows it
        (0x1, {"degraded_bandwidth": 1}),
        (0x4, {"route_recovery": 1}),
        (0x10, {"route_unhealthy": 1}),
        (0x40, {"access_timeout": 1}),
        (0x100, {"misconfiguration": 0}),
        (0x200, {"misconfiguration": 2}),
        (0xF00, {"misconfiguration": 15}),  # a code that is newer than this program
        (0x1000, {"partition_missing": 0}),
        (0x2000, {"partition_missing": 1}),
        (0x4000, {"manager_disconnected": 0}),
        (0x8000, {"manager_disconnected": 1}),
    ],
)
def test_each_answer_has_its_bits(mask: int, expected: dict[str, int]) -> None:
    """1 of two bits is a fault, but 2 of partition and manager; what is not supported is not answered."""
    assert expected == decode(mask)


@pytest.mark.parametrize("mask", [0x3, 0x30, 0xC0, 0x3000, 0xC000])
def test_a_value_without_meaning_is_refused(mask: int) -> None:
    """3 is neither yes nor no."""
    with pytest.raises(NotPlausible, match="has no value 3"):
        decode(mask)


def test_clock_events_are_decoded_bit_by_bit() -> None:
    """A bit without a name is shown as it is."""
    assert "software power cap, sw_thermal, hw_power_brake, 0x800" == decoded(0x4 | 0x20 | 0x80 | 0x800)
    assert "none" == decoded(0)
