"""Every reason for which a certificate stands for nothing, and the machine for which it stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.bundle import make
from checks.documents.certificates import Certificate, MachineState, dump
from checks.documents.certificates import load as load_certificate
from checks.documents.open_findings import OpenFindings
from checks.documents.open_findings import dump as dump_open
from checks.documents.report import digest, dump_plain, load
from checks.documents.report import dump as dump_report
from checks.facts.instances import Facts
from checks.judge.certificates.decision import (
    CertificateDecision,
    WhyMeasured,
    certified,
    conditions_of,
    decisions,
    is_sampled,
)
from checks.judge.verdict import decide
from checks.model import Answer, Cause, Count, FindingKind, Level, Node, Profile
from checks.policy import Policy
from tasks.render.findings import verdict_json
from tests.certified_machines import (
    CATALOGUE,
    CHECKS,
    COSTLY,
    DECLARED,
    FACTS,
    THEN,
    History,
    PastGate,
    judged_now,
    measured,
    policy_of,
    report_of,
    skipped,
    steady,
    terms,
    verdict,
)
from tests.certified_machines import offered as certificates_of
from tests.checks.judge.open_findings.test_prior_findings import an_open

FIRST = PastGate("first", 900.0)
MACHINE = certificates_of(steady(1.0, (FIRST,)))[0].machine
# Of this gate none of the three checks is in the sample.
QUIET = next(
    f"now-{number}"
    for number in range(99)
    if not any(is_sampled(f"now-{number}", MACHINE, check) for check in COSTLY)
)


# By so many seconds a clock was set.
SET_BY_S = (-86400.0, -60.0, 60.0, 86400.0)


def usual(**more: object) -> History:
    """A machine that the first gate certified, after an hour of clean rounds."""
    return steady(1.0, (FIRST,), gate_id=QUIET, **more)


def node_of(history: History, policy: Policy = THEN) -> Node:
    """The history's node now."""
    return history.node(history.boot_s, dict(history.identity), policy)


def decided(history: History, node: Node | None = None, offered: tuple[Certificate, ...] | None = None,
            policy: Policy = THEN, facts: Facts = FACTS) -> dict[str, CertificateDecision]:  # fmt: skip
    """The decisions on a node, by default on that of the history with the certificates of its store."""
    node = node or node_of(history)
    offered = certificates_of(history) if offered is None else offered
    return decisions(node, offered, terms(history.gate_id, policy, facts.digest))


def whys(found: dict[str, CertificateDecision]) -> set[WhyMeasured | None]:
    """The reasons, each once."""
    return {one.reason for one in found.values()}


def test_the_same_machine_under_an_unbroken_watch_need_not_measure_again() -> None:
    history = usual()
    found, node, offered = decided(history), node_of(history), certificates_of(history)

    assert {*COSTLY} == {*found} == {*certified(node, offered, terms(history.gate_id))}
    assert {} == certified(node, offered, terms(history.gate_id, profile=Profile.QUICK))
    assert {None} == whys(found)
    assert [("first", history.boot_s - 900.0)] * 3 == [(one.gate_id, one.age_s) for one in found.values()]


def test_another_machine_with_the_same_name_has_no_certificate() -> None:
    identity = {"host": "node-0", "boot_id": "boot-1", "product_uuid": "board-2", "driver": "570"}

    assert {} == decided(usual(identity=tuple(identity.items())))


def test_a_machine_whose_boot_is_not_known_has_none() -> None:
    """Two such machines would have the same identity."""
    history = usual()
    node = history.node(history.boot_s, {"host": "node-0"}, THEN)
    [one] = certificates_of(history)

    assert {} == decided(history, node, (replace(one, machine="0" * 64),))


def test_other_policies_facts_and_profiles_measure() -> None:
    history = usual()
    quick = decisions(node_of(history), certificates_of(history), terms(QUIET, profile=Profile.QUICK))
    facts = Facts(FACTS.instances, digest(b"others"))

    assert {WhyMeasured.OTHER_WATCH} == whys(decided(history, policy=policy_of(fail_above=0.6)))
    assert {WhyMeasured.OTHER_WATCH} == whys(decided(history, facts=facts))
    assert {WhyMeasured.OTHER_CONDITIONS} == whys(quick)
    assert {} == decided(history, policy=policy_of(0.0))


