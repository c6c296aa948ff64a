"""What was captured on a real H100 (tests/recordings/h100): the stand-in for NVML agrees with it, and its report is a GO."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from checks.catalog import CATALOG, plan
from checks.documents.report import load
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Level, Outcome, Report, Skip
from checks.policy import Policy
from tasks.gate_file.references import default_policy
from tasks.render.views.nodes import State
from tasks.reports.local_check import ProgressPrinter
from tests.corpus.case import RECORDINGS_FOLDER
from tests.fakes import pynvml_fake
from tests.fakes.gpu_models import MODELS
from tests.planned_contents import with_later_checks

FOLDER = RECORDINGS_FOLDER / "h100"
NVML: dict[str, Any] = json.loads((FOLDER / "nvml.json").read_text(encoding="utf-8"))
# The machine's NVLinks are switched off in the driver, so that it has no fabric either.
MODEL = {**MODELS["H100"], "links": 0, "nvlink": 0, "fabric": None}
# NVML refuses numbers that it does not know ("Invalid Argument"), which no check asks for; the stand-in has fewer thresholds.
UNASKED = {f"nvmlDeviceGetViolationStatus:{policy}" for policy in range(6, 10)}
UNASKED |= {f"nvmlDeviceGetTemperatureThreshold:{threshold}" for threshold in (4, 5, 6, 7, 8)}


def answered(call: str) -> Any:
    """What the stand-in answers to "call:argument:argument": a value, or an error's code."""
    name, *arguments = call.split(":")
    try:
        if name == "field":
            found = pynvml_fake.nvmlDeviceGetFieldValues(0, [int(arguments[0])])[0]
            return {"error": found.nvmlReturn} if found.nvmlReturn else found.value.ullVal
        return getattr(pynvml_fake, name)(0, *map(int, arguments))
    except pynvml_fake.NVMLError as error:
        return {"error": error.value}


def test_the_stand_in_for_nvml_has_and_lacks_what_a_real_h100_has_and_lacks() -> None:
    """An answer where there is one, the same error where there is none."""
    pynvml_fake.turn(gpus=1, spec=MODEL)
    pynvml_fake.nvmlInit()
    for call in sorted({*NVML} - UNASKED - {"nvmlSystemGetDriverVersion"}):
        made, real = answered(call), NVML[call]
        refused = isinstance(real, dict) and "error" in real
        assert (made == real) if refused else not isinstance(made, dict), call


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetName", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementDefaultLimit",
        "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxClockInfo:1", "nvmlDeviceGetTemperatureThreshold:3",
        "nvmlDeviceGetEccMode", "nvmlDeviceGetMigMode", "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetRepairStatus",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ],
)  # fmt: skip
def test_the_stand_in_says_of_the_model_what_a_real_h100_says(call: str) -> None:
    """Names, limits and modes, to the number."""
    pynvml_fake.turn(gpus=1, spec=MODEL)

    assert NVML[call] == answered(call)


def recorded() -> tuple[Report, Policy]:
    report = load((FOLDER / "health_check_metrics.json").read_bytes())
    policy = default_policy("p5.4xlarge")[1]
    row = builtin().instances["p5.4xlarge"]
    return with_later_checks(report, plan(CATALOG, report.declared, report.profile, row, policy)), policy


def test_recorded_h100_fails_only_for_tools_that_were_not_installed() -> None:
    """Every check that ran on it passes the shipped policy; what lacked its tool is missing evidence."""
    report, policy = recorded()
    verdict = decide(report, policy, builtin())
    failed = [one for one in verdict.findings if one.level is Level.FAIL]
    ran = {row.check for row in report.observations if row.outcome is Outcome.MEASURED}

    assert failed and all(one.check.startswith(("dcgm.", "efa.")) for one in failed)
    assert {one.check for one in verdict.findings} - {one.check for one in failed} == {
        "dcgm.policy", "network.counters", "network.names",
    }  # fmt: skip
    assert {"compute.gemm", "compute.sdc", "compute.memory_bandwidth"} < ran
    assert {"training.step", "gpu.clocks", "kernel.xid"} < ran


def test_each_line_while_it_is_checked_says_what_the_verdict_will_say() -> None:
    """A rate that has an expected value is compared with it at once: nothing is called unknown that the verdict then passes."""
    report, policy = recorded()
    lines: list[str] = []
    ticks = ProgressPrinter(report.plan, report.declared, policy, builtin(), lines.append)
    for row in report.observations:
        ticks(row)
    marks = {line.split()[2]: line[0] for line in lines}
    warned = {row.check for row in report.observations if row.skip is Skip.TOOL_MISSING} | {"efa.counters"}

    assert {check for check, mark in marks.items() if mark != State.PASS.sign} == {
        *warned, "network.counters", "network.names",
    }  # fmt: skip


def test_a_machine_of_ones_own_with_an_h200_passes_too() -> None:
    """A type that no table has, described as docs/gate-file.md says: its rates are compared with those of its GPU, and nothing stands
    against it but the lack of dcgmi and of a name server. Described with another GPU's memory it does not pass as it is.
    """
    report = load((RECORDINGS_FOLDER / "h200" / "health_check_metrics.json").read_bytes())
    policy = default_policy("p5en.48xlarge")[1]
    found = decide(report, policy, builtin()).findings
    machine = report.declared.machine
    assert machine is not None
    other = replace(report.declared, machine=replace(machine, gpu="H100 80GB HBM3", gpu_memory_mib=81559))
    wrong = decide(replace(report, declared=other), policy, builtin())

    assert {"dcgm.policy", "dcgm.diag", "network.names"} == {one.check for one in found}
    assert ("our-h200", "H200") == (report.declared.instance_type, machine.gpu)
    assert "gpu.memory" in {one.check for one in wrong.findings}
