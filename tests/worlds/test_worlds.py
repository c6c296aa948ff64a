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
# Machines of 8 GPUs or 32 ranks take a minute and more for all of theirs: they are in make test-long.
LARGE = ("sagemaker-p4d", "sagemaker-p5", "sagemaker-p5-injob", "sagemaker-p5en", "sagemaker-trn1")
# Of a p5 here only what g5's world has no part for: the other faults are planted there.
ONLY_P5 = ("an NVLink is down", "PCIe lanes are lost", "an EFA device is missing")
# Their machines and policies are those of another gate file.
SAME = ("hyperpod-slurm", "slurm-cpu", "slurm-g5", "slurm-p5", "slurm-p5-injob")
pytestmark = [needs_root, pytest.mark.root, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in (*LARGE, *SAME) else []) for name in GATES],
)
def test_a_healthy_world_and_ten_faults(
    tmp_path: Path, name: str, record_property: pytest.FixtureRequest
) -> None:
    """GO without a warning that every healthy machine would show; then NO-GO each time, with the part that is broken."""
    assert 10 == _tried(tmp_path, name, record_property)


def test_a_healthy_p5_and_the_faults_that_only_it_can_have(
    tmp_path: Path, record_property: pytest.FixtureRequest
) -> None:
    """The same for the parts of a p5 that a g5 lacks."""
    assert len(ONLY_P5) == _tried(tmp_path, "sagemaker-p5", record_property, ONLY_P5)


def _tried(
    folder: Path, name: str, record: pytest.FixtureRequest, only: tuple[str, ...] | None = None
) -> int:
    """How many faults were planted and refused by name, in a world that was healthy without them."""
    with cluster(folder, GATES[name]) as made:
        made.rows = made.observe()
        verdict = made.verdict({})
        fine = _is_fine(verdict)
        record(table.HEALTHY, (name, table.GO if fine else table.REFUSED))  # type: ignore[operator]
        assert fine, _said(verdict)

        every = faults_of(builtin().instances[GATES[name].instance_type], len(made.nodes))
        planted = [fault for fault in every if only is None or fault.name in only]
        missed = [f"{fault.name}: {why}" for fault in planted if (why := _missed(made, fault, name, record))]
    assert [] == missed
    return len(planted)


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
