"""Where an engine withholds the kernel's log: what is accepted, what is required in its place, and what the verdict says."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache

import pytest

from checks import catalog
from checks.facts import withheld_kernel_log
from checks.facts.builtin import builtin
from checks.facts.instances import lacks
from checks.judge.verdict import decide
from checks.model import (
    CLUSTER,
    Answer,
    Cause,
    Declared,
    KernelLog,
    Level,
    Observation,
    Outcome,
    Profile,
    Report,
    Skip,
    Verdict,
)
from checks.policy import Policy
from tasks.gate_file.references import default_policy
from tests import catalogue_reports
from tests.sample_reports import with_metric, with_row

# Of two p5.48xlarge some collectives have no published rate, which is a WARN of its own.
NODES = {"p5.48xlarge": 1, "trn1.32xlarge": 2, "cpu": 2}
KINDS = tuple(NODES)
# The policy for hosts without accelerators accepts that a laptop's log cannot be read.
STRICT = KINDS[:2]


expected_report = cache(catalogue_reports.expected_report)


def changed(
    report: Report, checks: Collection[str], change: Callable[[Observation], Observation | None]
) -> Report:
    """The report in which the observations of these checks are others, or are not there."""
    rows = (change(row) if row.check in checks else row for row in report.observations)
    return replace(report, observations=tuple(row for row in rows if row is not None))


def dropped(report: Report, check: str) -> Report:
    """The report without the check's observations."""
    return changed(report, [check], lambda row: None)


def skipped(report: Report, check: str) -> Report:
    """The report in which the check was not installed."""
    skip = Observation(check, "", Outcome.SKIPPED, 0.1, {}, Skip.TOOL_MISSING, "not installed")
    return changed(report, [check], lambda row: replace(skip, subject=row.subject))


def unread(report: Report, skip: Skip = Skip.NOT_PERMITTED) -> Report:
    """The report of nodes that cannot read the kernel's log."""
    none = Observation("", "", Outcome.SKIPPED, 0.1, {}, skip, "/dev/kmsg: No such file or directory")
    readers = withheld_kernel_log.READERS
    return changed(report, readers, lambda row: replace(none, check=row.check, subject=row.subject))


@cache
def confined(kind: str, profile: Profile = Profile.QUICK) -> Report:
    """Healthy machines of the type on an engine that withholds the log."""
    return unread(expected_report(kind, NODES[kind], profile, KernelLog.WITHHELD))


def judged(report: Report, policy: Policy | None = None) -> Verdict:
    return decide(report, policy or default_policy(report.declared.instance_type)[1], builtin())


def stand_ins(kind: str) -> list[str]:
    """Those that apply to the type."""
    instance = builtin().instances[kind]
    declared = Declared(kind, 2, instance.gpus, max(instance.gpus, 1))
    return [
        name
        for name, one in withheld_kernel_log.STAND_INS.items()
        if lacks(one.machine_part, declared, instance) is None
    ]


EACH = [(kind, name) for kind in KINDS for name in stand_ins(kind)]


@pytest.mark.parametrize(
    ("kind", "profile"), [*((kind, Profile.QUICK) for kind in KINDS), ("p5.48xlarge", Profile.DEEP)]
)
def test_healthy_machines_whose_log_is_withheld_go(kind: str, profile: Profile) -> None:
    """A clean PASS with whole coverage, in every profile; one note says what could not be read."""
    verdict = judged(confined(kind, profile=profile))

    assert (Answer.GO, Level.PASS, True) == (verdict.answer, verdict.level, verdict.coverage.complete)
    [note] = verdict.findings
    assert (Level.PASS, Cause.EVIDENCE) == (note.level, note.cause)
    assert ("kernel", CLUSTER) == (note.check, note.subject)
    assert all(name in note.message for name in stand_ins(kind))
    assert "what happened before the job" in note.message
    assert ("miss Xid 62, 79, 119 and 120 at times" in note.message) == (kind == "p5.48xlarge")


@pytest.mark.parametrize("kind", STRICT)
def test_a_log_that_should_be_readable_and_is_not_cannot_pass(kind: str) -> None:
    """As before: nobody can tell."""
    verdict = judged(unread(expected_report(kind, NODES[kind], Profile.QUICK)))

    assert Answer.CANNOT_TELL is verdict.answer


