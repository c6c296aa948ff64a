"""What a verdict condemns, as cases, and what a re-test proves: less than everything measured is never a proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.culprit.topology import SWITCHES
from checks.model import Action, Answer, Cause, Finding, FindingKind, Level, Outcome, Profile, Report, Skip
from checks.policy import CheckPolicy, OnWarn, Over, Rule
from tasks.gate_file.references import read_policy
from tasks.remediation.model import Blame, Case, Proof
from tasks.remediation.proof import cases_of, partners_needed, proof_of
from tests.sample_reports import (
    POLICY,
    healthy,
    verdict_of,
    with_metric,
    with_row,
    without_node,
    without_row,
    wrong_sums,
)

NODES = 6


def condemned(report: Report) -> tuple[Case, ...]:
    """The cases of a report's verdict."""
    return cases_of(report, verdict_of(report), "digest", "prod", "gate.toml")


def wrong(report: Report, subject: str = "node-1/rank-2") -> Report:
    """The report, with products of a rank that are wrong."""
    return with_metric(report, "compute.gemm", subject, "wrong_elements", 3)


def named(report: Report, **identity: str) -> Report:
    """The report of machines that say more of themselves."""
    nodes = (replace(node, identity={**node.identity, **identity}) for node in report.nodes)
    return replace(report, nodes=tuple(nodes))


def a_case(**more: object) -> Case:
    """The case of a node whose products are wrong."""
    (case,) = condemned(wrong(healthy(NODES)))
    return replace(case, **more)  # type: ignore[arg-type]


def test_only_hardware_condemns() -> None:
    """A node without a report, a clock and an application's loss make no case."""
    assert () == condemned(healthy(NODES))
    assert () == condemned(without_node(healthy(NODES), "node-1"))
    assert () == condemned(with_metric(healthy(NODES), "system.clock", "node-1", "wall_rate", 0.5))
    assert () == condemned(with_metric(healthy(NODES), "training.ddp", "node-1/rank-2", "loss_ratio", 0.99))


def test_a_case_says_what_the_verdict_said() -> None:
    """Of the machine that was measured."""
    case = a_case()

    assert ("node-1", "sample-gate", "b-1") == (case.node, case.gate_id, case.identity.boot_id)
    assert ["compute.gemm"] == [blame.check for blame in case.blames]
    assert ("node-0", "node-2", "node-3", "node-4", "node-5") == case.partners
    assert 1 == case.condemned
    assert 31 == len(condemned(wrong_sums(healthy(32)))[0].partners)
    assert 0 == partners_needed(case)
    assert 1 == partners_needed(condemned(wrong_sums(healthy(NODES)))[0])


def test_the_engine_s_name_and_the_switch_are_taken() -> None:
    """What Slurm calls the node, and what fails together with it."""
    report = named(wrong(healthy(NODES)), **{SWITCHES: "leaf-1,core"})
    nodes = [replace(one, identity={**one.identity, "engine_node": f"ip-{one.rank}"}) for one in report.nodes]
    (case,) = condemned(replace(report, nodes=tuple(nodes)))

    assert ("ip-1", "leaf-1", "ip-0") == (case.node, case.domain, case.partners[0])


def test_kernel_log_blame_is_hard_and_names_its_gpus() -> None:
    """If it asks for a repair; other findings have to repeat."""
    report = healthy(NODES, 4, gpus=4)
    verdict = verdict_of(report)

    def blamed(check: str, action: Action) -> Case:
        labels = ("GPU 3 (0000:b9:00.0)", "GPU 1", "GPU 3 (0000:b9:00.0)", "memory")
        finding = Finding(Level.FAIL, Cause.HARDWARE, check, "node-1", "broken", elements=labels)
        one = replace(verdict, findings=(replace(finding, action=action),), condemned=("node-1",))
        with_uuids = named(report, gpu_uuids="GPU-a,GPU-b")
        (case,) = cases_of(with_uuids, one, "digest", "prod", "gate.toml")
        return case

    assert [(True, (3, 1))] == [(one.hard, one.gpus) for one in blamed("kernel.xid", Action.REBOOT).blames]
    assert not blamed("gpu.ecc", Action.REBOOT).blames[0].hard
    assert not blamed("kernel.xid", Action.NONE).blames[0].hard
    assert ("GPU-a", "GPU-b") == blamed("kernel.xid", Action.REBOOT).identity.gpus


