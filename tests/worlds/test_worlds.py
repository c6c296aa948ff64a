"""Each shipped gate file: a healthy machine made of recordings gets its go, and ten planted faults are refused by name."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.documents.report import dump, load
from checks.judge.ledger import NO_BASELINE
from checks.judge.verdict import decide
from checks.model import Answer, FindingKind, Level, Verdict
from tasks.gate.context import open_gate_context
from tests.flows.driving import request_of
from tests.planned_contents import with_later_checks
from tests.survival.faulty_network import needs_root
from tests.worlds import flow
from tests.worlds.cluster import Cluster, Rows, cluster
from tests.worlds.faults import Fault, faults_of
from tests.worlds.tools import known

GATES = {gate.name: gate for gate in flow.shipped()}
# Machines of several GPUs or 32 ranks take up to a minute and more for all of theirs: they are in make test-long. So are the
# hosts of SageMaker without a GPU, on which the same faults are planted as on those of a local gate.
LARGE = (
    "sagemaker-cpu",
    *("sagemaker-g5", "sagemaker-p4d", "sagemaker-p5", "sagemaker-p5-injob", "sagemaker-p5en"),
    *("sagemaker-trn1", "slurm-ib"),
)
# What the worlds of the usual tests do not have: reports of others, healthy and with these faults, are judged again without a machine.
KEPT: dict[str, tuple[str, ...]] = {
    "sagemaker-cpu": (),
    "sagemaker-g5": ("NCCL sums an element wrongly", "NCCL falls back to TCP"),
    "sagemaker-p5": ("an NVLink is down", "PCIe lanes are lost", "an EFA device is missing"),
}
FOLDER = Path(__file__).parents[1] / "recordings" / "worlds"
# Their machines and policies are those of another gate file.
SAME = (
    *("local-namespaces", "hyperpod-slurm", "slurm-cpu", "slurm-g5", "slurm-p5", "slurm-p5-injob"),
    *("eks-p5", "eks-p5-injob", "hyperpod-eks", "kind-cpu"),
)
pytestmark = [needs_root, pytest.mark.root, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in (*LARGE, *SAME) else []) for name in GATES],
)
def test_a_healthy_world_and_ten_faults(tmp_path: Path, name: str) -> None:
    """GO without a warning that every healthy machine would show; then NO-GO each time, with the part that is broken."""
    with cluster(tmp_path, GATES[name]) as made:
        made.rows = made.observe()
        verdict = made.verdict({})
        _keep(made, "", {})
        assert _is_fine(verdict), _said(verdict)

        planted = faults_of(known().instances[GATES[name].instance_type], len(made.nodes))
        missed = [f"{fault.name}: {why}" for fault in planted if (why := _missed(made, fault))]
    assert (10, []) == (len(planted), missed)


@pytest.mark.parametrize(("name", "fault"), [(name, one) for name, its in KEPT.items() for one in ("", *its)])
def test_kept_reports_are_judged_as_their_worlds_are(name: str, fault: str) -> None:
    """With today's policy, facts and judge. The long tests of these worlds write them anew with UPDATE_GOLDEN=1."""
    context = open_gate_context(
        request_of(GATES[name].path, "checks.profile=quick", "cluster.declared.nodes=2")
    )
    bundle = context.bundle("world")
    report = load(gzip.decompress(_kept(name, fault).read_bytes()))
    report = with_later_checks(report, bundles.plan_of(bundle)[1])
    verdict = decide(report, bundle.policy, context.facts)
    planted = {one.name: one for one in faults_of(known().instances[GATES[name].instance_type], 2)}

    assert report.declared == bundle.declared
    if fault:
        assert _is_refused(verdict, planted[fault], report.nodes[0].name), _said(verdict)
    else:
        assert _is_fine(verdict), _said(verdict)


def _kept(name: str, fault: str) -> Path:
    return FOLDER / f"{name.removeprefix('sagemaker-')}_{fault.replace(' ', '_') or 'healthy'}.json.gz"


def _keep(made: Cluster, fault: str, rows: Rows) -> None:
    """Write the report of a world where golden files are written again."""
    name = made.gate.name
    if "UPDATE_GOLDEN" in os.environ and name in KEPT and fault in ("", *KEPT[name]):
        report = made.report(rows)
        # A world's ranks begin at no known time of a run.
        begun = tuple(replace(row, started_s=0.0) for row in report.observations)
        data = dump(replace(report, observations=begun))
        place = str(made.nodes[0].folder.parent).encode()
        FOLDER.mkdir(exist_ok=True)
        _kept(name, fault).write_bytes(gzip.compress(data.replace(place, b"/tmp/world"), mtime=0))


def _missed(made: Cluster, fault: Fault) -> str:
    """Why the fault was not refused as it should be, or ""."""
    rows = made.observe((*fault.after, fault.check), fault.faults)
    verdict = made.verdict(rows)
    _keep(made, fault.name, rows)
    refused = _is_refused(verdict, fault, made.nodes[0].name)
    return "" if refused else f"not named, {verdict.answer.value}: {_said(verdict)}"


def _is_refused(verdict: Verdict, fault: Fault, node: str) -> bool:
    """NO-GO, and a FAIL names the part of the node."""
    part = fault.names.format(node=node)
    named = any(
        finding.level is Level.FAIL
        and finding.check == fault.check
        and part in f"{finding.subject} {finding.message}"
        for finding in verdict.findings
    )
    return named and verdict.answer is Answer.NO_GO


def _is_fine(verdict: Verdict) -> bool:
    """GO, and of warnings only two: what the driver is too old to report, and a rate that nobody has published."""
    return verdict.answer is Answer.GO and not any(
        finding.level is not Level.PASS and finding.kind not in (FindingKind.DRIVER_TOO_OLD, *NO_BASELINE)
        for finding in verdict.findings
    )


def _said(verdict: Verdict) -> str:
    return "\n".join(
        f"{f.level.value} {f.cause.value} {f.check} {f.subject}: {f.message[:300]}"
        for f in verdict.findings[:20]
    )
