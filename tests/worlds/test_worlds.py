"""Each shipped gate file: a healthy machine made of recordings gets its go, and ten planted faults are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.facts.builtin import builtin
from checks.judge.ledger import NO_BASELINE
from checks.model import Answer, Finding, FindingKind, Level, Verdict
from tests.survival.faulty_network import needs_root
from tests.worlds import flow, table
from tests.worlds.cluster import Cluster, cluster
from tests.worlds.faults import Fault, faults_of

GATES = {gate.name: gate for gate in flow.shipped()}
# Machines of 8 GPUs or 32 ranks take a minute and more for all of theirs: p5's are here, the others' in make test-long.
LARGE = ("sagemaker-p4d", "sagemaker-p5-injob", "sagemaker-p5en", "sagemaker-trn1")
# Their machines and policies are those of another gate file.
SAME = ("slurm-cpu",)
pytestmark = [needs_root, pytest.mark.root, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in (*LARGE, *SAME) else []) for name in GATES],
)
def test_a_healthy_world_and_ten_faults(
    tmp_path: Path, name: str, record_property: pytest.FixtureRequest
) -> None:
    """GO without a warning that every healthy machine would show; then NO-GO each time, with the part that is broken."""
    with cluster(tmp_path, GATES[name]) as made:
        made.rows = made.observe()
        verdict = made.verdict({})
        fine = _is_fine(verdict)
        record_property(table.HEALTHY, (name, table.GO if fine else table.REFUSED))  # type: ignore[operator]
        assert fine, _said(verdict)

        planted = faults_of(builtin().instances[GATES[name].instance_type], len(made.nodes))
        missed = [
            f"{fault.name}: {why}"
            for fault in planted
            if (why := _missed(made, fault, name, record_property))
        ]
        assert 10 == len(planted)
    assert [] == missed


def _missed(made: Cluster, fault: Fault, name: str, record: pytest.FixtureRequest) -> str:
    """Why the fault was not refused as it should be, or ""."""
    verdict = made.verdict(made.observe(fault.checks, fault.faults))
    part = fault.names.format(node=made.nodes[0].name)
    named = any(
        finding.level is Level.FAIL
        and finding.check == fault.check
        and part in f"{finding.subject} {finding.message}"
        for finding in verdict.findings
    )
    came = table.NAMED if named and verdict.answer is Answer.NO_GO else f"not {table.NAMED}"
    came = table.MISSED if verdict.answer in (Answer.GO, Answer.ASK) else came
    record(table.FAULT, (name, fault.name, came))  # type: ignore[operator]
    return "" if came == table.NAMED else f"{came}, {verdict.answer.value}: {_said(verdict)}"


def _is_fine(verdict: Verdict) -> bool:
    """GO, and of warnings only two: what the driver is too old to report, and a rate that nobody has published."""
    return verdict.answer is Answer.GO and not any(
        finding.level is not Level.PASS and not _is_known_gap(finding) for finding in verdict.findings
    )


def _is_known_gap(finding: Finding) -> bool:
    return finding.kind in (FindingKind.DRIVER_TOO_OLD, *NO_BASELINE)


def _said(verdict: Verdict) -> str:
    return "\n".join(
        f"{f.level.value} {f.cause.value} {f.check} {f.subject}: {f.message[:300]}"
        for f in verdict.findings[:20]
    )
