"""A tool's output judged: by the rules that hold it, and never better than what it shows."""

from __future__ import annotations

import math

import pytest

from checks.explain.reading import WHOLE, CheckData, Complete, OutputKind, Reading, ReadOptions
from checks.facts.builtin import builtin
from checks.judge.tool_output import Judged, judge, unread
from checks.model import Answer, Cause, Declared, Level, Value
from checks.policy import CheckPolicy, OnWarn, Over, Policy, Rule

WRONG = Rule("wrong", "zero is right", equals=0, remedy="Do not train.")
LINKS = Rule("links", "the table", fact="nvlinks", each="gpus")
P5 = ReadOptions(Declared("p5.48xlarge", 1, 8, 8))


def policy(*rules: Rule, on_warn: OnWarn = OnWarn.GO, check: str = "a.check") -> Policy:
    return Policy("p", ("p5.48xlarge",), on_warn, 0.25, {check: CheckPolicy(rules=rules)})


def reading(metrics: dict[str, Value], lines: dict[str, str] | None = None, *unread: str) -> Reading:
    return Reading(
        OutputKind.DCGMI, "a title", (CheckData("a.check", metrics, lines or {}, "all of it"),), unread
    )


def judged(read: Reading, by: Policy, asked: ReadOptions | None = None) -> Judged:
    return judge(read, by, builtin(), asked or ReadOptions(), b"data")


def said(found: Judged) -> list[tuple[str, str, str]]:
    return [(f.level.value, f.cause.value, f.message) for f in found.verdict.findings]


def test_reading_that_meets_its_rules_is_a_go_and_counts_them() -> None:
    """With the number of rules that were applied."""
    found = judged(reading({"wrong": 0}), policy(WRONG))

    assert (Answer.GO, Level.PASS) == (found.verdict.answer, found.verdict.level)
    assert (("a.check (1 rule)",), ()) == (found.held, found.left_out)


def test_a_finding_bears_the_lines_it_rests_on() -> None:
    """Those of its metric, and the remedy of its rule."""
    found = judged(reading({"wrong": 3}, {"wrong": "17: 3 wrong"}), policy(WRONG))
    finding = found.verdict.findings[0]

    assert (Answer.NO_GO, ()) == (found.verdict.answer, found.verdict.condemned), "its node is not known"
    assert ("17: 3 wrong", "Do not train.") == (finding.evidence, finding.remedy)


def test_finding_quotes_only_the_lines_of_its_gpu() -> None:
    """GPU 1's, and not GPU 10's; all of them where all are meant."""
    gpus = tuple(f"GPU {n}" for n in range(11))
    lines = {"heat": "\n".join(f"{n}: line of GPU {n}" for n in range(11))}
    bound, equal = Rule("heat", "s", fail_above=90, each="gpus"), Rule("heat", "s", equals=40, each="gpus")
    hot: dict[str, Value] = {"heat": tuple(95 if n == 1 else 40 for n in range(11)), "gpus": gpus}

    for rule in (bound, equal):
        (finding,) = judged(reading(hot, lines), policy(rule)).verdict.findings
        assert "1: line of GPU 1" == finding.evidence
    (all_of_them,) = judged(
        reading({"heat": (95,) * 11, "gpus": gpus}, lines), policy(equal)
    ).verdict.findings
    assert lines["heat"] == all_of_them.evidence


def test_a_fact_needs_a_declaration() -> None:
    """Without one it is named as not judged, and the rest is judged."""
    found = judged(reading({"wrong": 0, "links": (18,)}), policy(WRONG, LINKS))

    assert Answer.GO is found.verdict.answer
    assert ("a.check links: not judged without --instance-type",) == found.left_out


def test_a_fact_is_judged_with_a_declaration() -> None:
    """Against the declared type's row, and the element is named."""
    metrics: dict[str, Value] = {"links": (18, 17), "gpus": ("GPU 0", "GPU 1")}
    found = judged(reading(metrics), policy(LINKS), P5)

    assert [("FAIL", "HARDWARE", "GPU 1: links is 17, but the instance type has 18")] == said(found)


def test_a_part_to_which_no_rule_applies_is_no_pass() -> None:
    """Whether the rules want a declaration, compare nodes, or look at something else."""
    peers = Rule("links", "peers", over=Over.PEERS, warn_below=0.5)
    for rule in (LINKS, peers, WRONG):
        assert Answer.CANNOT_TELL is judged(reading({"links": (18,)}), policy(rule)).verdict.answer


def test_rule_that_compares_nodes_is_listed_as_not_judged() -> None:
    """One output is of one node."""
    same = Rule("version", "one image", over=Over.CLUSTER, same=True)
    found = judged(reading({"wrong": 0, "version": "1"}), policy(WRONG, same))

    assert (
        "a.check version: a gate compares it between nodes, which one tool's output does not show",
    ) == found.left_out


def test_rule_without_its_metric_in_the_output_is_listed_as_not_judged() -> None:
    """A rule about something else is not silently held."""
    found = judged(reading({"wrong": 0}), policy(WRONG, Rule("heat", "s", fail_above=90)))

    assert ("a.check heat: the output does not contain it, or it needs --instance-type",) == found.left_out


