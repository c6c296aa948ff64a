"""The fabric's health mask, bit by bit."""

from __future__ import annotations

import pytest

from checks.probes.gpu.fabric_health import decode
from checks.probes.gpu.fields import NotPlausible
from checks.probes.gpu.under_load import decoded


def test_a_mask_of_zero_answers_nothing() -> None:
    """0 is "not supported" everywhere: no fault, and no health either."""
    assert {} == decode(0)


def test_a_healthy_mask_is_not_zero() -> None:
    """GB200 shows 0xaa: four faults that are not there."""
    expected = {"degraded_bandwidth": 0, "route_recovery": 0, "route_unhealthy": 0, "access_timeout": 0}

    assert expected == decode(0xAA)


def test_only_what_is_supported_is_answered() -> None:
    """B200 shows 0x80: one answer."""
    assert {"access_timeout": 0} == decode(0x80)


@pytest.mark.parametrize(
    ("mask", "name"),
    [
        (0x1, "degraded_bandwidth"),
        (0x4, "route_recovery"),
        (0x10, "route_unhealthy"),
        (0x40, "access_timeout"),
    ],
)
def test_each_fault_has_its_bits(mask: int, name: str) -> None:
    """1 of the two bits is the fault."""
    assert {name: 1} == decode(mask)


@pytest.mark.parametrize(("mask", "code"), [(0x100, 0), (0x200, 2), (0x500, 5), (0x800, 8), (0xF00, 15)])
def test_a_misconfiguration_keeps_its_code(mask: int, code: int) -> None:
    """1 is none; a code that is newer than this program is a fault as well."""
    assert {"misconfiguration": code} == decode(mask)


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (0x1000, {"partition_missing": 0}),
        (0x2000, {"partition_missing": 1}),
        (0x4000, {"manager_disconnected": 0}),
        (0x8000, {"manager_disconnected": 1}),
    ],
)
def test_partition_and_manager(mask: int, expected: dict[str, int]) -> None:
    """Here 2 of the two bits is the fault."""
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
