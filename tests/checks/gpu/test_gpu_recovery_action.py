"""gpu.recovery_action: what NVML says that it does not offer is said; every other way of not answering is not measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import gpu
from checks.facts.shipped import builtin
from checks.gpu.smi import parse
from checks.model import Cause, Level
from checks.verdict import decide
from tasks.policies import default_policy
from tests.catalogue_reports import catalogue_report
from tests.corpus.gpu_machines import error, node
from tests.sample_reports import with_metric

RECORDING = Path(__file__).parents[2] / "recordings" / "gpu" / "h100_healthy.xml"


@pytest.mark.parametrize(
    ("code", "expected"), [(3, -1), (13, -1), (26, -1), (2, None), (4, None), (15, None), (25, None), (999, None)]
)  # fmt: skip
def test_only_what_nvml_does_not_have_is_not_offered(code: int, expected: int | None, tmp_path: Path) -> None:
    """Not supported, not found, deprecated: -1. A GPU that is lost, or a caller without permission: no value."""
    row = node(gpu.recovery_action, told={"5/field:230": error(code)})(tmp_path)[0]

    assert (0, 0, 0, 0, 0, expected, 0, 0) == row.metrics["recovery_action"]


@pytest.mark.parametrize(
    ("value", "level", "cause"),
    [(0, None, None), (-1, Level.WARN, Cause.EVIDENCE), (1, Level.FAIL, Cause.HARDWARE), (None, Level.FAIL, Cause.EVIDENCE)],
)  # fmt: skip
def test_each_answer_has_its_level(value: int | None, level: Level | None, cause: Cause | None) -> None:
    """A demand fails, a driver that does not say warns, and a value that is not there fails."""
    name, policy = "gpu.recovery_action", default_policy("p5.48xlarge")[1]
    column = (0, 0, 0, value, 0, 0, 0, 0)
    report = with_metric(
        catalogue_report("p5.48xlarge", 1),
        name,
        "node-0",
        "recovery_action",
        column,
    )
    found = {(f.level, f.cause) for f in decide(report, policy, builtin()).findings if f.check == name}

    assert ({(level, cause)} if level else set()) == found


@pytest.mark.parametrize(
    ("driver", "element", "expected"),
    [("550.54.15", "", -1), ("580.105.08", "", None), ("", "", None), ("55O.1", "", None),
     ("550.54.15", "<gpu_recovery_action>N/A</gpu_recovery_action>", None),
     ("550.54.15", "<gpu_recovery_action>GPU Reset</gpu_recovery_action>", 1)],
)  # fmt: skip
def test_a_document_without_the_element_says_so_by_its_drivers_version(
    driver: str, element: str, expected: int | None
) -> None:
    """A driver from 565 on prints it: where it is not there, the document was cut."""
    text = RECORDING.read_text(encoding="utf-8")
    text = text.replace("<gpu_recovery_action>None</gpu_recovery_action>", element)
    text = text.replace("<driver_version>580.105.08<", f"<driver_version>{driver}<")

    assert expected == parse(text).gpus[0].number("recovery_action")
