"""A gate reads what was open on its machines: an open FAIL that it does not measure refuses, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from checks.bundle import pass_of
from checks.documents import open_findings as documents
from checks.documents.open_findings import FindingKey, OpenFinding, OpenFindings
from checks.judge.open_findings.prior_findings import carried, closed_names, without_remedied
from checks.model import Action, Answer, Cause, FindingKind, Level, Report, Verdict
from tests.sample_reports import healthy, verdict_of, with_metric, without_row

OPENED_AT = 1795500000.0


def an_open(
    check: str = "storage.smart",
    level: Level = Level.FAIL,
    cause: Cause = Cause.HARDWARE,
    part: str = "nvme0",
    boot: str = "",
) -> OpenFinding:
    return OpenFinding(
        FindingKey(check, part, "failing", cause), level, Action.REPLACE, "has a failing disk", "Replace the disk.",
        True, "watch", OPENED_AT, OPENED_AT, 0.0, boot,
    )  # fmt: skip


def judged(*found: OpenFinding, omitted: int = 0, text: str | None = None) -> Verdict:
    return verdict_of(with_open(healthy(), 1, *found, omitted=omitted, text=text))


def with_open(
    report: Report, number: int, *found: OpenFinding, omitted: int = 0, text: str | None = None
) -> Report:
    """The report whose node of this number carries these findings, or this text."""
    nodes = [*report.nodes]
    carried = documents.dump(OpenFindings(open=found, omitted=omitted)).decode() if text is None else text
    nodes[number] = replace(nodes[number], open_findings=carried)
    return replace(report, nodes=tuple(nodes))


def test_a_machine_without_open_findings_gets_its_go() -> None:
    assert Answer.GO is judged().answer
    assert Answer.GO is judged(text="").answer


def test_an_open_fail_that_this_gate_does_not_measure_refuses_and_names_the_node() -> None:
    found = judged(an_open())
    [refusing] = [one for one in found.findings if one.level is Level.FAIL]

    assert Answer.NO_GO is found.answer
    assert ("node-1",) == found.condemned
    assert ("storage.smart", "node-1", Cause.HARDWARE) == (refusing.check, refusing.subject, refusing.cause)
    assert (FindingKind.OPEN_BEFORE, Action.REPLACE) == (refusing.kind, refusing.action)
    assert ("nvme0",) == refusing.elements
    assert "2026-11-24 06:00 UTC" in refusing.message
    assert "this gate does not measure storage.smart" in refusing.message
    assert refusing.remedy.startswith("Replace the disk.")


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("cause", list(Cause))
def test_only_a_fail_about_the_machine_refuses(level: Level, cause: Cause) -> None:
    """An open WARN is no reason to refuse, and a gate has its own evidence."""
    refuses = level is Level.FAIL and cause is not Cause.EVIDENCE

    assert refuses is (judged(an_open(level=level, cause=cause)).answer is not Answer.GO)


def test_a_finding_about_a_job_refuses_no_gate() -> None:
    """The job that waits for this gate is another one, and no gate could measure it."""
    assert Answer.GO is judged(an_open("nccl.job", cause=Cause.APPLICATION, part="rank 3 on 10.0.0.7")).answer
    assert Answer.NO_GO is judged(an_open("nccl.tests", cause=Cause.APPLICATION)).answer


def test_gate_judges_an_open_finding_it_measured_by_its_own_result() -> None:
    """The healthy side: system.clock is measured here, and is in order."""
    assert Answer.GO is judged(an_open("system.clock", part="")).answer


@pytest.mark.parametrize(("boot", "nodes"), [*product(("b-1", "b-0"), (2, 4))])
def test_a_gate_of_few_nodes_does_not_answer_a_comparison(boot: str, nodes: int) -> None:
    """After a restart it warns: the re-test of a repaired node has few nodes. node-1 is in the boot b-1."""
    known = replace(an_open("system.clock", part="", boot=boot), compared_nodes=4)
    found = verdict_of(report := with_open(healthy(nodes), 1, known))
    is_small, has_restarted = nodes < 4, boot != "b-1"

    assert found.answer is (Answer.NO_GO if is_small and not has_restarted else Answer.GO)
    assert is_small is any("compares too few nodes" in one.message for one in found.findings)
    assert (has_restarted and not is_small) is bool(closed_names(report, found.findings))


def test_a_check_that_failed_to_measure_is_not_measured() -> None:
    blind = without_row(healthy(), "system.clock", "node-1")
    known = an_open("system.clock", part="")

    assert Answer.NO_GO is verdict_of(with_open(blind, 1, known)).answer
    other = verdict_of(with_open(blind, 0, known))
    assert Answer.CANNOT_TELL is other.answer, "node-0 measured it; node-1 lacks evidence"


def test_gate_reports_a_finding_once_that_was_also_open_before() -> None:
    sick = with_metric(healthy(), "system.clock", "node-1", "wall_rate", 0.5)
    known = replace(an_open(), key=FindingKey("system.clock", "", "wall_rate", Cause.CONFIGURATION))
    grave = [one for one in verdict_of(with_open(sick, 1, known)).findings if one.level is Level.FAIL]

    assert [("system.clock", None)] == [(one.check, one.kind) for one in grave]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"schema_version": 99}', "x" * 100, '{"schema_version": 1, "colour": 1}']
)
def test_a_file_that_cannot_be_read_is_missing_evidence(text: str) -> None:
    found = judged(text=text)

    assert Answer.CANNOT_TELL is found.answer
    assert {("node-1", Cause.EVIDENCE)} == {
        (one.subject, one.cause) for one in found.findings if one.level is Level.FAIL
    }


def test_findings_that_did_not_fit_into_the_file_refuse() -> None:
    assert Answer.CANNOT_TELL is judged(omitted=3).answer


def test_a_report_carries_what_a_gate_has_to_answer() -> None:
    mild, lost = an_open(level=Level.WARN, part="a"), an_open(cause=Cause.EVIDENCE, part="b")
    grave = [an_open(part=f"nvme{number}") for number in range(documents.MOST_CARRIED + 7)]
    made = carried(OpenFindings(open=(mild, lost, *grave), opened_total=500))

    assert documents.MOST_CARRIED == len(made.open)
    assert {Level.FAIL} == {one.level for one in made.open}
    assert 7 == made.omitted
    hostile = [replace(one, message="\U0001f525" * 500, remedy="\U0001f525" * 500) for one in grave]
    short = carried(OpenFindings(open=tuple(hostile)))
    assert len(documents.dump(short)) <= documents.CARRIED_BYTES + 1000, "a node's report has a limit"
    assert len(hostile) == len(short.open) + short.omitted
    assert Answer.CANNOT_TELL is judged(omitted=short.omitted).answer, "what was left out refuses"
    assert (OpenFindings(open=(mild, lost))) == carried(OpenFindings(open=(mild, lost), opened_total=2))


def test_a_pass_names_what_the_gate_answered() -> None:
    """The node closes these when it gets the pass: the flow cannot reach it otherwise."""
    mended = replace(an_open(), key=FindingKey("system.clock", "", "wall_rate", Cause.CONFIGURATION))
    report = with_open(healthy(), 1, mended, an_open())

    assert {"node-1": (mended.key.name,)} == closed_names(report, verdict_of(report).findings)
    sick = with_metric(report, "system.clock", "node-1", "wall_rate", 0.5)
    assert {} == closed_names(sick, verdict_of(sick).findings)
    passed = pass_of(sick, verdict_of(sick)).nodes[1]
    assert mended.key.name in passed.overridden and passed.measured_at == sick.nodes[1].measured_at != ""
    blind = without_row(report, "system.clock", "node-1")
    assert {} == closed_names(blind, verdict_of(blind).findings)


def test_hardware_is_answered_after_a_restart_alone() -> None:
    broken = replace(an_open(boot="b-1"), key=FindingKey("system.clock", "", "wall_rate", Cause.HARDWARE))
    same, other = (with_open(healthy(), node, broken) for node in (1, 0))

    assert {} == closed_names(same, verdict_of(same).findings), "node-1 still runs in the boot b-1"
    assert {"node-0": (broken.key.name,)} == closed_names(other, verdict_of(other).findings)


@pytest.mark.parametrize("cause", [Cause.HARDWARE, Cause.CONFIGURATION])
@pytest.mark.parametrize(("boot", "answer"), [("b-1", Answer.NO_GO), ("b-0", Answer.GO)])
@pytest.mark.parametrize("synchronised", [True, False])
def test_a_counted_event_is_answered_after_a_restart_alone(
    cause: Cause, boot: str, answer: Answer, synchronised: bool
) -> None:
    """That a counter is quiet, or grows less, while a gate runs says nothing of what it counted before. node-1 is in the boot b-1."""
    known = replace(an_open(boot=boot), key=FindingKey("system.clock", "", "synchronised", cause))
    measured = with_metric(healthy(), "system.clock", "node-1", "synchronised", synchronised)
    report = with_open(measured, 1, known)
    counting = tuple(replace(line, events=("synchronised",)) for line in report.plan)
    found = verdict_of(replace(report, plan=counting))

    assert answer is found.answer
    refusing = [one for one in found.findings if one.kind is FindingKind.OPEN_BEFORE]
    assert all("restart the node" in one.remedy for one in refusing)
    assert Answer.GO is verdict_of(report).answer, "a state is as it was measured last"


@pytest.mark.parametrize(
    ("boot", "check", "left"),
    [("b-1", "compute.gemm", 1), ("b-0", "compute.gemm", 0), ("b-0", "storage.smart", 1)],
)
def test_a_prolog_lets_a_restarted_node_in_for_what_gates_measure(boot: str, check: str, left: int) -> None:
    """Otherwise no gate could run on a node that was repaired. node-1 is in the boot b-1."""
    report = without_remedied(with_open(healthy(), 1, an_open(check, boot=boot)), {"compute.gemm"})

    assert left == len(documents.load(report.nodes[1].open_findings).open)
    assert "" == report.nodes[0].open_findings


def test_no_open_finding_ever_improves_an_answer() -> None:
    """Whatever the file holds: without it the answer is the same or better."""
    ranks = {Answer.GO: 0, Answer.ASK: 1, Answer.CANNOT_TELL: 2, Answer.NO_GO: 2}
    for base in (healthy(), without_row(healthy(), "system.clock", "node-1")):
        plain = verdict_of(base).answer
        for key in product(("system.clock", "storage.smart"), Level, Cause):
            assert ranks[verdict_of(with_open(base, 1, an_open(*key))).answer] >= ranks[plain]


def test_a_pass_closes_no_finding_of_hardware_that_has_the_name_of_another_one() -> None:
    """As a copy that is slower than its peers, and than any GPU: nothing has repaired node-1, which runs in the boot b-1."""
    keys = [FindingKey("system.clock", "", "wall_rate", one) for one in (Cause.HARDWARE, Cause.CONFIGURATION)]
    report = with_open(healthy(), 1, *(replace(an_open(boot="b-1"), key=key) for key in keys))

    assert {} == closed_names(report, verdict_of(report).findings)