def test_a_verdict_that_suspects_its_policy_says_so_in_each_case() -> None:
    """Nothing is done then."""
    report = healthy(NODES)
    for rank in range(0, 2 * NODES, 2):
        report = wrong(report, f"node-{rank // 2}/rank-{rank}")
    cases = condemned(report)

    assert {(True, NODES)} == {(case.suspect_policy, case.condemned) for case in cases}


def test_a_healthy_machine_is_proven() -> None:
    """With the identity that was found."""
    report = named(healthy(1), engine_node="node-1")
    proof, found, _ = proof_of(a_case(), report, verdict_of(report), POLICY)

    assert (Proof.PASSED, "b-0") == (proof, found.boot_id)


def left_out(report: Report, check: str, subject: str, skip: Skip) -> Report:
    """A check that was skipped on one subject."""
    skipped: Any = {"outcome": Outcome.SKIPPED, "metrics": {}, "skip": skip, "reason": "skipped"}
    return with_row(report, check, subject, lambda row: replace(row, **skipped))


@pytest.mark.parametrize(
    ("change", "proof"),
    [
        pytest.param(wrong, Proof.FAILED, id="again"),
        pytest.param(lambda r: with_metric(r, "compute.gemm", "node-1/rank-2", "gflops", 0.5), Proof.FAILED, id="otherwise"),
        pytest.param(lambda r: without_node(r, "node-1"), Proof.CANNOT_TELL, id="no report"),
        pytest.param(lambda r: without_row(r, "compute.gemm", "node-1/rank-2"), Proof.CANNOT_TELL, id="a row is missing"),
        pytest.param(
            lambda r: left_out(r, "compute.gemm", "node-1/rank-2", Skip.TOOL_MISSING), Proof.CANNOT_TELL, id="skipped"),
        pytest.param(lambda r: with_metric(r, "system.clock", "node-1", "wall_rate", 0.5), Proof.CANNOT_TELL, id="another failure"),
        pytest.param(lambda r: without_row(r, "compute.gemm", "node-0/rank-0"), Proof.CANNOT_TELL, id="the partner lacks a row"),
        pytest.param(lambda r: wrong(r, "node-0/rank-0"), Proof.CANNOT_TELL, id="the partner is sick"),
    ],
)  # fmt: skip
def test_less_than_everything_is_no_proof(change: Callable[[Report], Report], proof: Proof) -> None:
    """The node stays fenced."""
    report = change(healthy(2))

    assert proof is proof_of(a_case(), report, verdict_of(report), POLICY)[0]


def test_what_failed_in_a_re_test_is_said_with_its_node() -> None:
    """The fault of a partner must not be read as the node's own."""
    for sick, text in (("node-0/rank-0", "node-0, rank 0"), ("node-1/rank-2", "node-1, rank 2")):
        report = wrong(healthy(2), sick)
        assert text in proof_of(a_case(), report, verdict_of(report), POLICY)[2]


OPTIONAL = replace(POLICY, checks={name: replace(one, required=False) for name, one in POLICY.checks.items()})


