"""Where a check applies, and where its own process imports it from."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from checks.catalog import CATALOG
from checks.check import GREATEST_INT, CatalogError, fault_of, imported
from checks.facts.instances import Instance, lacks
from checks.facts.withheld_kernel_log import STAND_INS
from checks.model import Declared, KernelLog, MachinePart, Profile, Scope, Skip
from tests.sample_reports import MADE_UP, toy_check

CPU = Declared("cpu", 1, 0, 1)
P5 = Declared("p5.48xlarge", 1, 8, 8)
NOTHING = Instance(0, "", MADE_UP, efa_devices=0, neuron_devices=0, nvlinks=0)
EVERYTHING = Instance(8, "H100", MADE_UP, efa_devices=32, neuron_devices=16, nvlinks=18)
UNKNOWN = Instance(8, "H100", MADE_UP)


@pytest.mark.parametrize(
    ("part", "declared", "instance", "expected"),
    [
        (MachinePart.ANY, CPU, None, None),
        (MachinePart.GPU, CPU, NOTHING, Skip.NO_GPU_DECLARED),
        (MachinePart.GPU, P5, None, None),
        (MachinePart.NO_GPU, P5, EVERYTHING, Skip.GPU_DECLARED),
        (MachinePart.NO_GPU, CPU, NOTHING, None),
        (MachinePart.NVLINK, CPU, NOTHING, Skip.NO_GPU_DECLARED),
        (MachinePart.NVLINK, P5, replace(EVERYTHING, nvlinks=0), Skip.NO_NVLINK_ON_TYPE),
        (MachinePart.NVLINK, P5, EVERYTHING, None),
        (MachinePart.EFA, P5, replace(EVERYTHING, efa_devices=0), Skip.NO_EFA_ON_TYPE),
        (MachinePart.EFA, P5, EVERYTHING, None),
        (MachinePart.NEURON, CPU, NOTHING, Skip.NO_NEURON_ON_TYPE),
        (MachinePart.NEURON, CPU, EVERYTHING, None),
    ],
)
def test_check_for_an_undeclared_part_is_skipped(
    part: MachinePart, declared: Declared, instance: Instance | None, expected: Skip | None
) -> None:
    """The reason names the part."""
    assert lacks(part, declared, instance) is expected


@pytest.mark.parametrize("part", [MachinePart.NVLINK, MachinePart.EFA])
@pytest.mark.parametrize("instance", [UNKNOWN, None])
def test_check_for_a_part_that_may_exist_is_not_skipped(part: MachinePart, instance: Instance | None) -> None:
    """A table that does not say is no excuse."""
    assert lacks(part, P5, instance) is None


def test_a_part_that_is_not_there_comes_before_the_profile() -> None:
    """A laptop's policy has no line for a GPU check, in whatever profile."""
    check = replace(toy_check(), part=MachinePart.GPU, profiles=(Profile.DEEP,))

    assert check.skip_for(CPU, Profile.QUICK, NOTHING) is Skip.NO_GPU_DECLARED
    assert check.skip_for(P5, Profile.QUICK, EVERYTHING) is Skip.NOT_IN_PROFILE
    assert check.skip_for(P5, Profile.DEEP, EVERYTHING) is None


def test_every_node_check_is_found_by_its_path() -> None:
    """Its process imports that one module, not the catalogue."""
    strays = [
        check.name for check in CATALOG if check.scope is Scope.NODE and imported(check.path) is not check
    ]

    assert not strays


@pytest.mark.parametrize(
    "path", ["no.such.module:x", "checks.model:Level", "checks.model:nothing", "checks.model"]
)
def test_catalog_rejects_an_import_that_is_no_check(path: str) -> None:
    """By name, whatever its module does."""
    with pytest.raises(CatalogError, match="check '"):
        imported(path)


def test_the_process_of_one_check_does_not_import_the_others() -> None:
    """Sixty modules for each of thirty processes a node would cost more than the checks."""
    code = (
        "import sys, checks.runner.isolated_child\n"
        "from checks.check import imported\n"
        "imported('checks.probes.host.system:clock')\n"
        "sys.exit('checks.catalog' in sys.modules or 'checks.probes.gpu' in sys.modules)"
    )
    assert subprocess.run((sys.executable, "-c", code), check=False).returncode == 0


@pytest.mark.parametrize("number", [GREATEST_INT + 1, -GREATEST_INT - 1, -(10**40)])
def test_a_whole_number_that_no_report_can_hold_is_no_measurement(number: int) -> None:
    """However far below 0 as well; alone and in a list."""
    check = toy_check()

    assert "a whole number out of range in value" == fault_of(check, {"value": number})
    assert "a whole number out of range in value" == fault_of(check, {"value": (1, number)})
    assert "" == fault_of(check, {"value": -GREATEST_INT})


@pytest.mark.parametrize("name", sorted(STAND_INS))
def test_kernel_log_substitute_runs_in_every_profile(name: str) -> None:
    """Also where its profile would leave it out, as it does where the log can be read."""
    check = replace(toy_check(name), profiles=(Profile.DEEP,))
    withheld = Declared("cpu", 1, 1, 1, kernel_log=KernelLog.WITHHELD)

    assert check.skip_for(withheld, Profile.QUICK) is None
    assert check.skip_for(replace(withheld, kernel_log=KernelLog.READABLE), Profile.QUICK) is not None