def test_a_check_without_a_line_is_no_pass() -> None:
    """The policy says nothing of it."""
    found = judged(reading({"wrong": 0}), policy(WRONG, check="other.check"))

    assert [("FAIL", "EVIDENCE", "policy 'p' has no entry for a.check")] == said(found)


def test_reading_with_unread_parts_cannot_tell() -> None:
    """Though all that could be read is healthy."""
    found = judged(reading({"wrong": 0}, {}, "GPU 3 is missing from the table"), policy(WRONG))

    assert Answer.CANNOT_TELL is found.verdict.answer
    assert [("FAIL", "EVIDENCE", "GPU 3 is missing from the table")] == said(found)


def test_a_fault_outranks_what_could_not_be_read() -> None:
    """It stands first, and the answer is no-go."""
    found = judged(reading({"wrong": 1}, {}, "the end is missing"), policy(WRONG))

    assert Answer.NO_GO is found.verdict.answer
    assert [Cause.HARDWARE, Cause.EVIDENCE] == [f.cause for f in found.verdict.findings]


@pytest.mark.parametrize("value", [(None, 0), (), math.nan, (math.inf,)])
def test_reading_with_a_value_that_is_no_number_cannot_tell(value: Value) -> None:
    """A null, an empty list, NaN and infinity are not below any bound."""
    bound = Rule("wrong", "s", fail_above=5)

    assert Answer.CANNOT_TELL is judged(reading({"wrong": value}), policy(bound)).verdict.answer


@pytest.mark.parametrize("rule", [WRONG, Rule("wrong", "s", uniform=True)])
def test_an_empty_list_is_no_pass_for_any_rule(rule: Rule) -> None:
    """It is not "all alike", and not "none that differs"."""
    assert Answer.CANNOT_TELL is judged(reading({"wrong": ()}), policy(rule)).verdict.answer


def test_a_null_that_no_rule_looks_at_is_a_warning() -> None:
    """As in a report."""
    found = judged(reading({"wrong": 0, "heat": (41, None)}), policy(WRONG))

    assert [("WARN", "EVIDENCE", "not measured: heat[1] has no value")] == said(found)


def test_a_reading_of_nothing_is_no_pass() -> None:
    """A file of the right kind that measures nothing."""
    found = judge(Reading(OutputKind.DCGMI, "t", ()), policy(WRONG), builtin(), ReadOptions(), b"")

    assert Answer.CANNOT_TELL is found.verdict.answer


def test_a_policy_for_other_types_cannot_judge() -> None:
    """As for a report."""
    asked = ReadOptions(Declared("g5.xlarge", 1, 1, 1))

    assert Answer.CANNOT_TELL is judged(reading({"wrong": 0}), policy(WRONG), asked).verdict.answer


def test_a_warning_means_what_the_policy_says() -> None:
    """Refused where it refuses."""
    warn = Rule("wrong", "s", warn_above=0)
    answers = [
        judged(reading({"wrong": 1}), policy(warn, on_warn=way)).verdict.answer
        for way in (OnWarn.GO, OnWarn.REFUSE, OnWarn.ASK)
    ]

    assert [Answer.GO, Answer.NO_GO, Answer.ASK] == answers


def test_the_order_of_findings_is_the_readings() -> None:
    """Worst first, then as they came; never that of a hash."""
    rules = tuple(Rule(f"m{n}", "s", equals=0) for n in range(20))
    found = judged(reading({f"m{n}": 1 for n in range(20)}), policy(*rules))

    assert [f"m{n} is 1, it must be 0" for n in range(20)] == [m for _, _, m in said(found)]


def test_unreadable_output_cannot_tell_and_gives_one_reason() -> None:
    """One finding says why."""
    found = unread("it ends in the middle of a table", policy(WRONG), builtin(), b"data")

    assert Answer.CANNOT_TELL is found.verdict.answer
    assert [("FAIL", "EVIDENCE", "it ends in the middle of a table")] == said(found)


@pytest.mark.parametrize(
    ("found", "remedy"),
    [
        (judged(reading({"wrong": 0}, {}, "it ends at line 3"), policy(WRONG)), WHOLE),
        (judged(reading({"wrong": 0}, {}, Complete("Give --nodes")), policy(WRONG)), ""),
        (judged(reading({"wrong": 0}), policy(WRONG, check="b.check")), "Name a policy that judges a.check"),
        (judged(reading({"links": (18,)}), policy(LINKS)), "Give --instance-type"),
        (judged(reading({"other": 18}), policy(LINKS), P5), "or name another policy".capitalize()),
        (judged(Reading(OutputKind.DCGMI, "t", ()), policy(WRONG)), "prelaunch explain --help"),
        (unread("it is a binary", policy(WRONG), builtin(), b"", "Give its text."), "Give its text."),
    ],
)
def test_a_remedy_fits_what_is_missing(found: Judged, remedy: str) -> None:
    """The whole output is asked for only where a part of it is missing."""
    (finding,) = [one for one in found.verdict.findings if one.cause is Cause.EVIDENCE]

    assert remedy in finding.remedy and bool(remedy) is bool(finding.remedy)
    assert (remedy == WHOLE) is (finding.remedy == WHOLE)
