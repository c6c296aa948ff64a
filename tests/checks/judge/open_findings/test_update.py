"""What opens a finding and what closes it: never age, silence or a restart of the watch."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace

import pytest

from checks.documents import open_findings as documents
from checks.documents.columns import by_check
from checks.documents.open_findings import MOST_CLOSED, MOST_OPEN, Closer, OpenFinding, OpenFindings
from checks.judge.open_findings.update import LatestEvidence, after_gate, after_round, close, seen_on
from checks.model import Action, Cause, Finding, FindingKind, Level, Observation, Outcome
from checks.model_details import Comparison, Reference, Relation

DAY = 86400.0
GPU = "GPU 5 (0000:b9:00.0)"
BOOT, NEXT_BOOT = "boot-1", "boot-2"


def finding(
    check: str = "kernel.xid",
    metric: str = "act",
    cause: Cause = Cause.HARDWARE,
    level: Level = Level.FAIL,
    part: str = GPU,
) -> Finding:
    return Finding(
        level, cause, check, "node-1", "had an Xid that calls for a reset", "", "Reset it.", Action.RESET_GPU,
        metric=metric, elements=(part,) if part else (), is_predicate=True,
    )  # fmt: skip


def seen(
    *found: Finding,
    at: float = 1000 * DAY,
    by: str = "watch",
    boot: str = BOOT,
    since: float = 0.0,
    check: str = "kernel.xid",
    nodes: int = 1,
    ranks: int = 1,
) -> LatestEvidence:
    rows = {check: nodes * ranks}
    return LatestEvidence(at, by, boot, found, {check: since}, (), {check: nodes}, rows)


OPENED = after_round(OpenFindings(), seen(finding(), since=999 * DAY))


def test_a_round_opens_what_it_found() -> None:
    [one] = OPENED.open
    key = one.key

    assert (key.check, key.part, key.metric, key.cause) == ("kernel.xid", GPU, "act", Cause.HARDWARE)
    assert (one.by, one.opened_at, one.seen_at, one.since) == ("watch", 1000 * DAY, 1000 * DAY, 999 * DAY)
    assert (one.level, one.action, one.remedy) == (Level.FAIL, Action.RESET_GPU, "Reset it.")
    assert OPENED.opened_total == 1


@pytest.mark.parametrize("days", [0.001, 1, 15, 400])
def test_silence_and_age_close_nothing(days: float) -> None:
    """gpud issue 1212: an Xid older than the look-back made the machine healthy, though nobody had reset it."""
    later = after_round(OPENED, seen(at=(1000 + days) * DAY, since=(999 + days) * DAY))

    assert later.open == OPENED.open


def test_a_restart_of_the_machine_alone_closes_nothing() -> None:
    """Only a gate closes: the watch does not load the GPU."""
    later = after_round(OPENED, seen(at=1001 * DAY, boot=NEXT_BOOT))

    assert later.open == OPENED.open


def test_the_same_finding_again_is_not_a_second_one() -> None:
    again = after_round(OPENED, seen(finding(), at=1000 * DAY + 60))
    [one] = again.open

    assert (one.opened_at, one.seen_at) == (1000 * DAY, 1000 * DAY + 60)
    assert again.opened_total == 1


def test_two_parts_and_two_metrics_are_findings_of_their_own() -> None:
    """eks-node-monitoring-agent issue 39: two causes on one condition hid each other."""
    both = replace(finding(), elements=(GPU, "GPU 6 (0000:ba:00.0)"))
    found = after_round(OpenFindings(), seen(both, finding(metric="support", level=Level.WARN)))

    assert 3 == len({one.key for one in found.open}) == len(found.open)


def test_the_gravest_level_stays() -> None:
    """As old as it is: a warning of now is no FAIL that was found since a gate judged it."""
    milder = after_round(OPENED, seen(replace(finding(), level=Level.WARN, message="milder"), at=1001 * DAY))
    [one] = milder.open

    assert (Level.FAIL, 1000 * DAY) == (one.level, one.seen_at)
    assert one.message != "milder"
    mild = after_round(OpenFindings(), seen(finding(level=Level.WARN)))
    graver = after_round(mild, seen(replace(finding(), message="graver")))
    assert [(Level.FAIL, "graver")] == [(one.level, one.message) for one in graver.open]


def test_missing_evidence_is_closed_by_the_measurement_coming_back() -> None:
    lost = finding("gpu.ecc", "", Cause.EVIDENCE, part="")
    opened = after_round(OpenFindings(), LatestEvidence(0.0, "watch", BOOT, [lost], {}))
    silent = after_round(opened, LatestEvidence(60.0, "watch", BOOT, [], {"kernel.xid": 0.0}))
    back = after_round(silent, LatestEvidence(120.0, "watch", BOOT, [], {"gpu.ecc": 0.0}))

    assert silent.open == opened.open != ()
    assert back.open == ()
    assert [(Closer.MEASURED, "", 120.0)] == [(one.closer, one.who, one.closed_at) for one in back.closed]
    assert back.closed_total == {"measured": 1}


def test_evidence_about_the_kernel_log_is_closed_when_the_log_is_read_again() -> None:
    """However far back it reaches: what was missing was the reading, and no event."""
    lost = finding("kernel.xid", "", Cause.EVIDENCE, part="")
    opened = after_round(OpenFindings(), LatestEvidence(1000 * DAY, "watch", BOOT, [lost], {}))
    back = after_round(opened, seen(at=1000 * DAY + 60, since=999 * DAY))

    assert opened.open != ()
    assert back.open == ()


def test_a_gate_that_did_not_measure_the_check_closes_nothing() -> None:
    passing = LatestEvidence(1001 * DAY, "gate-2", NEXT_BOOT, [], {"gpu.ecc": 0.0})

    assert after_gate(OPENED, passing).open == OPENED.open


def test_a_gate_that_measured_it_after_a_restart_closes_it() -> None:
    after = after_gate(OPENED, seen(at=1001 * DAY, by="gate-2", boot=NEXT_BOOT, since=1000.9 * DAY))

    assert after.open == ()
    assert [(Closer.GATE, "gate-2")] == [(one.closer, one.who) for one in after.closed]


def test_a_gate_without_a_remedy_does_not_close_hardware() -> None:
    """Its log reaches back, and shows no fault any more: something is odd, and a person says what."""
    assert after_gate(OPENED, seen(by="gate-2", at=1000.5 * DAY, since=998 * DAY)).open == OPENED.open


def test_a_log_that_shows_the_reset_is_a_remedy() -> None:
    handled = finding(metric="handled", level=Level.WARN)
    after = after_gate(OPENED, seen(handled, by="gate-2", at=1000.5 * DAY, since=998 * DAY))

    assert ["handled"] == [one.key.metric for one in after.open]
    other = replace(handled, elements=("GPU 0 (0000:53:00.0)",))
    still = after_gate(OPENED, seen(other, by="gate-2", at=1000.5 * DAY, since=998 * DAY))
    assert {"act", "handled"} == {one.key.metric for one in still.open}


def test_a_reset_that_the_watch_saw_is_a_remedy_after_the_log_was_rotated() -> None:
    watched = after_round(OPENED, seen(finding(metric="handled", level=Level.WARN), at=1000.1 * DAY))
    after = after_gate(watched, seen(by="gate-2", at=1003 * DAY, since=1002.9 * DAY))

    assert ["handled"] == [one.key.metric for one in after.open]


def test_a_log_that_does_not_reach_back_has_not_measured_the_event() -> None:
    opened = after_round(OpenFindings(), seen(finding(cause=Cause.APPLICATION), since=999 * DAY))

    assert after_gate(opened, seen(by="g", at=1002 * DAY, since=1001 * DAY)).open == opened.open != ()
    assert after_gate(opened, seen(by="g", at=1002 * DAY, since=998 * DAY)).open == ()


@pytest.mark.parametrize(
    ("check", "of", "before", "ranks", "needed"),
    [
        ("compute.gemm", Reference.FLEET, 8, 1, 4),
        ("compute.overlap", Reference.PEERS, 2, 1, 2),
        ("compute.overlap", Reference.PEERS, 8, 8, 1),
        ("nccl.pairs", Reference.THRESHOLD, 8, 1, 3),
        ("compute.gemm", Reference.EXPECTED, 8, 1, 0),
    ],
)
def test_a_comparison_is_answered_by_one(
    check: str, of: Reference, before: int, ranks: int, needed: int
) -> None:
    """A slow machine that is alone in the next gate looks like a good one, also after a restart; ranks of one node are peers."""
    slow = replace(finding(check), compared=Comparison(0.8, "", Relation.BELOW, 0.9, of, 1.0))
    opened = after_gate(OpenFindings(), seen(slow, by="g", check=check, nodes=before, ranks=ranks))
    known = documents.load(documents.dump(opened))
    for now in (1, 2, 3, 4):
        after = after_gate(known, seen(by="h", check=check, boot=NEXT_BOOT, nodes=now))
        assert (now >= needed) is (after.open == ())


def test_a_check_that_blames_a_link_of_the_node_answers_nothing_about_the_node() -> None:
    """Of two nodes it is always the link, also where a larger gate had found the node."""
    link = replace(finding("efa.pingpong"), subject="node-0<->node-1")
    rows = by_check([Observation("efa.pingpong", f"node-{at}", Outcome.MEASURED, 1.0, {}) for at in (0, 1)])

    assert {} == seen_on("node-1", 0.0, "g", BOOT, (link,), rows, ()).measured
    assert ["efa.pingpong"] == [*seen_on("node-1", 0.0, "g", BOOT, (), rows, ()).measured]


@pytest.mark.parametrize("cause", [Cause.CONFIGURATION, Cause.APPLICATION])
def test_open_finding_mended_in_place_closes_by_a_gate_measurement(cause: Cause) -> None:
    full = finding("system.resources", "disk_free_bytes", cause, part="")
    opened = after_round(OpenFindings(), seen(full, check="system.resources"))

    assert after_round(opened, seen(check="system.resources")).open == opened.open
    assert after_gate(opened, seen(by="gate-2", check="system.resources")).open == ()


def test_a_gate_opens_what_it_found_but_no_missing_evidence() -> None:
    lost = finding("dcgm.diag", "", Cause.EVIDENCE, part="")
    after = after_gate(OpenFindings(), seen(finding(), lost, by="gate-1"))

    assert [("kernel.xid", "gate-1")] == [(one.key.check, one.by) for one in after.open]


def test_a_person_closes_one_by_its_name() -> None:
    [one] = OPENED.open
    after = close(OPENED, one.key.name, "dana: reseated the board", 1002 * DAY)

    assert after.open == ()
    assert [(Closer.PERSON, "dana: reseated the board")] == [(done.closer, done.who) for done in after.closed]
    with pytest.raises(KeyError):
        close(OPENED, "kernel.xid/act/GPU 7", "dana", 0.0)


def test_the_file_stays_bounded_and_counts_what_it_leaves_out() -> None:
    many = [finding(part=f"GPU {number}") for number in range(MOST_OPEN + 50)]
    mild = [replace(one, level=Level.WARN) for one in many[:100]]
    known = after_round(OpenFindings(), seen(*mild))
    after = after_round(known, seen(*many[100:]))

    assert (MOST_OPEN, 50, MOST_OPEN + 50) == (len(after.open), after.omitted, after.opened_total)
    assert 50 == after_round(after, seen(*many)).omitted and 0 == close(after, "omitted", "dana", 1.0).omitted
    assert 50 == sum(one.level is Level.WARN for one in after.open), "the mildest are left out"
    for number in range(MOST_CLOSED + 20):
        after = close(after, after.open[0].key.name, f"{number}", 0.0)
    assert MOST_CLOSED == len(after.closed)
    assert {"person": MOST_CLOSED + 20} == after.closed_total


def test_finding_open_before_the_gate_is_not_seen_again_by_it() -> None:
    """The gate's own finding about an old one must not make it look recent."""
    old = replace(finding(), kind=FindingKind.OPEN_BEFORE)
    assert [] == [*seen_on("node-1", 0.0, "gate-1", BOOT, [old], {}, ()).findings]
    link = replace(finding(), subject="node-1<->node-2")
    other = replace(finding(), subject="node-10")
    rank = replace(finding(), subject="node-1/rank-3")
    assert [rank] == [*seen_on("node-1", 0.0, "gate-1", BOOT, [link, other, rank], {}, ()).findings]


def test_the_file_is_read_as_it_was_written() -> None:
    closed = close(OPENED, OPENED.open[0].key.name, "dana", 5.0)
    for known in (OpenFindings(), OPENED, closed):
        assert known == documents.load(documents.dump(known))


def test_an_open_finding_has_no_default_that_hides_a_field() -> None:
    """A field with a default could be lost from the file and nobody would notice. Older files lack the last one."""
    assert ["compared_nodes"] == [one.name for one in fields(OpenFinding) if one.default is not MISSING]


def test_texts_without_end_leave_a_file_that_can_be_read() -> None:
    """A file that is too large to read would be the end of the watch, and refuse every gate."""
    long = "\U0001f525" * 20_000
    many = [replace(finding(part=f"{n} {long}"), message=long, remedy=long) for n in range(MOST_OPEN)]
    known = after_round(OpenFindings(), seen(*many))
    again = after_round(known, seen(*many, at=1001 * DAY))

    assert MOST_OPEN == len(again.open) == again.opened_total
    assert again == documents.load(documents.dump(again))