def test_more_nodes_are_the_same_conditions_and_another_machine_type_is_not() -> None:
    """What one node measures by itself does not depend on how many there are."""
    many = replace(DECLARED, nodes=7, node_names=tuple(f"n{number}" for number in range(7)))
    said = [conditions_of("a" * 64, FACTS.digest, CATALOGUE, Profile.STANDARD, one)
            for one in (DECLARED, many, replace(DECLARED, instance_type="toy.4x"), replace(DECLARED, ranks_per_node=2))]  # fmt: skip

    assert said[0] == said[1]
    assert 3 == len({*said})


STATE = usual().state(usual().boot_s, THEN)
# A watch that was told of a machine without GPUs looks at none.
OTHER_WATCH = STATE.record and replace(STATE.record, instance_type="toy.4x")
STATES = {
    "no state": ("", WhyMeasured.NO_WATCH),
    "a cut state": ("{", WhyMeasured.NO_WATCH),
    "no record": (dump(replace(STATE, record=None)), WhyMeasured.NO_WATCH),
    "another watch": (dump(replace(STATE, record=OTHER_WATCH)), WhyMeasured.OTHER_WATCH),
    "no gate": (dump(replace(STATE, gates=())), WhyMeasured.GATE_FORGOTTEN),
    "a gate between": (dump(replace(STATE, gates=("first", "node-1234"))), WhyMeasured.GATE_BETWEEN),
    "a quiet gate": (dump(replace(STATE, gates=("first", QUIET))), None),
    **{
        f"the clock set by {by_s} s": (dump(replace(STATE, at=STATE.at + by_s)), WhyMeasured.CLOCK_MOVED)
        for by_s in SET_BY_S
    },
}


@pytest.mark.parametrize(("state", "why"), STATES.values(), ids=STATES)
def test_certificates_stand_only_for_what_the_machine_remembers(state: str, why: WhyMeasured | None) -> None:
    """Without a record of the watch, or with another gate in between, everything is measured."""
    assert {why} == whys(decided(usual(), replace(node_of(usual()), machine_state=state)))


def test_a_watch_that_was_interrupted_or_has_fallen_silent_stands_for_nothing() -> None:
    history = usual()
    gap = replace(history, rounds=(*history.rounds[:20], *history.rounds[25:]))
    silent = replace(history, boot_s=history.boot_s + 200.0)
    late = replace(history, rounds=tuple(one for one in history.rounds if one[1] > 900.0))

    assert {WhyMeasured.WATCH_BROKEN} == whys(decided(gap))
    assert {WhyMeasured.WATCH_BROKEN} == whys(decided(late))
    assert {WhyMeasured.WATCH_SILENT} == whys(decided(silent))


@pytest.mark.parametrize("text", ["unreadable", dump_open(OpenFindings(omitted=3)).decode()])
def test_findings_that_are_open_or_may_be_open_measure(text: str) -> None:
    assert {WhyMeasured.OPEN_FINDINGS} == whys(
        decided(usual(), replace(node_of(usual()), open_findings=text))
    )


def test_a_file_in_which_all_findings_are_closed_is_no_reason() -> None:
    closed = dump_open(OpenFindings(opened_total=4, closed_total={"gate": 4})).decode()

    assert {None} == whys(decided(usual(), replace(node_of(usual()), open_findings=closed)))


@pytest.mark.parametrize(
    ("later_s", "level", "reason"),
    [
        (-1.0, Level.WARN, WhyMeasured.OPEN_FINDINGS),
        (1.0, Level.WARN, None),
        (1.0, Level.FAIL, WhyMeasured.OPEN_FINDINGS),
    ],
)
def test_warning_of_the_watch_during_the_checks_voids_nothing(
    later_s: float, level: Level, reason: WhyMeasured | None
) -> None:
    """By then the checks have been skipped. A FAIL of the machine voids all the same."""
    node = node_of(usual())
    opened_at = load_certificate(MachineState, node.machine_state).at + later_s
    text = dump_open(OpenFindings(open=(replace(an_open(level=level), opened_at=opened_at),))).decode()

    assert {reason} == whys(decided(usual(), replace(node, open_findings=text)))


