"""The stand-in for pynvml is no invention: its names, constants and records are those of the real module."""

from __future__ import annotations

import ctypes
import inspect

import pynvml
import pytest

from checks.probes.gpu import fabric_health, fields
from checks.probes.gpu.fabric_health import decode
from checks.probes.gpu.fields import NotPlausible
from checks.probes.gpu.under_load import decoded
from tests.fakes import gpu_node

FAKE = gpu_node.module()
NAMES = [name for name in vars(FAKE) if name.lower().startswith(("nvml", "c_nvml"))]


def test_every_name_is_a_real_one() -> None:
    """A check that works with the stand-in finds the same names on a node."""
    assert len(NAMES) > 50
    assert [] == [name for name in NAMES if not hasattr(pynvml, name)]


def test_constants_are_the_real_ones() -> None:
    """Codes, sensors, link counts, versions of records."""
    numbers = [name for name in NAMES if isinstance(getattr(FAKE, name), int)]

    assert {n: getattr(pynvml, n) for n in numbers} == {n: getattr(FAKE, n) for n in numbers}


def test_functions_take_what_the_real_ones_take() -> None:
    """As many arguments; names are the binding's own matter."""
    calls = [name for name in NAMES if inspect.isfunction(getattr(FAKE, name))]
    counts = {n: len(inspect.signature(getattr(FAKE, n)).parameters) for n in calls}
    real = {n: len(inspect.signature(inspect.unwrap(getattr(pynvml, n))).parameters) for n in calls}

    assert {n: c for n, c in counts.items() if c > real[n]} == {}


@pytest.mark.parametrize(
    "name", ["GpuFabricInfo", "GpuFabricInfo_v2", "GpuFabricInfo_v3", "EccSramErrorStatus_v1"]
)
def test_records_have_the_real_fields(name: str) -> None:
    """In their order and of their size."""
    real, fake = (getattr(module, f"c_nvml{name}_t") for module in (pynvml, FAKE))

    assert ctypes.sizeof(real) == ctypes.sizeof(fake)
    assert {field[0] for field in real._fields_} == {field[0] for field in fake._fields_}


def test_every_field_is_read_of_a_healthy_gpu() -> None:
    """The fields of READERS name calls that exist, with arguments that fit."""
    fake = gpu_node.module()
    fake.nvmlInit()
    left = {name for name in fields.READERS if _fails(fake, fields.READERS[name])}

    assert {"retired_single_bit", "retired_double_bit", "retire_pending"} == left


def test_field_numbers_are_those_of_the_header() -> None:
    """Numbers are used, since older bindings lack the names."""
    assert pynvml.NVML_FI_DEV_MEMORY_TEMP == fields.FIELD_MEMORY_TEMPERATURE
    assert pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION == fields.FIELD_RECOVERY_ACTION
    assert {0: "DEGRADED_BW", 2: "ROUTE_RECOVERY", 4: "ROUTE_UNHEALTHY", 6: "ACCESS_TIMEOUT_RECOVERY"} == {
        getattr(pynvml, f"NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_{name}"): name
        for name in ("DEGRADED_BW", "ROUTE_RECOVERY", "ROUTE_UNHEALTHY", "ACCESS_TIMEOUT_RECOVERY")
    }
    misconfigured = pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION
    assert misconfigured == fabric_health.MISCONFIGURATION_BIT
    assert pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_GFM_STATE == fabric_health.BITS["manager_disconnected"][0]


def _fails(fake: object, reader: fields.Reader) -> bool:
    try:
        reader(fake, 0)
    except fake.NVMLError:  # type: ignore[attr-defined]
        return True
    return False


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
