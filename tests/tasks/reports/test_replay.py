"""Replay: what would change is found, why is said, and what cannot be compared is never counted as unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.facts.builtin import builtin
from checks.model import ANSWER_WORDS, Answer, Cause, Finding, Level
from checks.policy import OnWarn, Policy, Rule
from tasks.reports.listings import gate_text
from tasks.reports.replay import ReplayedGate, ReplayResult, ReplayTotals, answer_change, changes, replay
from tasks.store.base import StoreError, StoreUnreachable
from tasks.store.folder import FolderStore
from tasks.store.history import AT_ONCE
from tasks.store.layout import record_key, report_key, verdict_key
from tests.sample_reports import POLICY, healthy, with_metric, without_node, wrong_sums
from tests.tasks.kept_gates import gate_id, keep

FACTS = builtin()


def stricter(policy: Policy = POLICY) -> Policy:
    """GEMM has to reach 42 GFLOP/s: of the sample's ranks two do not."""
    line = policy.checks["compute.gemm"]
    rules = (line.rules[0], Rule("gflops", "a test", fail_below=42.0))
    return replace(policy, checks={**policy.checks, "compute.gemm": replace(line, rules=rules)})


def looser(policy: Policy = POLICY) -> Policy:
    """Wrong sums are only worth a warning."""
    line = policy.checks["collective.all_reduce"]
    rules = (replace(line.rules[0], level="WARN"), *line.rules[1:])
    return replace(policy, checks={**policy.checks, "collective.all_reduce": replace(line, rules=rules)})


def run(store: FolderStore, policy: Policy | None = POLICY) -> list[ReplayedGate]:
    """All of a replay."""
    return list(replay(store, policy, FACTS, None))