@pytest.mark.parametrize(("kind", "name"), EACH)
def test_no_stand_in_may_be_missing(kind: str, name: str) -> None:
    """Dropped, skipped for any reason that is not declared, or left out of the plan: nobody can tell."""
    report = confined(kind)
    without = dropped(report, name)
    absent = tuple(line for line in report.plan if line.check != name)
    (own,) = (line for line in report.plan if line.check == name)
    left_out = (*absent, replace(own, skip=Skip.NOT_IN_PROFILE))
    spoilt = (without, skipped(report, name), replace(without, plan=left_out), replace(without, plan=absent))

    assert {Answer.CANNOT_TELL} == {judged(one).answer for one in spoilt}


@pytest.mark.parametrize(("kind", "name"), [(kind, stand_ins(kind)[0]) for kind in KINDS])
def test_no_policy_makes_a_stand_in_optional(kind: str, name: str) -> None:
    """Neither by `required`, nor by `accept_skips`, nor by having no line for it."""
    report, policy = confined(kind), default_policy(kind)[1]
    easy = replace(policy.checks[name], required=False, rules=(), accept_skips=(Skip.TOOL_MISSING,))
    eased = replace(policy, checks={**policy.checks, name: easy})
    without = replace(policy, checks={check: line for check, line in policy.checks.items() if check != name})
    bare = replace(report, plan=tuple(line for line in report.plan if line.check != name))

    assert Answer.CANNOT_TELL is judged(skipped(report, name), eased).answer
    missing = judged(dropped(bare, name), without)
    assert (Answer.CANNOT_TELL, name) == (missing.answer, missing.findings[0].check)
    assert "replaces the kernel log, but the plan does not contain it" in missing.findings[0].message


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_whose_declaration_was_edited_cannot_pass(kind: str) -> None:
    """Readable made withheld: what stands in was not planned, so that nobody can tell. The other way round too."""
    readable = unread(expected_report(kind, NODES[kind], Profile.QUICK))
    withheld_now = replace(readable, declared=replace(readable.declared, kernel_log=KernelLog.WITHHELD))
    other = confined(kind)
    readable_now = replace(other, declared=replace(other.declared, kernel_log=KernelLog.READABLE))

    assert Answer.CANNOT_TELL is judged(withheld_now).answer
    if kind in STRICT:
        assert Answer.CANNOT_TELL is judged(readable_now).answer


def test_a_withheld_log_that_can_be_read_is_judged() -> None:
    """Its faults count as anywhere, and no note is written where every node's log was read."""
    report = expected_report("p5.48xlarge", 1, Profile.QUICK, KernelLog.WITHHELD)
    sick = with_metric(report, "kernel.sxid", "node-0", "fatal", 1)

    assert () == judged(report).findings
    assert Answer.NO_GO is judged(sick).answer


def test_a_log_that_one_node_cannot_read_is_noted_for_one() -> None:
    """The other's is judged, and counts in the coverage."""
    report = expected_report("trn1.32xlarge", 2, Profile.QUICK, KernelLog.WITHHELD)
    [half] = (o for o in unread(report).observations if (o.check, o.subject) == ("kernel.xid", "node-1"))
    verdict = judged(with_row(report, "kernel.xid", "node-1", lambda row: half))

    assert Answer.GO is verdict.answer
    assert verdict.findings[0].message.startswith("The kernel log of 1 of 2 nodes could not be read")


@pytest.mark.parametrize("skip", [Skip.PREREQUISITE, Skip.NOT_IN_PROFILE, Skip.NO_GPU_DECLARED])
def test_only_a_log_that_cannot_be_read_is_accepted(skip: Skip) -> None:
    """Any other reason is none."""
    report = expected_report("cpu", 2, Profile.QUICK, KernelLog.WITHHELD)

    assert Answer.CANNOT_TELL is judged(unread(report, skip)).answer


def test_a_reader_that_says_nothing_is_missing() -> None:
    """A dropped or errored observation of the log is no skip."""
    report = confined("trn1.32xlarge")
    hung = Observation("kernel.xid", "", Outcome.ERRORED, 0.1, {}, None, "it hung")
    errored = changed(report, ["kernel.xid"], lambda row: replace(hung, subject=row.subject))

    assert Answer.CANNOT_TELL is judged(dropped(report, "kernel.xid")).answer
    assert Answer.CANNOT_TELL is judged(errored).answer


def test_the_table_names_checks_of_the_catalogue_with_their_own_part() -> None:
    """And whoever reads the log is not among those that stand in for it."""
    known = {check.name: check for check in catalog.CATALOG}

    assert {name: one.machine_part for name, one in withheld_kernel_log.STAND_INS.items()} == {
        name: known[name].part for name in withheld_kernel_log.STAND_INS
    }
    assert set(withheld_kernel_log.READERS) <= known.keys() - withheld_kernel_log.STAND_INS.keys()
