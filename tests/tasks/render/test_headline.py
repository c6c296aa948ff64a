"""The first line of a verdict: one plain sentence about whom, what, how bad, against which threshold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.judge.not_measured import not_measured
from checks.model import Answer, Cause, Finding, Level
from checks.model_details import Sensitivity, Unmeasured
from tasks.render.findings import failed_everywhere, gathered
from tasks.render.headline import culprits, explanation, headline, sensitivity_lines, sentence
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.terminal import terminal
from tests.sample_reports import healthy, verdict_of, wrong_sums


def test_only_a_go_says_how_much_was_observed() -> None:
    """A page of a NO-GO shows it apart; a telephone shows the first words alone."""
    assert "observations" not in headline(verdict_of(wrong_sums(healthy())), "local")
    assert "GO local: 2 of 2 nodes, 4 of 4 ranks, " in headline(verdict_of(healthy()), "local")


def test_each_page_says_how_slow_a_part_would_have_been_named() -> None:
    """And of which part that is not known."""
    limits = (("node", 0.054), ("rank", None), ("link", 0.309))
    seen_from = tuple(Sensitivity("nccl.pairs", part, share) for part, share in limits)
    verdict = replace(verdict_of(healthy()), seen_from=seen_from)

    parts = "a node from 5.4 %, a rank at no known limit, a link from 30.9 %"
    text = f"How small a slowdown nccl.pairs could have seen, below the others: {parts}."
    assert [text] == [*sensitivity_lines(verdict)]
    unknown = replace(verdict, seen_from=(Sensitivity("nccl.pairs", "rank", None),))
    assert ["nccl.pairs has too few parts to say how small a slowdown it would have named."] == [
        *sensitivity_lines(unknown)
    ]
    for page in (
        terminal(healthy(), verdict, "local", width=200),
        markdown(healthy(), verdict, "local"),
        html(healthy(), verdict, "local"),
    ):
        assert text in page


def _found(subject: str, message: str, check: str = "gpu.modes", is_predicate: bool = False) -> Finding:
    return Finding(Level.FAIL, Cause.HARDWARE, check, subject, message, is_predicate=is_predicate)


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ([_found("n/rank-3", "computes wrong sums", is_predicate=True)], "node n, rank 3 computes wrong sums"),
        ([_found("node-1", "GPU 2 has persistence mode off")], "node-1: GPU 2 has persistence mode off (gpu.modes)"),
        ([_found("node-1", "the others waited for it in gpu.modes")], "node-1: the others waited for it in gpu.modes"),
        ([_found("cluster", "driver version differs")], "the cluster: driver version differs (gpu.modes)"),
        ([_found("a<->b", "is slow", is_predicate=True)], "the link between node a and node b is slow"),
        ([_found("node-1", "the clock is odd", "report")], "node-1: the clock is odd"),
        (
            [_found(f"node-{n}", "has ECC off", is_predicate=True) for n in range(2)],
            "node-0 and node-1 have ECC off",
        ),
        (
            [_found(f"node-1/rank-{n}", "computes wrong sums", is_predicate=True) for n in (0, 3, 5)],
            "node-1, ranks 0, 3 and 5 compute wrong sums",
        ),
        ([_found(f"node-{n}", "has ECC off", is_predicate=True) for n in range(37)], "37 nodes have ECC off"),
        (
            [not_measured("gpu.ecc", "node-1", Unmeasured("", "nvidia-smi is not installed"), Level.FAIL)],
            "node-1: gpu.ecc was not measured: nvidia-smi is not installed",
        ),
        (
            [not_measured(check, "node-1", Unmeasured("", "no driver"), Level.FAIL) for check in ("gpu.ecc", "gpu.pcie")],
            "node-1: gpu.ecc and 1 more check were not measured: no driver",
        ),
    ],
)  # fmt: skip
def test_a_finding_is_one_sentence(findings: list[Finding], said: str) -> None:
    """Who in words; then what, in the number of the subject. A check is named if the message alone may not say what it is about."""
    (item,) = gathered(findings)

    assert said == sentence(item)


def test_a_page_names_some_of_many() -> None:
    """A headline only counts them."""
    (item,) = gathered([_found(f"node-{n}", "has ECC off", is_predicate=True) for n in range(37)])

    text = "37 nodes (node-0, node-1, node-2, node-3, node-4, node-5 and 31 more) have ECC off"
    assert text == sentence(item, names=True)


@pytest.mark.parametrize(
    ("cause", "subjects", "failed", "fault"),
    [
        (Cause.HARDWARE, ("node-1/rank-3",), "1 of 2 nodes failed a check", "the fault is in the hardware of node-1"),
        (Cause.CONFIGURATION, ("node-1",), "1 of 2 nodes failed a check", "no broken hardware was found"),
        (Cause.HARDWARE, ("a <-> b",), "At least one check failed", "the fault is between a and b, and no node is blamed"),
        (Cause.HARDWARE, ("node-0", "a <-> b"), "1 of 2 nodes failed a check", "the fault is in the hardware of node-0, a <-> b"),
    ],
)  # fmt: skip
def test_blame_is_explained(cause: Cause, subjects: tuple[str, ...], failed: str, fault: str) -> None:
    """Who is paged asks this first. A node that is bad, and its link, are not all nodes."""
    findings = tuple(replace(_found(one, "is slow", "compute.gemm"), cause=cause) for one in subjects)
    verdict = replace(verdict_of(wrong_sums(healthy(2, 2))), findings=findings)
    assert f"{failed}; {fault}." == explanation(verdict)


@pytest.mark.parametrize(
    "causes", [(Cause.CONFIGURATION, Cause.CONFIGURATION), (Cause.CONFIGURATION, Cause.EVIDENCE)]
)
def test_failure_of_all_nodes_is_blamed_on_image_or_policy(causes: tuple[Cause, Cause]) -> None:
    """A threshold that is too high, or an image that is wrong; missing evidence is no failure of a node."""
    subjects = ("node-0/rank-0", "node-1/rank-2")
    slow = [_found(one, "reaches 103.3 GFLOP/s", "compute.gemm") for one in subjects]
    findings = tuple(replace(one, cause=cause) for one, cause in zip(slow, causes, strict=True))
    verdict = replace(verdict_of(wrong_sums(healthy())), condemned=(), findings=findings)
    alike = causes[1] is Cause.CONFIGURATION

    assert failed_everywhere(verdict) == (("compute.gemm",) if alike else ())
    assert ("All 2 nodes fail compute.gemm: suspect the policy" in explanation(verdict)) is alike
    assert failed_everywhere(verdict_of(wrong_sums(healthy()))) == ()
    assert culprits(verdict) == (("cluster",) if alike else ("node-0",))
    headed = "suspect the image or the policy: all 2 nodes fail compute.gemm; 2 ranks: reaches 103.3"
    assert (headed in headline(verdict, "p5")) is alike


def test_a_node_that_fails_what_others_pass_is_to_blame_all_the_same() -> None:
    """Beside a threshold that nobody meets."""
    verdict = verdict_of(wrong_sums(healthy()))
    alike = [_found(f"node-{n}", "has 19 GiB", "host.memory") for n in range(2)]
    found = (*alike, _found("node-1", "has ECC off", is_predicate=True))
    wrong = tuple(replace(one, cause=Cause.CONFIGURATION) for one in found)

    assert culprits(replace(verdict, condemned=(), findings=wrong)) == ("node-1",)


def test_a_headline_names_every_node_that_failed() -> None:
    """What else the first node fails, and what is missing, is only counted."""
    first = _found("node-1", "has ECC off", is_predicate=True)
    again = _found("node-1/rank-3", "is slow")
    second = _found("node-2/rank-0", "computes wrong sums", "collective.all_reduce", is_predicate=True)
    third = replace(second, subject="node-4", message="computes other wrong sums")
    lost = not_measured("gpu.ecc", "node-3", Unmeasured("", "no driver"), Level.FAIL)
    findings = (first, again, second, third, lost)
    wrong = replace(verdict_of(wrong_sums(healthy(8, 1), "node-1/rank-1")), findings=findings)

    also = "also node-2, rank 0, node-4 (collective.all_reduce); 1 more failure, 1 missing measurement"
    assert f"NO-GO p5: node-1 has ECC off; {also}" == headline(wrong, "p5")
    assert "; 3 more failures, 1 missing measurement" in headline(replace(wrong, suspect_policy=True), "p5")


def test_a_headline_names_no_node_twice_for_what_all_nodes_fail() -> None:
    """What one of them fails besides is still named."""
    slow = [_found(f"node-{n}", f"reaches {n} GFLOP/s", "compute.gemm") for n in range(2)]
    findings = (*slow, _found("node-1", "has ECC off", is_predicate=True))
    verdict = replace(verdict_of(wrong_sums(healthy())), condemned=(), findings=findings)

    said = "all 2 nodes fail compute.gemm; node-0: reaches 0 GFLOP/s (compute.gemm); 2 more failures"
    assert f"NO-GO p5: suspect the image or the policy: {said}" == headline(verdict, "p5")


def _warned(*findings: Finding) -> str:
    warnings = tuple(replace(one, level=Level.WARN) for one in findings)
    verdict = replace(verdict_of(healthy()), level=Level.WARN, findings=warnings)
    return headline(verdict, "local").partition("observations; ")[2]


def test_a_go_names_its_warnings_in_short() -> None:
    """The finding itself stands below: why, how bad, and what to do."""
    long = _found("cluster", "node-1 was busy: " + "x" * 200, "collective.pairs")
    odd = _found("node-1/rank-3", "is slow")
    report = _found("node-1", "the clock is odd", "report")
    lost = not_measured("gpu.ecc", "node-1", Unmeasured("", "no driver"), Level.FAIL)

    assert "1 warning: collective.pairs on the cluster" == _warned(long)
    assert "2 warnings: collective.pairs, gpu.modes" == _warned(long, odd)
    assert "1 warning: the report of node-1" == _warned(report)
    assert "1 warning: gpu.ecc on node-1" == _warned(lost)
    assert "1 warning: gpu.modes on node-1, rank 3" == _warned(odd)


def test_cannot_tell_says_that_evidence_is_missing_only_where_it_is() -> None:
    """A busy machine was observed, and what it measured proves nothing."""
    busy = replace(_found("node-1", "node-1 was busy"), cause=Cause.EVIDENCE)
    lost = not_measured("gpu.ecc", "node-1", Unmeasured("", "no driver"), Level.FAIL)
    whole = replace(verdict_of(healthy()), answer=Answer.CANNOT_TELL, level=Level.FAIL)
    checks = replace(whole.coverage.checks, observed=1)
    partly = replace(whole, findings=(busy,), coverage=replace(whole.coverage, checks=checks))

    text = explanation(replace(whole, findings=(busy,)))
    assert "nothing is missing, but the measurements cannot be judged as they are" in text
    for one in (replace(whole, findings=(busy, lost)), partly, whole):
        assert "evidence is missing" in explanation(one)
