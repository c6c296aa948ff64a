"""gpu.recovery_action: every way of not answering is not measured; what a driver is too old to say, its version tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.model import Level, worst
from checks.probes.gpu import state
from tests.corpus.gpu_machines import error, node
from tests.corpus.judging import explained

RESET = (  # of drivers from 525 to 560
    "<gpu_reset_status><reset_required>{}</reset_required>"
    "<drain_and_reset_recommended>{}</drain_and_reset_recommended></gpu_reset_status>"
)
RECORDING = Path(__file__).parents[3] / "recordings" / "gpu" / "h100_healthy.xml"


@pytest.mark.parametrize("code", [3, 15, 999])
def test_recovery_action_is_none_for_an_nvml_error_code(code: int, tmp_path: Path) -> None:
    """The value beside the return code reads 0, which would mean that nothing is wanted."""
    row = node(state.recovery_action, told={"5/field:230": error(code)})(tmp_path)[0]

    assert (0, 0, 0, 0, 0, None, 0, 0) == row.metrics["recovery_action"]


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
    text = RECORDING.read_text(encoding="utf-8")
    text = text.replace("<gpu_recovery_action>None</gpu_recovery_action>", element)
    text = text.replace("<driver_version>580.105.08<", f"<driver_version>{driver}<")
    verdict = explained(text)

    levels = [f.level for f in verdict.findings if "recovery_action" in f"{f.metric} {f.message}"]
    assert level is worst(levels)
