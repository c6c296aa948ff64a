"""Missing evidence in a terminal is a line per cause, and what decides stands above what may be cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks.catalog import CATALOG
from checks.facts.builtin import builtin
from checks.judge.rules.wording import quantity
from checks.judge.verdict import decide
from checks.model import CLUSTER, Answer, Cause, Finding, FindingKind, Level, Scope, Verdict, rank_subject
from checks.model_details import Unmeasured
from checks.probes.host.system import resource_evidence
from tasks.paging.content import items_of
from tasks.render.context import NO_CONTEXT
from tasks.render.findings import decisive_first, gathered
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.terminal import EVIDENCE_LINES, MOST_LINES, MOST_WHOLE, missing_lines, parted, terminal
from tasks.render.views.nodes import State, node_lines
from tests.checks.local_policy import silent_node
from tests.sample_reports import healthy, verdict_of, without_node

EXITED = "its process exited 7"
NODE_CHECKS = tuple(check.name for check in CATALOG if check.scope is Scope.NODE)[:30]
RANK_CHECKS = tuple(check.name for check in CATALOG if check.scope is Scope.RANK)[:11]

GPUS = tuple(f"GPU {number} (0000:{number:02x}:00.0)" for number in range(16))


def missing(check: str, subject: str, reason: str, level: Level = Level.FAIL) -> Finding:
    """A finding about what a check did not measure."""
    return Finding(
        level, Cause.EVIDENCE, check, subject, f"not measured: {reason}", "a line of evidence", "Run it again.",
        kind=FindingKind.NOT_MEASURED, unmeasured=Unmeasured("", reason),
    )  # fmt: skip


def many() -> Verdict:
    """The node's checks, those of its ranks, and ten reasons of their own."""
    findings = [missing(check, "node-1", EXITED) for check in NODE_CHECKS]
    ranks = [rank_subject("node-1", 8 + rank) for rank in range(8)]
    findings += [missing(check, rank, EXITED) for check in RANK_CHECKS for rank in ranks]
    findings += [missing(f"own.check{number}", CLUSTER, f"reason {number}") for number in range(10)]
    report = without_node(healthy(4, 8), "node-1")
    return replace(verdict_of(report), findings=(*verdict_of(report).findings[:1], *findings))


def test_each_cause_is_one_line() -> None:
    """The first ones whole, the others with the number of checks and who lacks them, and where the list is."""
    lines = terminal(None, many(), "bravo", 140).splitlines()

    assert lines[0].startswith("CANNOT TELL bravo: node-1 sent no report")
    assert all(check in "".join(lines).replace(" ", "") for check in NODE_CHECKS)
    assert "  the cluster: own.check5 was not measured: reason 5" in lines
    assert 1 == sum("--html FILE, or --format json" in line for line in lines)
    assert len(lines) < 70


def test_few_causes_are_shown_whole() -> None:
    """With remedy and evidence, in the table."""
    verdict = replace(many(), findings=(many().findings[0], missing("own.check", "node-1", "no tool")))
    text = terminal(None, verdict, "bravo", 140)

    assert "a line of evidence" in text and "Evidence is also missing" not in text


def test_failed_finding_stays_whole_beside_missing_evidence() -> None:
    """A broken part is not hidden among the causes."""
    broken = Finding(Level.FAIL, Cause.HARDWARE, "gpu.ecc", "node-2", "has 3 errors", "", "Replace it.")
    whole, rest = parted(gathered((many().findings[0], broken, *many().findings[1:])))

    assert "gpu.ecc" in {item.check for item in whole} and len(rest) == 9
    assert not any("gpu.ecc" in line for line in missing_lines(rest))


