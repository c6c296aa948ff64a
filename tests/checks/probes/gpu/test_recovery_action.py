"""gpu.recovery_action: every way of not answering is not measured; what a driver is too old to say, its version tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.explain.reading import ReadOptions
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Cause, Level, worst
from checks.probes.gpu import state
from tasks.gate_file.references import default_policy
from tasks.reports.explain import explain_text
from tests.catalogue_reports import catalogue_report
from tests.corpus.gpu_machines import error, node
from tests.sample_reports import with_metric

RECORDING = Path(__file__).parents[3] / "recordings" / "gpu" / "h100_healthy.xml"


@pytest.mark.parametrize("code", [3, 15, 999])
def test_whatever_nvml_returns_instead_of_an_action_is_no_action(code: int, tmp_path: Path) -> None:
    """The value beside the return code reads 0, which would mean that nothing is wanted."""
    row = node(state.recovery_action, told={"5/field:230": error(code)})(tmp_path)[0]

    assert (0, 0, 0, 0, 0, None, 0, 0) == row.metrics["recovery_action"]


@pytest.mark.parametrize(
    ("value", "level", "cause"),
    [(0, None, None), (-1, Level.FAIL, Cause.EVIDENCE), (1, Level.FAIL, Cause.HARDWARE), (None, Level.FAIL, Cause.EVIDENCE)],
)  # fmt: skip
def test_each_answer_has_its_level(value: int | None, level: Level | None, cause: Cause | None) -> None:
    """A demand fails, and so does a value that is not there."""
    name, policy = "gpu.recovery_action", default_policy("p5.48xlarge")[1]
    column = (0, 0, 0, value, 0, 0, 0, 0)
    report = with_metric(catalogue_report("p5.48xlarge", 1), name, "node-0", "recovery_action", column)
    found = {(f.level, f.cause) for f in decide(report, policy, builtin()).findings if f.check == name}

    assert ({(level, cause)} if level else set()) == found


@pytest.mark.parametrize(
    ("driver", "element", "level"),
    [
        ("550.54.15", "", Level.WARN),
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
    verdict = explain_text("-", "input", text.encode(), None, None, ReadOptions()).verdict

    said = [
        f.level for f in verdict.findings if f.metric == "recovery_action" or "recovery_action" in f.message
    ]

    assert level is worst(said)
