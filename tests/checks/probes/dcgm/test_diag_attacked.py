"""What an attack found: failures that stand where no version of DCGM has put them yet, and what CUDA refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.check import CheckError
from checks.probes.dcgm import diag_json
from checks.probes.dcgm.diag import metrics_of

HEALTHY = Path(__file__).parents[3] / "recordings" / "dcgm" / "diag_4_r2.json"
Change = Callable[[Any, Any], None]


def changed(change: Change) -> str:
    """The healthy document after `change` of its categories and of its test "memory"."""
    whole = json.loads(HEALTHY.read_text())
    categories = whole["DCGM Diagnostic"]["test_categories"]
    [memory] = [test for row in categories for test in row["tests"] if test and test["name"] == "memory"]
    change(categories, memory)
    return json.dumps(whole)


@pytest.mark.parametrize(
    "change",
    [
        lambda categories, memory: memory["results"][3].update(errors=[{"error_id": 4, "message": "DBE"}]),
        lambda categories, memory: memory["results"][3].update(warnings={"warning": "DBE", "error_id": 4}),
        lambda categories, memory: memory["results"][3].update(sub_results=[{"status": "Fail"}]),
        lambda categories, memory: memory.update(per_link=[{"link": 3, "status": "Fail"}]),
        lambda categories, memory: categories.append(
            {"tests": [], "groups": [{"tests": [{"status": "Fail"}]}]}
        ),
    ],
    ids=["errors", "warnings as an object", "results of a result", "results of a test", "deeper categories"],
)
def test_results_in_a_place_that_is_not_known_are_not_passed_over(change: Change) -> None:
    """Every status that is read says Pass: a later version may have moved the others."""
    with pytest.raises(CheckError, match=r"no known version|unknown form"):
        diag_json.parse(changed(change))


@pytest.mark.parametrize("number", [51, 108])
def test_a_test_that_cuda_refused_is_a_failure(number: int) -> None:
    """DCGM's severity for these is MONITOR; the test has failed, and so would the job."""
    said = {"error_id": number, "error_category": 6, "error_severity": 1, "warning": "Error using CUDA API"}

    def fail(categories: Any, memory: Any) -> None:
        memory["results"][3].update(status="Fail", warnings=[said])
        memory["test_summary"]["status"] = "Fail"

    metrics = metrics_of(diag_json.parse(changed(fail)), 2, tuple(range(8)), 8)

    assert f"memory: error {number}: Error using CUDA API" == metrics["software_failures"][3]  # type: ignore[index]
