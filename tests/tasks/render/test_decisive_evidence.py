"""What decides stands above what may be cut; numbers agree; a page holds no value of Python's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks.judge.rules.wording import quantity
from checks.model import Answer, Cause, Finding, Level
from checks.probes.host.system import resource_evidence
from tasks.render.findings import decisive_first, gathered
from tasks.render.terminal import EVIDENCE_LINES, MOST_WHOLE, missing_lines, parted, terminal
from tests.sample_reports import healthy, verdict_of
from tests.tasks.render.test_missing_text import missing

GPUS = tuple(f"GPU {number} (0000:{number:02x}:00.0)" for number in range(16))


@pytest.mark.parametrize("bad", [("GPU 7 (0000:07:00.0)",), GPUS[8:12]])
@pytest.mark.parametrize("head", ["", "DCGM 4.2.3, driver 570.133.20\n"])
def test_the_elements_of_the_finding_stand_above_the_others(bad: tuple[str, ...], head: str) -> None:
    evidence = head + "\n".join(f"{gpu}: persistence=1\n    a line of {gpu[:6]}" for gpu in GPUS)
    finding = Finding(
        Level.FAIL, Cause.HARDWARE, "gpu.modes", "node-0", "has it off", evidence, "", elements=bad
    )

    shown = gathered([finding])[0].evidence[0][1].splitlines()

    assert shown[: 2 * len(bad) : 2] == [f"{gpu}: persistence=1" for gpu in bad]
    assert sorted(shown) == sorted(evidence.splitlines())
    assert all(gpu in "\n".join(shown[:EVIDENCE_LINES]) for gpu in bad)


@pytest.mark.parametrize("elements", [(), ("fp32",), ("GPU 1",)])
def test_evidence_that_names_no_element_keeps_its_order(elements: tuple[str, ...]) -> None:
    text = "GPU 10: 1\nGPU 12: 2\n  GPU 13: 3"

    assert text == decisive_first(text, elements)


@pytest.mark.parametrize("notes", [0, 3])
def test_the_headline_and_the_list_count_alike(notes: int) -> None:
    findings = [missing(f"own.check{number}", "node-0", f"reason {number}") for number in range(12)]
    findings += [missing(f"note.{number}", "node-0", f"note {number}", Level.PASS) for number in range(notes)]
    verdict = replace(
        verdict_of(healthy()), level=Level.FAIL, answer=Answer.CANNOT_TELL, findings=tuple(findings)
    )
    _, others = parted(gathered(verdict.findings))

    assert "(and 11 more findings)" in terminal(None, verdict, "gate", 140)
    assert f"for {11 - MOST_WHOLE} other reasons:" in missing_lines(others)[0]


@pytest.mark.parametrize("count", [12_345_678, 16_000_000, 1_999_999_999, 2_000_000_000_000, 900])
def test_resource_evidence_formats_quantities_as_the_sentence_does(count: int) -> None:
    names = ("memory_available_bytes", "memory_limit_bytes", "disk_free_bytes", "shm_free_bytes", "shm_bytes")
    evidence = resource_evidence(dict.fromkeys(names, count), Path("/scratch"), 4)

    assert evidence.count(quantity(count, "B")) == len(names)
