"""What a driver is too old to report is one WARN per node; what it should report and does not is missing evidence."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from checks.facts import driver_fields as table
from checks.facts.builtin import builtin
from checks.facts.driver_fields import DriverTable, FieldReader
from checks.judge import driver_age
from checks.judge.verdict import decide
from checks.model import Cause, Level, Observation, Value, Verdict
from checks.probes.gpu import nvidia_smi, nvidia_smi_reading, nvlink, nvml
from checks.value_types import version_of
from tasks.gate_file.references import default_policy
from tests.checks.probes.gpu.healthy_drivers import DRIVERS, NODE, changed, observations, report_of
from tests.corpus.gpu_machines import TYPES
from tests.corpus.judging import explained

NOTHING = (None,) * 8
OLD = "550.163.01"
H100 = Path(__file__).parents[2] / "recordings" / "gpu" / "h100_healthy.xml"
IGNORED = ("report", "facts")


@cache
def healthy(driver: str, model: str = "H100") -> tuple[Observation, ...]:
    with TemporaryDirectory() as folder:
        return observations(Path(folder), driver, model)


def judged(rows: tuple[Observation, ...], model: str = "H100", **identity: str) -> Verdict:
    shipped = default_policy(TYPES[model])[1]
    policy = replace(shipped, checks={row.check: shipped.checks[row.check] for row in rows})
    found = decide(report_of(rows, model, identity=identity), policy, builtin())
    return replace(found, findings=tuple(f for f in found.findings if f.check not in IGNORED))


def said(verdict: Verdict) -> list[tuple[Level, Cause, str]]:
    return [(f.level, f.cause, f.check) for f in verdict.findings]


def failed(verdict: Verdict) -> set[str]:
    return {f.check for f in verdict.findings if f.level is Level.FAIL and f.cause is Cause.EVIDENCE}


@pytest.mark.parametrize("model", ["H100", "A100", "T4"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_healthy_node_of_every_branch_has_one_warning_at_most(driver: str, model: str) -> None:
    """Not one for each GPU and metric; with 580 there is none."""
    found = judged(healthy(driver, model), model)

    has_all = driver.startswith("580") or (model != "H100" and driver.startswith("570"))
    assert ([] if has_all else [(Level.WARN, Cause.EVIDENCE, driver_age.NVML)]) == said(found)


def test_the_warning_names_the_values_and_the_drivers_that_report_them() -> None:
    """With the driver that the node has, and what to install."""
    (warning,) = judged(healthy(OLD)).findings

    assert NODE == warning.subject
    assert warning.message == (
        "not measured, because driver 550.163.01 is too old: gpu.recovery_action recovery_action (needs driver 565 "
        "or newer), gpu.ecc channel_repair_pending, gpu.ecc tpc_repair_pending (needs driver 580 or newer)"
    )
    assert "Install driver 580 or newer" in warning.remedy


def test_a_b200_of_570_lacks_what_580_added() -> None:
    """The summary of its fabric's health among it; its other answers are there."""
    (warning,) = judged(healthy("570.133.20", "B200"), "B200").findings

    assert Level.WARN is warning.level
    said = "gpu.ecc tpc_repair_pending, gpu.fabric fabric_summary (needs driver 580 or newer)"
    assert said in warning.message


@pytest.mark.parametrize(
    ("check", "metric"),
    [
        ("gpu.ecc", "tpc_repair_pending"),
        ("gpu.recovery_action", "recovery_action"),
        ("gpu.row_remap", "banks_none"),
    ],
)
def test_from_its_driver_on_a_missing_value_is_missing_evidence(check: str, metric: str) -> None:
    """580 reports all of them."""
    assert {check} == failed(judged(changed(healthy("580.105.08"), check, **{metric: NOTHING})))


def test_old_driver_does_not_excuse_a_metric_that_every_driver_reports() -> None:
    """The histogram of spare rows is older than any driver that AWS's images have."""
    rows = changed(healthy(OLD), "gpu.row_remap", banks_none=NOTHING, banks_low=NOTHING)
    assert {"gpu.row_remap"} == failed(judged(rows))


def test_missing_value_on_one_gpu_is_not_excused_by_the_driver() -> None:
    """The others show that the driver knows it."""
    one = (0, 0, 0, None, 0, 0, 0, 0)

    assert {"gpu.ecc"} == failed(judged(changed(healthy(OLD), "gpu.ecc", channel_repair_pending=one)))


def test_a_value_that_is_there_counts_whatever_the_driver() -> None:
    """A branch may have got a field later than its first release."""
    found = judged(changed(healthy(OLD), "gpu.recovery_action", recovery_action=(0, 0, 2, 0, 0, 0, 0, 0)))

    of_it = [one for one in said(found) if one[2] == "gpu.recovery_action"]
    assert [(Level.FAIL, Cause.HARDWARE, "gpu.recovery_action")] == of_it