def test_a_certificate_is_valid_for_as_long_as_the_policy_says() -> None:
    short = policy_of(0.5)
    history = usual()
    [one] = certificates_of(history)
    said = terms(QUIET, short).conditions

    for begun_ago_s, why in ((1700.0, None), (1900.0, WhyMeasured.TOO_OLD)):
        state = history.state(history.boot_s, short)
        node = replace(node_of(history, short), machine_state=dump(state))
        began = history.boot_s - begun_ago_s
        moved = replace(one, boot_s=began, at=history.clock(began), conditions=said)
        assert {why} == whys(decided(history, node, (moved,), short))


@pytest.mark.parametrize("by_s", SET_BY_S)
def test_a_clock_that_was_set_since_the_certifying_gate_measures(by_s: float) -> None:
    [one] = certificates_of(usual())

    assert {WhyMeasured.CLOCK_MOVED} == whys(decided(usual(), offered=(replace(one, at=one.at + by_s),)))


def test_certificate_sampling_takes_one_in_ten_by_the_gate_id() -> None:
    chosen = [is_sampled(f"gate-{gate}", "machine", "disk.io") for gate in range(20000)]

    assert 0.097 < sum(chosen) / len(chosen) < 0.103
    assert chosen == [is_sampled(f"gate-{gate}", "machine", "disk.io") for gate in range(20000)]


def test_the_verdict_lists_each_skip_with_its_gate_and_age_and_counts_it_apart() -> None:
    found = verdict(usual(), frozenset(COSTLY))

    assert (Level.WARN, Answer.GO) == (found.level, found.answer)
    assert (Count(2, 5), 3) == (found.coverage.checks, found.coverage.certified)
    assert {*COSTLY} == {one.check for one in found.findings if one.kind is FindingKind.CERTIFIED}
    assert {Cause.EVIDENCE} == {one.cause for one in found.findings}
    assert {f"was not tested with {name} again: gate first did so 54 min ago" for name in COSTLY} == {
        one.message for one in found.findings
    }


def test_a_report_whose_certificates_cannot_be_read_has_none() -> None:
    rows = tuple(skipped(name) if name in COSTLY else measured(name) for name in CHECKS)

    for text in ("", "{", '{"certificates": [{"machine": "x"}]}'):
        found = decide(report_of(QUIET, node_of(usual()), rows, text), THEN, FACTS)
        assert (Answer.CANNOT_TELL, 0) == (found.answer, found.coverage.certified)


def test_without_valid_for_no_byte_differs() -> None:
    """Of policies, bundles, reports and verdicts: what nobody uses is not written."""
    plain = replace(THEN, checks={name: replace(line, valid_for=0.0) for name, line in THEN.checks.items()})
    node = Node("node-0", 0, "token", CATALOGUE, True, {"host": "a"})
    report = report_of(QUIET, replace(node, measured_at="2026-11-26T12:00:00Z"), tuple(map(measured, CHECKS)))
    made = decide(report, plain, FACTS)

    assert Level.PASS is made.level
    texts = (
        dump_plain(plain),
        dump_report(report),
        dump_plain(made),
        dump_plain(make("g", DECLARED, Profile.QUICK, plain, FACTS)),
        dump_plain(verdict_json(made)),
    )
    for text in texts:
        for word in (b"valid_for", b"certif", b"machine_state"):
            assert word not in text


def test_a_kept_report_carries_all_that_its_verdict_needs() -> None:
    report, found = judged_now(usual(), frozenset(COSTLY))
    again = decide(load(dump_report(report)), THEN, FACTS)

    assert (found.level, found.findings, found.coverage) == (again.level, again.findings, again.coverage)
    assert 3 == again.coverage.certified
