"""Missing evidence in a terminal: a line per cause, however many checks, nodes and ranks lack it."""

from __future__ import annotations

from dataclasses import replace

from checks.catalog import CATALOG
from checks.model import CLUSTER, Cause, Finding, FindingKind, Level, Scope, Verdict, rank_subject
from checks.model_details import Unmeasured
from tasks.render.findings import gathered
from tasks.render.missing_text import MOST_LINES, missing_lines, parted
from tasks.render.terminal import terminal
from tests.sample_reports import healthy, verdict_of, without_node

EXITED = "its process exited 7"
NODE_CHECKS = tuple(check.name for check in CATALOG if check.scope is Scope.NODE)[:30]
RANK_CHECKS = tuple(check.name for check in CATALOG if check.scope is Scope.RANK)[:11]


def missing(check: str, subject: str, reason: str, level: Level = Level.FAIL) -> Finding:
    """A finding about what a check did not measure."""
    return Finding(
        level, Cause.EVIDENCE, check, subject, f"not measured: {reason}", "a line of evidence", "Run it again.",
        kind=FindingKind.NOT_MEASURED, unmeasured=Unmeasured("", reason),
    )  # fmt: skip


def many() -> Verdict:
    """The node's checks, those of its ranks, and ten reasons of their own."""
    findings = [missing(check, "node-1", EXITED) for check in NODE_CHECKS]
    findings += [
        missing(check, rank_subject("node-1", 8 + rank), EXITED) for check in RANK_CHECKS for rank in range(8)
    ]
    findings += [missing(f"own.check{number}", CLUSTER, f"reason {number}") for number in range(10)]
    report = without_node(healthy(4, 8), "node-1")
    first = verdict_of(report).findings[:1]
    return replace(verdict_of(report), findings=(*first, *findings))


def test_each_cause_is_one_line() -> None:
    """With the number of checks and who lacks them; a remedy that several share is said once, and where the list is."""
    lines = terminal(None, many(), "bravo", 140).splitlines()

    assert lines[0].startswith("CANNOT TELL bravo: node-1 sent no report")
    assert f"  30 checks on node-1 were not measured: {EXITED}" in lines
    assert [True] == [
        line.startswith("  11 checks on node-1, ranks 8 to ") for line in lines if "11 checks" in line
    ]
    assert "  the cluster: own.check0 was not measured: reason 0" in lines
    assert 2 == sum("do: " in line for line in lines), "the first finding's, and theirs"
    assert 1 == sum("--html FILE, or --format json" in line for line in lines)
    assert len(lines) < 40 and not any("a line of evidence" in line for line in lines)


def test_few_causes_are_shown_whole() -> None:
    """With remedy and evidence, in the table."""
    verdict = replace(many(), findings=(many().findings[0], missing("own.check", "node-1", "no tool")))
    text = terminal(None, verdict, "bravo", 140)

    assert "a line of evidence" in text and "Evidence is also missing" not in text


def test_what_failed_stays_whole_beside_what_is_missing() -> None:
    """A broken part is not hidden among the causes."""
    broken = Finding(
        Level.FAIL,
        Cause.HARDWARE,
        "gpu.ecc",
        "node-2",
        "has 3 errors",
        "counter 3",
        "Replace it.",
        is_predicate=True,
    )
    whole, rest = parted(gathered((many().findings[0], broken, *many().findings[1:])))

    assert "gpu.ecc" in {item.check for item in whole} and len(rest) == 12
    assert not any("gpu.ecc" in line for line in missing_lines(rest))


def test_checks_without_evidence_are_gathered_by_how_much_was_observed() -> None:
    """In place of a row each; where they are few each has its row."""
    report = without_node(healthy(4, 8), "node-1")
    few = terminal(report, verdict_of(report), "bravo", 140)
    planned = tuple(replace(report.plan[0], check=f"own.check{number}") for number in range(20))
    whole = replace(report, plan=(*report.plan, *planned))
    text = terminal(whole, verdict_of(whole), "bravo", 140)

    assert "? cannot tell" in few
    assert "cannot tell, 0 of 4 observed, 20 checks: own.check0, " in " ".join(text.split())
    assert "? cannot tell" not in text


def test_hostile_reasons_are_inert_and_short() -> None:
    """However many and however long."""
    hostile = "\x1b[31m\u202e[red]\n" + "x" * 10_000
    findings = tuple(missing(f"a.b{n}{hostile}", f"node{hostile}", f"{n}{hostile}") for n in range(100))
    lines = missing_lines(gathered(findings))

    assert len(lines) <= MOST_LINES + 4 + 3 and all(len(line) < 300 for line in lines)
    assert not any(sign in line for line in lines for sign in ("\x1b", "\u202e", "\n"))