@pytest.mark.parametrize("driver", [(None,), ("",), ("55O.163",), ("440.33.01",), ("0.0",), ("1",)])
def test_without_a_known_driver_nothing_is_excused(driver: Value) -> None:
    """Missing, unreadable, or older than any that was looked into."""
    rows = changed(healthy(OLD), "gpu.inventory", driver=driver)

    assert {"gpu.ecc", "gpu.recovery_action"} <= failed(judged(rows))


def test_a_report_without_an_inventory_excuses_nothing() -> None:
    """NVML's own word on its driver is not there; the kernel's alone may be of another machine."""
    rows = tuple(row for row in healthy(OLD) if row.check != "gpu.inventory")

    assert {"gpu.ecc", "gpu.recovery_action"} == failed(judged(rows, driver=OLD))


@pytest.mark.parametrize("identity", ["580.105.08", "570.13x"])
def test_a_claim_of_an_old_driver_does_not_outweigh_the_kernel(identity: str) -> None:
    """The newest source counts, and one that cannot be read spoils the excuse."""
    assert {"gpu.ecc", "gpu.recovery_action"} <= failed(judged(healthy(OLD), driver=identity))
    assert not failed(judged(healthy(OLD), driver=OLD))


def test_dcgms_word_counts_too() -> None:
    """It reads the version by itself."""
    given = (["550.163.01", "580.65.06", "", "550.163.01"], ["", ""], [None, "550.1"])

    assert ["580.65.06", "", ""] == [driver_age.newest(one) for one in given]


def test_versions_are_numbers_and_not_text() -> None:
    """1000 is newer than 580, and 550.9 older than 550.54."""
    assert (1000, 1) > (580,) and version_of("550.9") < version_of("550.54")  # type: ignore[operator]
    assert (550, 163, 1) == version_of("550.163.01")
    assert [None] * 6 == [version_of(text) for text in ("", "v550", "550.", "550.54.15-1", "0550", 550)]


def test_every_field_that_is_read_has_its_driver() -> None:
    """Through NVML and in nvidia-smi's document, and each metric that a rule looks at."""
    found: DriverTable = table.builtin()
    of_nvml, of_smi = {row.field for row in found.nvml}, {row.field for row in found.nvidia_smi}
    unlisted = ("reason_", "sram_parity", "sram_secded")
    shown = {name for name in nvidia_smi.FIELDS if not name.startswith(unlisted)}

    assert set(nvml.READERS) | set(nvlink.nvlink.metrics) - {"gpus"} <= of_nvml
    assert shown | {"processes", "graphics_mib", "pci"} <= of_smi
    assert len(of_nvml) == len(found.nvml) and len(of_smi) == len(found.nvidia_smi)
    assert set(nvidia_smi_reading.SIMPLE) <= {check for row in found.nvml for check in row.checks}


def test_the_oldest_row_bounds_what_is_known() -> None:
    """Of drivers below it nothing is excused, and of the newest nothing is missing."""
    found = table.builtin()

    assert not found.unknown_to((449,), "gpu.ecc", FieldReader.NVML)
    assert found.unknown_to((450,), "gpu.ecc", FieldReader.NVML)
    assert not found.unknown_to((615, 1), "gpu.fabric", FieldReader.NVML)
    assert not found.unknown_to(None, "gpu.fabric", FieldReader.NVML)


@pytest.mark.parametrize("driver", DRIVERS)
def test_nvidia_smis_document_of_every_branch_has_one_warning_at_most(driver: str) -> None:
    """An H100's, constructed: the elements that came later are taken out of that of 580."""
    later = {"channel_repair_pending": (580,), "tpc_repair_pending": (580,), "gpu_recovery_action": (565,)}
    text = H100.read_text(encoding="utf-8").replace("580.105.08", driver)
    for element, first in later.items():
        if (version_of(driver) or ()) < first:
            text, taken = re.subn(rf"\s*<{element}>[^<]*</{element}>", "", text)
            assert taken
    verdict = explained(text)

    expected = [] if driver.startswith("580") else [(Level.WARN, Cause.EVIDENCE, driver_age.NVML)]
    assert expected == said(verdict)


@pytest.mark.parametrize("element", ["channel_repair_pending", "gpu_recovery_action"])
def test_an_element_that_its_driver_prints_and_that_is_gone_was_cut(element: str) -> None:
    """The same document of 580 without it."""
    text = re.sub(rf"\s*<{element}>[^<]*</{element}>", "", H100.read_text(encoding="utf-8"))

    assert Level.FAIL is explained(text).level