@pytest.mark.parametrize(
    ("change", "proof"),
    [
        (lambda r: with_metric(r, "system.clock", "node-0", "synchronised", False), Proof.PASSED),
        (lambda r: with_metric(r, "system.clock", "node-1", "synchronised", False), Proof.PASSED),
        (lambda r: left_out(r, "system.clock", "node-1", Skip.NOT_PERMITTED), Proof.PASSED),
        (lambda r: left_out(r, "system.clock", "node-1", Skip.GATE_FILE), Proof.PASSED),
        (lambda r: left_out(r, "training.step", "node-1/rank-2", Skip.GATE_FILE), Proof.PASSED),
        (lambda r: left_out(r, "compute.gemm", "node-0/rank-0", Skip.GATE_FILE), Proof.PASSED),
        (lambda r: left_out(r, "compute.gemm", "node-1/rank-2", Skip.GATE_FILE), Proof.CANNOT_TELL),
        (lambda r: without_row(r, "compute.gemm", "node-1/rank-2"), Proof.CANNOT_TELL),
    ],
    ids=[
        *("a warning about the partner", "a warning", "an accepted skip", "a skip by the gate file", "a skip on a rank"),
        *("what failed is skipped on the partner", "what failed is skipped", "a rank of what failed is missing"),
    ],
)  # fmt: skip
def test_a_warning_or_a_skip_of_another_check_leaves_the_proof(
    change: Callable[[Report], Report], proof: Proof
) -> None:
    """Proof is that what had failed was measured and passes, and that nothing about the node fails."""
    report = change(healthy(2))
    verdict = verdict_of(report, OPTIONAL)

    assert proof is proof_of(a_case(policy=verdict.digests.policy), report, verdict, POLICY)[0]


def warnings() -> Iterator[Finding]:
    """One finding for each rule of a shipped policy that can warn about a node."""
    for path in sorted((Path(__file__).parents[3] / "deployments" / "policies").glob("*.toml")):
        for check, table in read_policy(path).checks.items():
            for rule in table.rules:
                if rule.level == "WARN" or rule.warn_below is not None or rule.warn_above is not None:
                    yield Finding(Level.WARN, rule.cause, check, "node-1", f"{path.stem}: {rule.metric}")


@pytest.mark.parametrize("on_warn", list(OnWarn))
def test_no_warning_of_a_shipped_policy_is_missing_proof(on_warn: OnWarn) -> None:
    """Such as `earlier_boot`: a kernel log that survives the reboot still has the Xid. Only a warning that the very check which had
    failed was not measured completely is missing evidence.
    """
    report, said, case = healthy(2), list(warnings()), a_case()
    verdict = verdict_of(report, replace(POLICY, on_warn=on_warn))
    answer = {OnWarn.GO: Answer.GO, OnWarn.ASK: Answer.ASK, OnWarn.REFUSE: Answer.NO_GO}[on_warn]
    for warning in said:
        renamed = {"compute.gemm": warning.check}
        rows = (replace(row, check=renamed.get(row.check, row.check)) for row in report.observations)
        as_it = replace(report, observations=tuple(rows))
        warned = replace(verdict, level=Level.WARN, answer=answer, findings=(warning,))
        other, same = (
            replace(case, policy=verdict.digests.policy, blames=(Blame(check, "node-1", Action.REBOOT, "broken"),))
            for check in ("compute.gemm", warning.check)
        )  # fmt: skip
        expected = Proof.CANNOT_TELL if warning.cause is Cause.EVIDENCE else Proof.PASSED
        found = [proof_of(other, report, warned, POLICY)[0], proof_of(same, as_it, warned, POLICY)[0]]
        assert Proof.PASSED is found[0] or warning.check == "compute.gemm", warning
        assert expected is found[1], warning
    assert {"kernel.xid", "kernel.sxid", "kernel.hardware"} <= {one.check for one in said}


def test_a_quicker_profile_is_no_proof() -> None:
    """What was found deep is tested deep."""
    report = healthy(2)
    deep = replace(report, profile=Profile.DEEP)

    assert Proof.CANNOT_TELL is proof_of(a_case(profile=Profile.DEEP), report, verdict_of(report), POLICY)[0]
    assert Proof.PASSED is proof_of(a_case(profile=Profile.DEEP), deep, verdict_of(deep), POLICY)[0]