def test_many_gates_come_in_order_and_few_are_in_memory(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read ahead of what is judged, of a few gates; one that ends early leaves nothing behind."""
    for number in range(9):
        keep(store, number, healthy())
        for copy in range(2 if number < 6 else 3):
            store.put(f"gates/copy-{number}-{copy}/verdict.json", b"{}")
    read: list[str] = []
    get = store.get

    def noted(key: str) -> bytes | None:
        read.append(key)
        return get(key)

    monkeypatch.setattr(store, "get", noted)
    found = replay(store, POLICY, FACTS, None)
    first = next(found)

    assert len({key.split("/")[1] for key in read if key.startswith("gates/")}) <= AT_ONCE
    names = [first.gate_id, *(one.gate_id for one in found)]
    assert 30 == len({*names})
    assert [gate_id(number) for number in range(9)] == [one for one in names if "sample" in one]


def test_the_same_policy_changes_nothing(store: FolderStore) -> None:
    """Good and bad verdicts alike, by time."""
    for number, report in enumerate((healthy(), wrong_sums(healthy()), without_node(healthy(), "node-1"))):
        keep(store, number, report)

    found = [(one.gate_id, one.fate, one.changes) for one in run(store)]
    assert [(gate_id(n), ReplayResult.SAME, ()) for n in range(3)] == found


def test_a_stricter_policy_turns_a_go(store: FolderStore) -> None:
    """GO -> NO-GO, with the findings that appear and the nodes that would be condemned."""
    keep(store, 0, healthy())
    (found,) = run(store, stricter())

    assert (ReplayResult.CHANGED, "GO -> NO-GO") == (found.fate, answer_change(found))
    changed = [(one.how, one.after, one.subject) for one in found.changes]
    assert [("appears", Level.FAIL, f"node-0/rank-{rank}") for rank in (0, 1)] == changed
    assert found.after is not None and ("node-0",) == found.after.condemned


def test_a_looser_policy_turns_a_no_go(store: FolderStore) -> None:
    """NO-GO -> GO: the finding that changed its level is shown with both."""
    keep(store, 0, wrong_sums(healthy()))
    (found,) = run(store, looser())

    assert "NO-GO -> GO" == answer_change(found)
    assert [("changes level", Level.FAIL, Level.WARN)] == [(c.how, c.before, c.after) for c in found.changes]


def test_a_warn_that_shall_refuse_changes_the_answer_without_a_finding(store: FolderStore) -> None:
    """`on_warn` alone turns a go."""
    keep(store, 0, with_metric(healthy(), "system.clock", "node-0", "synchronised", False))
    (found,) = run(store, replace(POLICY, on_warn=OnWarn.REFUSE))

    assert ("GO -> NO-GO", ()) == (answer_change(found), found.changes)
    assert "the policies differ in what a warning does (on_warn)" in gate_text(found)


def test_the_same_answer_about_other_nodes_is_a_change(store: FolderStore) -> None:
    """Somebody would take another machine out of use."""
    keep(store, 0, wrong_sums(healthy()))
    (found,) = run(store, stricter(looser()))

    assert (ReplayResult.CHANGED, "NO-GO about other nodes") == (found.fate, answer_change(found))
    assert "condemned: node-1 -> node-0" in gate_text(found)


def test_other_reasons_for_the_same_verdict_are_told_apart(store: FolderStore) -> None:
    """Answer, level and condemned nodes stay: no past verdict would change."""
    keep(store, 0, wrong_sums(healthy(), "node-0/rank-0"))
    (found,) = run(store, stricter())

    assert ReplayResult.FINDINGS is found.fate
    assert {"appears"} == {change.how for change in found.changes}


def test_a_threshold_that_moved_within_the_words_is_no_change(store: FolderStore) -> None:
    """Only the number in the message is another."""
    keep(store, 0, healthy(), stricter())
    line = stricter().checks["compute.gemm"]
    moved = (line.rules[0], replace(line.rules[1], fail_below=41.9))
    policy = replace(POLICY, checks={**POLICY.checks, "compute.gemm": replace(line, rules=moved)})

    assert [(ReplayResult.SAME, ())] == [(one.fate, one.changes) for one in run(store, policy)]


def other_gate(store: FolderStore) -> None:
    """Somebody copied a folder over another; each of its files belongs to the other."""
    keep(store, 9, wrong_sums(healthy()))
    for key in (report_key, verdict_key):
        store.put(key(gate_id(0)), store.get(key(gate_id(9))) or b"")
        store.delete(key(gate_id(9)))
    store.delete(record_key(gate_id(9)))


REPORT, VERDICT = report_key(gate_id(0)), verdict_key(gate_id(0))


def change(store: FolderStore, key: str, old: bytes, new: bytes) -> None:
    """Other bytes in a file."""
    store.put(key, (store.get(key) or b"").replace(old, new))


def cut(store: FolderStore, key: str) -> None:
    """Half of a file."""
    data = store.get(key) or b""
    store.put(key, data[: len(data) // 2])


def only_record(store: FolderStore) -> None:
    """What was judged once and cannot be judged again is not left out of the sum."""
    store.delete(REPORT)
    store.delete(VERDICT)


def folder_in_its_place(store: FolderStore) -> None:
    """The report may not be read."""
    store.delete(REPORT)
    store.put(f"{REPORT}/file", b"x")


DAMAGES: dict[str, Callable[[FolderStore], object]] = {
    "report cut": lambda store: cut(store, REPORT),
    "report gone": lambda store: store.delete(REPORT),
    "report changed": lambda store: change(store, REPORT, b"6.1.0", b"6.1.1"),
    "report of another version": lambda store: change(store, REPORT, b'_version":1', b'_version":99'),
    "verdict cut": lambda store: cut(store, VERDICT),
    "verdict without an answer": lambda store: change(store, VERDICT, b'"answer":', b'"other":'),
    "verdict of nothing": lambda store: store.put(VERDICT, b"[]"),
    "another gate's report and verdict": other_gate,
    "record cut": lambda store: store.put(record_key(gate_id(0)), b"{"),
    "record alone": only_record,
    "a folder in the report's place": folder_in_its_place,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_replay_names_gates_it_cannot_compare(
    store: FolderStore, damage: Callable[[FolderStore], object]
) -> None:
    """It is neither unchanged nor changed, and the gates after it are replayed all the same."""
    for number in range(2):
        keep(store, number, healthy())
    damage(store)
    first, second = run(store)

    assert (gate_id(0), ReplayResult.NOT_COMPARED, True) == (first.gate_id, first.fate, bool(first.why))
    assert ReplayResult.SAME is second.fate


def test_without_verdict_and_record_nothing_is_compared(store: FolderStore) -> None:
    """A gate that was cut short: what it would be is shown, and that no verdict was kept."""
    keep(store, 0, healthy(), record=False)
    store.delete(verdict_key(gate_id(0)))
    (found,) = run(store)

    assert ReplayResult.NO_VERDICT is found.fate
    reason = "no verdict is stored: its gate was interrupted, or the file was removed; it would be GO"
    assert reason in gate_text(found)


def test_a_gate_that_judged_nothing_is_no_verdict_of_the_past(store: FolderStore) -> None:
    """It left logs and an outcome."""
    store.put(f"gates/{gate_id(0)}/outcome.json", b"{}")

    assert [] == run(store)


def test_a_policy_for_other_machines_judges_none_of_these(store: FolderStore) -> None:
    """A new policy for one type does not turn the verdicts on another."""
    keep(store, 0, healthy())
    (found,) = run(store, replace(POLICY, instance_types=("p5.48xlarge",)))

    assert ReplayResult.OTHER_TYPE is found.fate


def test_replay_notes_other_changes_beside_the_policy(store: FolderStore) -> None:
    """Nobody blames the policy for new facts, a new version or a baseline that is missing."""
    keep(store, 0, healthy())
    key = verdict_key(gate_id(0))
    old = (store.get(key) or b"").replace(FACTS.digest.encode(), b"0" * 64)
    store.put(key, old.replace(b'"baseline":null', b'"baseline":"' + b"b" * 64 + b'"'))
    (found,) = run(store, stricter())

    baseline = "the gate compared with another baseline, or one of the two with none"
    assert (baseline, "the facts have changed since then") == found.notes


def test_a_store_that_is_silent_ends_the_replay(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read on for hours, a deadline a gate."""
    keep(store, 0, healthy())

    def silent(key: str) -> bytes | None:
        raise StoreUnreachable("no answer")

    monkeypatch.setattr(store, "get", silent)
    with pytest.raises(StoreError):
        run(store)


def finding(number: int, level: Level = Level.FAIL) -> Finding:
    """One of many."""
    return Finding(level, Cause.HARDWARE, "toy", f"node-{number:04}", "broken")


def test_findings_that_differ_in_their_subject_alone_are_one_line() -> None:
    """With the first subjects; how many are left out is counted in findings."""
    alike = [replace(finding(0), subject=f"node-1/rank-{rank}") for rank in range(8)]
    found = changes((), [*alike, replace(finding(1), message="another")])
    text = gate_text(ReplayedGate("g", ReplayResult.CHANGED, changes=found))

    assert 1 == text.count("node-1/rank-0, node-1/rank-1, node-1/rank-2 and 5 more: ")
    assert 3 == len(text.splitlines())


def test_the_sum_is_a_sentence() -> None:
    """What a pipeline prints."""
    total = ReplayTotals()
    total.fates.update({ReplayResult.SAME: 296, ReplayResult.CHANGED: 4, ReplayResult.FINDINGS: 12})
    total.moves.update({"NO-GO -> GO": 1, "GO -> NO-GO": 3})

    changed = "4 would change: 3 GO -> NO-GO, 1 NO-GO -> GO; 12 with the same verdict for other reasons"
    assert f"312 reports: {changed}" == total.line
    assert set(Answer) == set(ANSWER_WORDS)
