"""Headlines, groups, Markdown, terminal and JUnit: what people and CI read; hostile text is inert in all."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as xml

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.judge.not_measured import not_measured
from checks.judge.verdict import unreadable
from checks.model import Action, Cause, Finding, Level, Report, Verdict
from checks.model_details import Unmeasured
from checks.policy import OnWarn
from tasks.render.context import VerdictContext
from tasks.render.findings import gathered, group, in_number
from tasks.render.headline import explanation, headline
from tasks.render.html import html
from tasks.render.junit import junit
from tasks.render.markdown import escape, fenced, markdown
from tasks.render.remedy_commands import RemedyContext
from tasks.render.terminal import terminal
from tasks.render.views.nodes import State, check_lines, node_lines
from tests.sample_reports import (
    FACTS,
    POLICY,
    healthy,
    verdict_of,
    with_metric,
    without_node,
    without_row,
    wrong_sums,
)
from tests.tasks.paging.test_content import half_broken

LOG = "Run the gate again. If the finding returns, read this node's log."
LOGS = f"For each named node: {LOG}"

UNREADABLE = unreadable("truncated", POLICY, FACTS, b"{")


def pages_of(report: Report | None, verdict: Verdict, name: str = "local") -> dict[str, str]:
    """The report in each of the formats."""
    return {
        "terminal": terminal(report, verdict, name, 80, colour=False),
        "markdown": markdown(report, verdict, name),
        "junit": junit(report, verdict, name),
        "html": html(report, verdict, name),
    }


def test_a_no_go_names_the_known_fault_before_missing_evidence() -> None:
    """And how much else there is."""
    said = headline(verdict_of(wrong_sums(without_node(healthy(3, 2), "node-0"), "node-1/rank-3")), "local")

    assert (
        said.startswith("NO-GO local: node-1, rank 3 computes wrong sums")
        and "; 1 missing measurement" in said
    )


def test_cannot_tell_names_who_is_missing_and_asks_for_no_replacement() -> None:
    """Missing evidence speaks against nobody."""
    report = without_node(healthy(4, 2), "node-3")
    verdict = verdict_of(report)

    assert headline(verdict, "local").startswith("CANNOT TELL local: node-3 sent no report")
    assert "cannot tell" in explanation(verdict)
    for page in pages_of(report, verdict).values():
        assert not re.search(r"replac(e|ing) (the|this|it|node)|out of use", page, re.IGNORECASE)


def test_a_warning_that_the_policy_lets_through_is_still_said() -> None:
    """GO, with how many and which first; ASK asks."""
    assert "; 1 warning: system.clock on node-0" in headline(verdict_of(CLOCK), "local")
    ask = verdict_of(CLOCK, replace(POLICY, on_warn=OnWarn.ASK))
    assert headline(ask, "local").startswith("ASK local: node-0 has a clock that is not synchronised")
    assert "only warnings" in explanation(verdict_of(CLOCK, replace(POLICY, on_warn=OnWarn.REFUSE)))


def test_a_suspect_policy_names_nobody_for_replacement() -> None:
    """The image or the policy is looked at first; the nodes stay in the table."""
    report = half_broken()
    verdict = verdict_of(report)

    line = headline(verdict, "local")
    assert line.startswith("NO-GO local: suspect the image or the policy: 4 of 8 nodes fail")
    assert "node-0" not in headline(verdict, "local")
    for page in pages_of(report, verdict).values():
        assert "out of use" not in page
        assert "node-3" in page


def test_findings_that_differ_in_their_subject_are_said_once() -> None:
    """Three ranks, one line; other causes and messages apart."""
    gone = Finding(Level.FAIL, Cause.EVIDENCE, "report", "node-1", "gone")
    closed = replace(gone, check="collective.all_gather", message="peer closed")
    findings = [replace(closed, subject=f"node-0/rank-{i}", evidence=f"e{i}") for i in range(3)]
    groups = group([*findings, gone])

    assert ["node-0, ranks 0 to 2", "node-1"] == [item.subject_text for item in groups]
    assert "node-0/rank-0, node-0/rank-1, node-0/rank-2" == groups[0].names
    assert ("node-0/rank-1", "e1") in groups[0].evidence


def _unread(
    check: str, reason: str, evidence: str = "", level: Level = Level.FAIL, value: str = ""
) -> Finding:
    return not_measured(check, "node-0", Unmeasured(value, reason), level, evidence, "Look.")


def test_unmeasured_checks_with_one_reason_are_merged() -> None:
    """Of several checks, with the name of each, and what each rests on."""
    findings = [_unread("gpu.memory", "no driver", "a\n"), _unread("gpu.power", "no driver", "a\nb")]
    (item,) = gathered(findings)

    assert ("gpu.memory", "gpu.power") == item.checks
    assert "gpu.memory and 1 more check" == item.where
    assert (("node-0", "a\na\nb"),) == item.evidence


def test_unread_metrics_of_one_check_are_merged() -> None:
    """Metrics with one reason stand together; every metric and every reason is there."""
    (item,) = gathered(
        [
            _unread("gpu.ecc", "has elements without a value", value="sram"),
            _unread("gpu.ecc", "is None, not a number that can be compared", value="GPU 1: dram"),
            _unread("gpu.ecc", "has elements without a value", value="links"),
            _unread("gpu.ecc", "cut"),
        ]
    )

    assert (
        "not measured: sram, links (has elements without a value); "
        "GPU 1: dram (is None, not a number that can be compared); cut"
    ) == item.message


@pytest.mark.parametrize(
    "other",
    [
        replace(_unread("gpu.power", "no driver"), subject="node-1"),
        replace(_unread("gpu.power", "no driver"), cause=Cause.HARDWARE),
        replace(_unread("gpu.power", "no driver"), remedy="Install it."),
        replace(_unread("gpu.power", "no driver"), unmeasured=None),
        _unread("gpu.power", "no driver", level=Level.WARN),
        _unread("gpu.power", "no permission"),
    ],
)
def test_findings_that_differ_otherwise_are_not_merged(other: Finding) -> None:
    """Another machine, cause, remedy, level or reason is another finding."""
    assert 2 == len(gathered([_unread("gpu.memory", "no driver"), other]))


def test_every_page_names_every_check_that_was_not_measured() -> None:
    """Also where they are one finding."""
    checks = ("gpu.memory", "gpu.power", "gpu.ecc")
    verdict = replace(UNREADABLE, findings=tuple(_unread(check, "no driver") for check in checks))

    for page in (*pages_of(None, verdict).values(), terminal(None, verdict, "x", width=80)):
        assert all(check in page.replace("<wbr>", "") for check in checks)


@pytest.mark.parametrize("width", [60, 140])
def test_the_terminal_opens_with_the_answer_and_keeps_to_its_width(width: int) -> None:
    """The first line whole, the others within the width, no colour unless asked."""
    report = wrong_sums(without_node(healthy(4, 2), "node-3"), "node-1/rank-3")
    verdict = verdict_of(report)
    lines = terminal(report, verdict, "local", width).splitlines()

    assert headline(verdict, "local") == lines[0]
    assert all(len(line) <= width for line in lines[1:])
    assert "\x1b" not in "".join(lines)
    assert "\x1b[1;31mNO-GO" in terminal(report, verdict, "local", width, colour=True)


def test_a_command_is_one_line_however_narrow_the_terminal() -> None:
    """Copied from two lines it would be two commands."""
    broken = Finding(
        Level.FAIL, Cause.HARDWARE, "gpu.ecc", "node-1", "has 3 errors", "", "Look.", Action.INSPECT
    )
    verdict = replace(verdict_of(wrong_sums(healthy())), findings=(broken,))
    text = terminal(None, verdict, "p5", 40, context=VerdictContext(RemedyContext("slurm", "p5.48xlarge")))

    assert "  $ ssh node-1 prelaunch check --instance-type p5.48xlarge --profile deep" in text.splitlines()


def test_a_code_block_cannot_be_closed_from_within() -> None:
    """The fence is longer than any run of backticks."""
    assert fenced("a\n````\nb").startswith("`````text\n")


@settings(max_examples=40)
@given(st.text(max_size=60))
def test_escaped_text_is_one_line_without_active_characters(text: str) -> None:
    """Whatever it was."""
    escaped = escape(text)

    assert "\n" not in escaped
    assert not re.search(r"[<>|`*\[\]@]|://", escaped)


def test_junit_has_a_case_for_each_subject_that_did_not_pass_and_one_for_the_others() -> None:
    """Failures for what is known, errors for what is not, skipped for what does not apply; a check that all pass is one case."""
    report = wrong_sums(without_row(healthy(), "compute.gemm", "node-0/rank-0"))
    suite = xml.fromstring(junit(report, verdict_of(report), "local"))
    cases = {(c.get("classname"), c.get("name")): c for c in suite.findall("testcase")}

    assert cases["collective.all_reduce", "node-1/rank-3"].find("failure") is not None
    assert cases["compute.gemm", "node-0/rank-0"].find("error") is not None
    assert cases["gpu.inventory", "cluster"].find("skipped") is not None
    assert len(cases["compute.gemm", "3 ranks"]) == 0
    assert ("1", "1", "1") == (suite.get("failures"), suite.get("errors"), suite.get("skipped"))
    assert str(len(cases)) == suite.get("tests")


def test_junit_keeps_the_remedy_of_a_skipped_check() -> None:
    """It stands nowhere else in the file."""
    warned = Finding(
        Level.WARN, Cause.EVIDENCE, "gpu.inventory", "cluster", "was not measured", "", "Install it."
    )
    suite = xml.fromstring(junit(healthy(), replace(verdict_of(healthy()), findings=(warned,)), "local"))
    (case,) = [one for one in suite.findall("testcase") if one.get("classname") == "gpu.inventory"]

    assert case.find("skipped") is not None and "Install it." in (case.findtext("system-out") or "")


CLOCK = with_metric(healthy(), "system.clock", "node-0", "synchronised", False)


@pytest.mark.parametrize(
    ("report", "on_warn"),
    [
        (None, OnWarn.GO),
        (without_node(healthy(3, 1), "node-2"), OnWarn.GO),
        (without_node(healthy(3, 1, named=False), "node-2"), OnWarn.GO),
        (CLOCK, OnWarn.REFUSE),
        (CLOCK, OnWarn.ASK),
        (replace(healthy(), observations=()), OnWarn.GO),
        (replace(healthy(), plan=(), observations=()), OnWarn.GO),
    ],
)
def test_junit_is_red_for_everything_but_a_go(report: Report | None, on_warn: OnWarn) -> None:
    """A CI that reads only this file must not go on; it goes on with warnings, whose text is there."""
    green = junit(CLOCK, verdict_of(CLOCK), "local")
    verdict = UNREADABLE if report is None else verdict_of(report, replace(POLICY, on_warn=on_warn))
    suite = xml.fromstring(junit(report, verdict, "local"))

    assert int(suite.get("failures", "0")) + int(suite.get("errors", "0")) > 0
    assert 'failures="0" errors="0"' in green and "a clock that is not synchronised" in green


def test_the_matrix_never_says_pass_where_nothing_was_measured() -> None:
    """A node without a row, without a finding even, is "cannot tell"."""
    report = without_row(healthy(), "compute.gemm", "node-0/rank-1")
    silent = replace(verdict_of(healthy()), findings=())
    column = [planned.check for planned in report.plan].index("compute.gemm")
    cells = {line.name: line.cells[column] for line in node_lines(report, silent)}

    assert {"node-0": State.UNKNOWN, "node-1": State.PASS} == cells
    assert State.UNKNOWN is check_lines(report, silent)[column].state


def test_the_clusters_row_does_not_call_the_nodes_checks_skipped() -> None:
    """They were made; the cluster as such has nothing of them."""
    report = healthy(2, 2)
    verdict = verdict_of(report)
    doubt = Finding(Level.WARN, Cause.EVIDENCE, "collective.all_reduce", "cluster", "no baseline")
    grid = html(report, replace(verdict, findings=(doubt,)), "local").partition('id="matrix"')[2]
    (row,) = re.findall(r'<tr><th scope="row">cluster</th>.*?</tr>', grid)

    assert "warn" in row and "skipped<" not in row


@pytest.mark.parametrize(
    "subjects",
    [("node-1",), ("node-1/rank-0", "node-1/rank-1"), ("node-1/rank-0 <-> node-2/rank-9",), ("cluster",)],
)
def test_a_remedy_for_several_nodes_says_each(subjects: tuple[str, ...]) -> None:
    """For one node, its ranks, or one link it stays as it is written; no remedy stays none."""
    assert LOGS == in_number(LOG, ("node-1", "node-2/rank-3"))
    assert "" == in_number("", ("node-1", "node-2/rank-3"))
    assert LOG == in_number(LOG, subjects)