@pytest.mark.parametrize(("nodes", "proof"), [(2, Proof.CANNOT_TELL), (3, Proof.PASSED)])
def test_the_slow_end_of_a_pair_is_found_among_three(nodes: int, proof: Proof) -> None:
    """Of two nodes nothing is slower than the others: only a threshold in GB/s could fail there."""
    blame = Blame("network.pairs", "node-1", Action.INSPECT, "is slow to and from every peer")
    report = healthy(nodes)

    assert 2 == partners_needed(a_case(blames=(blame,)))
    assert proof is proof_of(a_case(blames=(blame,)), report, verdict_of(report), POLICY)[0]


def test_a_re_test_by_another_policy_is_no_proof() -> None:
    """Another gate file of the same cluster may be more lenient than the one that condemned the node."""
    report = healthy(2)
    verdict = verdict_of(report)
    lenient = replace(verdict, digests=replace(verdict.digests, policy="another"))

    assert Proof.CANNOT_TELL is proof_of(a_case(), report, lenient, POLICY)[0]


def test_a_check_that_was_not_planned_is_no_proof() -> None:
    """A test between nodes needs a partner."""
    (case,) = condemned(wrong_sums(healthy(NODES)))
    alone = named(healthy(1, 1), engine_node="node-1")

    assert Proof.CANNOT_TELL is proof_of(case, alone, verdict_of(alone), POLICY)[0]


def test_a_bad_link_to_the_partner_is_about_the_node() -> None:
    """Whatever end is to blame."""
    report = healthy(2)
    link = Finding(Level.FAIL, Cause.HARDWARE, "network.pairs", "node-0<->node-1", "slow")
    verdict = replace(verdict_of(report), findings=(replace(link, action=Action.INSPECT),))

    assert Proof.FAILED is proof_of(a_case(), report, verdict, POLICY)[0]


def test_a_report_with_an_unreadable_time_is_stale() -> None:
    """Its evidence is of the year 1970."""
    (case,) = condemned(replace(wrong(healthy(NODES)), measured_at="yesterday"))

    assert 0.0 == case.judged_at


@pytest.mark.parametrize("over", [Over.FLEET, Over.PEERS])
@pytest.mark.parametrize(
    ("gflops", "proof"), [(20.0, Proof.FAILED), ("unknown", Proof.CANNOT_TELL), (45.0, Proof.PASSED)]
)
def test_what_other_nodes_had_shown_is_compared_with_what_they_had(
    over: Over, gflops: float | str, proof: Proof
) -> None:
    """A re-test has too few nodes to compare, so that its gate passes, or refuses because the finding is still open on the node. Only
    a value that its peers would accept proves the node.
    """
    compares = Rule("gflops", "peers", over, fail_below=0.8, min_peers=5)
    policy = replace(POLICY, checks={**POLICY.checks, "compute.gemm": CheckPolicy(rules=(compares,))})

    def with_rate(report: Report, value: float | str) -> Report:
        for rank in (2, 3):
            report = with_metric(report, "compute.gemm", f"node-1/rank-{rank}", "gflops", value)
        return report

    slow = with_rate(healthy(NODES), 20.0)
    case = cases_of(slow, verdict_of(slow, policy), "digest", "prod", "gate.toml")[0]
    report = with_rate(healthy(2), gflops)

    verdict = verdict_of(report, policy)
    still = Finding(Level.FAIL, Cause.HARDWARE, "compute.gemm", "node-1", "slow")
    still = replace(still, kind=FindingKind.OPEN_BEFORE, metric="gflops")

    assert "node-1" == case.node
    for one in (verdict, replace(verdict, findings=(still, *verdict.findings), condemned=("node-1",))):
        assert proof is proof_of(case, report, one, policy)[0]
