"""Every case of the fault corpus: healthy passes, faulty and unmeasurable never do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checks import catalog
from checks.facts.builtin import builtin
from checks.model import Cause, Level, worst
from tests.corpus.case import Case, RecordProperty, Sort, of_all_families
from tests.corpus.judging import verdict_of

# A dictionary or a dataclass of Python, or a number with all its digits: nothing for people.
RAW = re.compile(r"\{'\w|\d\.\d{10,}|\b[A-Z]\w+\(\w+=")
CASES: list[Case] = of_all_families("CASES")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}-{case.sort.value}-{case.name}")
def test_the_case_is_judged_as_it_should(case: Case, tmp_path: Path, record_property: RecordProperty) -> None:
    """Healthy is PASS; faulty has its finding; unmeasurable is never PASS, and blames no hardware."""
    findings = verdict_of(case, tuple(case.observe(tmp_path))).findings
    said = "\n".join(f"{f.level.value} {f.cause.value} {f.message}\n{f.evidence[:500]}" for f in findings)
    level = worst([finding.level for finding in findings])
    record_property("corpus", [case.check, case.sort.value, level.value])
    # The evidence of mounts.responsive has the program of the fake that stands in for a mount.
    if case.check != "mounts.responsive":
        assert not RAW.search("\n".join(f"{f.message}\n{f.evidence}" for f in findings)), said
    if case.sort is Sort.HEALTHY:
        assert level is Level.PASS, said
        return
    assert level is not Level.PASS, f"it would have passed{_not_applicable(case)}"
    if case.sort is Sort.UNMEASURABLE:
        assert {finding.cause for finding in findings} == {Cause.EVIDENCE}, said
        return
    fitting = [f for f in findings if (f.level, f.cause) == (case.level, case.cause)]
    told = [f"{f.subject} {f.metric} {f.message} {f.evidence}" for f in fitting]
    assert any(case.names in each for each in told), said


def _not_applicable(case: Case) -> str:
    """The metrics of the check that this machine's GPUs do not have: a null of theirs is no finding."""
    absent = sorted(builtin().absent(case.instance_type, case.check))
    listed = f"checks/facts/not_applicable.json says that {case.instance_type} has no {', '.join(absent)}"
    return f": {listed}, so that a null there is no finding" if absent else ""


def test_every_check_has_its_three_cases() -> None:
    """A name of `checks list` without a healthy, a faulty or an unmeasurable case is a gap."""
    have = {(case.check, case.sort) for case in CASES}
    gaps = [f"{c.name}: {sort.value}" for c in catalog.CATALOG for sort in Sort if (c.name, sort) not in have]
    assert not gaps, "\n".join(gaps)
