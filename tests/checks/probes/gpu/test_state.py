"""Strangers on a GPU: what was seen once was there, and what could not be seen may have been."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.check import Measurement
from checks.model import Level, worst
from checks.probes.gpu import nvml, state
from checks.probes.gpu.record import Gpu
from checks.probes.gpu.state import busiest, with_processes
from tests.corpus.case import context
from tests.corpus.judging import explained
from tests.fakes import gpu_node

NAME = "utilisation_percent"


def sample(percent: int | None) -> Gpu:
    return Gpu(0, "", {}, {NAME: "Timeout (10)"}) if percent is None else Gpu(0, "", {NAME: percent})


def test_the_busiest_sample_counts() -> None:
    """A stranger that works now and then is one."""
    assert 60 == busiest([sample(0), sample(60), sample(0)], NAME).number(NAME)


def test_a_sample_that_was_not_read_leaves_nothing_proven() -> None:
    """It may have been the one."""
    found = busiest([sample(0), sample(None), sample(0)], NAME)

    assert (None, "Timeout (10)") == (found.number(NAME), found.unread[NAME])


def test_gpu_process_in_two_lists_counts_once() -> None:
    """And the evidence says which kind and how much memory."""
    both = [[4711, 5 << 20]]
    answers = {f"0/nvmlDeviceGet{kind}RunningProcesses": both for kind in ("Compute", "Graphics")}
    with gpu_node.nvml(gpu_node.module(answers=answers)), nvml.session() as module:
        found = with_processes(module, Gpu(0, "", {}))

    assert 1 == found.number("processes")
    assert "pid 4711" in found.text("listed")
    assert "compute, 5 MiB" in found.text("listed")


def test_the_number_of_gpus_must_not_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that falls off the bus between two samples leaves no whole measurement."""
    fake = gpu_node.module()
    counts = iter((8, 8, 7, 7, 7))
    monkeypatch.setattr(fake, "nvmlDeviceGetCount", lambda: next(counts))
    why = pytest.raises(nvml.NvmlError, match="changed")
    with gpu_node.nvml(fake), why:
        state.sampled(context(state.utilisation, tmp_path), lambda _: None)


def test_utilisation_check_ignores_work_that_ended_just_before(tmp_path: Path) -> None:
    """The counter is an average over up to a second, and DCGM's diagnostic ends just before."""
    fake, waited = gpu_node.module(busy=True), 0.0

    def wait(seconds: float) -> None:
        nonlocal waited
        waited += seconds
        fake.busy(waited < 1.0)

    with gpu_node.nvml(fake):
        seen = state.sampled(context(state.utilisation, tmp_path), wait)

    assert isinstance(seen, Measurement)
    assert (0,) * 8 == seen.metrics[NAME]


RESET = (  # of drivers from 525 to 560
    "<gpu_reset_status><reset_required>{}</reset_required>"
    "<drain_and_reset_recommended>{}</drain_and_reset_recommended></gpu_reset_status>"
)


@pytest.mark.parametrize(
    ("driver", "element", "level"),
    [
        ("550.54.15", "", Level.WARN),
        ("550.54.15", RESET.format("No", "N/A"), Level.PASS),
        ("550.54.15", RESET.format("N/A", "N/A"), Level.WARN),
        ("550.54.15", RESET.format("Yes", "No"), Level.FAIL),
        ("550.54.15", RESET.format("No", "Yes"), Level.FAIL),
        ("580.105.08", "", Level.FAIL),
        ("", "", Level.FAIL),
        ("550.54.15", "<gpu_recovery_action>N/A</gpu_recovery_action>", Level.FAIL),
        ("550.54.15", "<gpu_recovery_action>GPU Reset</gpu_recovery_action>", Level.FAIL),
    ],
)
def test_a_document_without_the_element_is_judged_by_its_drivers_version(
    driver: str, element: str, level: Level
) -> None:
    """A driver from 565 on prints it: where it is not there, the document was cut."""
    text = (Path(__file__).parents[3] / "recordings" / "gpu" / "h100_healthy.xml").read_text(encoding="utf-8")
    text = text.replace("<gpu_recovery_action>None</gpu_recovery_action>", element)
    text = text.replace("<driver_version>580.105.08<", f"<driver_version>{driver}<")
    verdict = explained(text)

    levels = [f.level for f in verdict.findings if "recovery_action" in f"{f.metric} {f.message}"]
    assert level is worst(levels)