def test_hostile_reasons_are_inert_and_short() -> None:
    """However many and however long."""
    hostile = "\x1b[31m\u202e[red]\n" + "x" * 10_000
    findings = tuple(missing(f"a.b{n}{hostile}", f"node{hostile}", f"{n}{hostile}") for n in range(100))
    lines = missing_lines(gathered(findings))

    assert len(lines) <= MOST_LINES + 4 + 3 and all(len(line) < 300 for line in lines)
    assert not any(sign in line for line in lines for sign in ("\x1b", "\u202e", "\n"))


def test_findings_after_a_silent_node_are_folded_below_it() -> None:
    """One finding with one remedy, in every form; the silent node is the first one, and its peer has no finding of its own."""
    report, policy = silent_node("before_ranks")
    verdict = decide(report, policy, builtin())
    text, page = terminal(report, verdict, "local", 140), html(report, verdict, "local")
    summary = markdown(report, verdict, "local")

    ended = "node-1 sent an incomplete report (its process was ended by SIGKILL)"
    assert text.splitlines()[0].endswith(ended)
    assert 1 == sum(line.strip().startswith("Do: ") for line in text.splitlines())
    assert "7 other findings follow from what node-1 did not report; no other remedy is needed:" in text
    assert 2 == page.count("<strong>Do:</strong>"), "above the fold, and with its finding"
    assert "7 other findings follow from what node-1 did not report" in page
    assert "7 other findings follow from what node-1 did not report:" in summary
    assert ["node-1", "node-0"] == [one.name for one in node_lines(report, verdict)][:2]
    assert 1 == len(items_of(verdict, NO_CONTEXT))


def test_a_cell_does_not_say_that_a_check_passed_of_which_all_values_are_bad() -> None:
    """A finding about the cluster is about every node then; where it names some, or proves nothing, the others passed."""
    report = healthy(3, 2)
    found = Finding(Level.FAIL, Cause.CONFIGURATION, "compute.gemm", CLUSTER, "all 6 are affected")
    slow, verdict = replace(found, metric="gflops"), verdict_of(report)

    def cells(finding: Finding) -> set[State]:
        lines = node_lines(report, replace(verdict, findings=(finding,)))
        at = [one.check for one in report.plan].index("compute.gemm")
        return {line.cells[at] for line in lines if line.name != CLUSTER}

    assert {State.FAIL} == cells(slow)
    assert {State.PASS} == cells(replace(slow, cause=Cause.EVIDENCE)) == cells(replace(slow, metric=""))
    assert {State.PASS} == cells(replace(slow, named_nodes=("node-1",)))


@pytest.mark.parametrize("bad", [("GPU 7 (0000:07:00.0)",), GPUS[8:12]])
@pytest.mark.parametrize("head", ["", "DCGM 4.2.3, driver 570.133.20\n"])
def test_the_elements_of_the_finding_stand_above_the_others(bad: tuple[str, ...], head: str) -> None:
    evidence = head + "\n".join(f"{gpu}: persistence=1\n    a line of {gpu[:6]}" for gpu in GPUS)
    finding = Finding(Level.FAIL, Cause.HARDWARE, "gpu.modes", "node-0", "has it off", evidence)

    shown = gathered([replace(finding, elements=bad)])[0].evidence[0][1].splitlines()

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
    verdict = replace(verdict_of(healthy()), answer=Answer.CANNOT_TELL, findings=tuple(findings))
    _, others = parted(gathered(verdict.findings))

    assert "; 11 missing measurements" in terminal(None, verdict, "gate", 140)
    assert f"for {11 - MOST_WHOLE} other reasons:" in missing_lines(others)[0]


@pytest.mark.parametrize("count", [12_345_678, 16_000_000, 1_999_999_999, 2_000_000_000_000, 900])
def test_resource_evidence_formats_quantities_as_the_sentence_does(count: int) -> None:
    names = ("memory_available_bytes", "memory_limit_bytes", "disk_free_bytes", "shm_free_bytes", "shm_bytes")
    evidence = resource_evidence(dict.fromkeys(names, count), Path("/scratch"), 4)

    assert evidence.count(quantity(count, "B")) == len(names)
