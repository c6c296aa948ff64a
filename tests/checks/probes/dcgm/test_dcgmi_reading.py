"""What `prelaunch explain` is told of dcgmi's output: recognised, with its lines, and never more than it says."""

from __future__ import annotations

import pytest

from checks.check import CheckError
from checks.explain.reading import Garbled, ReadOptions
from checks.model import Answer, Cause
from checks.probes.dcgm.dcgmi_reading import detect, read
from tests.corpus.case import declared, recordings_of
from tests.corpus.judging import explained

text_of = recordings_of("dcgm")
P5 = ReadOptions(declared("p5.48xlarge"))


def test_a_failure_is_shown_with_its_lines() -> None:
    """The status and the message, numbered as in the file."""
    (part,) = read(text_of("diag_4_r2_memory_fail.json"), P5).checks
    lines = part.lines["hardware_failures"].splitlines()
    numbers = [int(line.partition(":")[0]) for line in lines]
    text = text_of("diag_4_r2_memory_fail.json").splitlines()

    assert '"Fail"' in text[numbers[0] - 1]
    assert any("volatile double-bit" in text[number - 1] for number in numbers)


def test_without_a_declaration_gpus_are_not_counted() -> None:
    """Nobody said how many there should be, and the first line says so."""
    reading = read(text_of("diag_4_r2_seven_gpus.json"), ReadOptions())

    assert "gpus_missing" not in reading.checks[0].metrics and "7 GPUs (number not judged)" == reading.brief
    assert 1 == read(text_of("diag_4_r2_seven_gpus.json"), P5).checks[0].metrics["gpus_missing"]


def test_the_level_is_that_of_the_highest_test() -> None:
    """dcgmi does not say which was asked for."""
    for level in (1, 2, 3):
        assert level == read(text_of(f"diag_4_r{level}.json"), P5).checks[0].metrics["level"]


@pytest.mark.parametrize(
    "text",
    [
        "Error: Health watches not enabled. Please enable watches. \n",
        "Error: unable to establish a connection to the specified host: localhost\n",
        "Error: Diagnostic can only be performed on a homogeneous group of GPUs.\n",
        "Successfully ran diagnostic for group.\n",
        "\n".join(line for line in text_of("diag_33_r2.txt").splitlines() if "DCGM Version" not in line),
    ],
)
def test_a_refusal_is_no_result(text: str) -> None:
    """dcgmi's own words are the reason."""
    with pytest.raises((Garbled, CheckError)):
        read(text, ReadOptions())


@pytest.mark.parametrize(
    "text",
    [
        "Run dcgmi diag -r 2. It ends with Successfully ran diagnostic for group.\n",
        "See the Health Monitor Report of dcgmi health -c for it.\n",
        "job 7: Policy Information was not set\n",
        'The key "DCGM Diagnostic" holds the tests.\n',
        "Apr  9 02:00:00 h cron[7]: Error: Unable to run diagnostic\n",
    ],
)
def test_a_text_that_speaks_of_dcgmi_is_not_its_output(text: str) -> None:
    """Documentation, a job's log, a syslog."""
    assert not detect(text)


def _findings(text: str) -> dict[str, set[Cause]]:
    """The causes of the findings, by the GPU or place that each names; and the answer is never a go."""
    verdict = explained(text)
    assert verdict.answer is not Answer.GO
    found: dict[str, set[Cause]] = {}
    for finding in verdict.findings:
        for element in finding.elements if finding.cause is not Cause.EVIDENCE else ():
            found.setdefault(element, set()).add(finding.cause)
    return found


def _table(name: str, *rows: str) -> str:
    """A healthy diag with other rows for this test."""
    lines = text_of("diag_33_r2.txt").splitlines(keepends=True)
    cells = [f"| {left:<26}| {right:<47}|\n" for left, right in (row.split("|") for row in rows)]
    at = next(index for index, line in enumerate(lines) if line.startswith(f"| {name}"))
    return "".join([*lines[:at], *cells, *lines[at + 1 :]])


GPUS = {f"GPU {number}" for number in range(8)}


@pytest.mark.parametrize(
    ("status", "reason", "causes", "gpus"),
    [
        ("Fail - All", "Error using CUDA API cudaDeviceSynchronize", {Cause.CONFIGURATION}, GPUS),
        ("Fail - All", "GPU 0: Error using CUDA API cudaDeviceReset", {Cause.CONFIGURATION}, GPUS),
        ("Fail - GPUs: 2, 3", "GPU 2: Error using CUDA API x", {Cause.CONFIGURATION}, {"GPU 2", "GPU 3"}),
        ("Fail - All", "Row remapping failed", {Cause.HARDWARE}, GPUS),
        ("Fail - GPU: 4", "GPU 4: Error using CUDA API cudaMalloc", {Cause.CONFIGURATION}, {"GPU 4"}),
        ("Fail - All", "", {Cause.HARDWARE}, GPUS),
    ],
)
def test_reason_below_a_status_applies_to_all_gpus_of_its_test(
    status: str, reason: str, causes: set[Cause], gpus: set[str]
) -> None:
    """The table prints the reason of the first GPU; where it has none, the test of a part failed."""
    rows = [f"PCIe|{status}", *([f"Warning|{reason}"] if reason else [])]
    found = _findings(_table("PCIe", *rows))

    assert gpus == found.keys()
    assert all(causes == each for each in found.values())


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("Page Retirement/Row Remap", Cause.HARDWARE),
        ("Inforom", Cause.HARDWARE),
        ("Denylist", Cause.CONFIGURATION),
    ],
)
def test_a_test_of_the_deployment_that_fails_without_a_reason_is_hardware_where_it_reads_a_part(
    name: str, cause: Cause
) -> None:
    """No machine is replaced for a failed test of software."""
    assert {"the node": {cause}} == _findings(_table(name, f"{name}|Fail"))
