"""`prelaunch fleet store` and `prelaunch fleet replay` as a person types them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.documents.report import dump_plain
from tasks.store.folder import FolderStore
from tasks.store.layout import nodes_key, outcome_key, report_key, verdict_key
from tests.flows.cli.conftest import Run
from tests.flows.gates import write_gate
from tests.sample_reports import POLICY, healthy, wrong_sums
from tests.tasks.kept_gates import DAY_S, FIRST_S, gate_id, keep
from tests.tasks.parameters import spread
from tests.tasks.reports.test_replay import looser, stricter
from tests.tasks.sessions import answer


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """Two that may go and one that may not, on two clusters."""
    made = FolderStore(tmp_path / "store")
    keep(made, 0, healthy())
    keep(made, 1, wrong_sums(healthy()))
    keep(made, 2, healthy(), cluster="other")
    return made


def policy_file(folder: Path, policy: object) -> Path:
    """As JSON."""
    file = folder / "policy.json"
    file.write_bytes(dump_plain(policy))
    return file


def document(out: str) -> dict[str, Any]:
    """The one JSON document."""
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_list_shows_each_verdict_in_a_line(run: Run, store: FolderStore) -> None:
    """Oldest first, with the first finding, and their number."""
    code, out, err = run("fleet", "store", "list", store.root)
    lines = out.splitlines()

    assert (0, 5, "3 verdicts") == (code, len(lines), lines[-1]), err
    row = f"2025-11-22T08:00:00Z  {gate_id(1)}  c        2      NO-GO (FAIL)  not known  FAIL node-1"
    assert lines[2].startswith(row)


@pytest.mark.parametrize(
    ("numbers", "words"),
    spread(
        ([2], (("--cluster", "other"), ("--since", "2025-11-23T09:00:00+01:00"), ("--since", "1d"))),
        ([1, 2], (("--since", "2025-11-22"), ("--since", "36h"))),
        ([], (("--since", "90m"),)),
        ([0, 1, 2], (("--since", "3d"), ("--since", "630000d"), ("--since", "999999d"))),
        ([0, 1, 2], (("--since", "0900-01-01"),)),
    ),
)
def test_list_can_be_narrowed(
    run: Run, store: FolderStore, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], numbers: list[int]
) -> None:
    """By cluster, by time, and by minutes, hours or days before now."""
    monkeypatch.setattr("flows.cli.store.time.time", lambda: FIRST_S + 2 * DAY_S + 2 * 3600)
    code, out, _ = run("fleet", "store", "list", store.root, "--format", "json", *words)

    assert (0, [gate_id(n) for n in numbers]) == (code, [row["gate_id"] for row in document(out)["verdicts"]])


def outcome(decision: str, answer: object = None) -> bytes:
    """As a gate keeps it, as far as it is read."""
    return dump_plain({"decision": decision, "approval": answer, "reason": "x"})


def test_list_shows_what_was_decided_and_by_whom(run: Run, store: FolderStore) -> None:
    """By the policy or by a person; "not known" for a gate that has not ended, or whose outcome cannot be read, which is explained."""
    store.put(outcome_key(gate_id(0)), outcome("launched"))
    given = replace(answer(override=True), who="U0456EFGH", gate_id=gate_id(1))
    store.put(outcome_key(gate_id(1)), outcome("overridden", given))
    store.put(outcome_key(gate_id(2)), b"{")
    _, text, err = run("fleet", "store", "list", store.root)
    _, out, _ = run("fleet", "store", "list", store.root, "--format", "json")
    rows = document(out)["verdicts"]

    assert re.search(r"GO \(PASS\) +launched, by the policy +-$", text, re.MULTILINE)
    assert re.search(r"GO \(PASS\) +not known +-$", text, re.MULTILINE)
    assert '"not known" in the column "decided": the gate still runs, or was ended before' in err
    assert "overridden, by U0456EFGH (Slack)  FAIL" in text
    decided = [(row["decision"], row["decided_by"]) for row in rows]
    assert [("launched", "policy"), ("overridden", "U0456EFGH (Slack)"), (None, None)] == decided


@pytest.mark.parametrize("form", ["folder", "gate file"])
def test_a_store_takes_the_place_of_reports(run: Run, store: FolderStore, tmp_path: Path, form: str) -> None:
    """As if every report of it had been named."""
    reports = [store.root / report_key(gate_id(number)) for number in range(3)]
    policy = ("--policy", policy_file(tmp_path, POLICY), "--format", "json")
    named = store.root
    if form == "gate file":
        named = write_gate(tmp_path, fake=False)
        named.write_text(named.read_text().replace('[cluster]\nname = "test"', '[cluster]\nname = "c"'))
        reports = reports[:2]
    words = ("fleet", "baseline", "learn", "--out", tmp_path / "baseline.json", "--force", *policy)

    assert run(*words, *reports)[:2] == run(*words, named)[:2]


def test_a_store_that_is_not_whole_is_no_input(run: Run, store: FolderStore) -> None:
    """A baseline of a part would pass for that of all."""
    words = ("fleet", "baseline", "learn", "--out", "b.json")
    store.delete(report_key(gate_id(1)))
    store.delete(nodes_key(gate_id(1)))
    gone = run(*words, store.root)
    store.put("records/x.json", b"{")
    broken = run(*words, store.root)

    assert [2, 2] == [gone[0], broken[0]]
    assert "the report is missing" in gone[2] and "records/x.json" in broken[2]


def test_a_list_that_is_not_whole_says_so(run: Run, store: FolderStore) -> None:
    """A record that cannot be read: exit code 3, and which."""
    store.put("records/x.json", b"{")
    code, out, err = run("fleet", "store", "list", store.root, "--format", "json")

    assert (3, 3, 1) == (code, len(document(out)["verdicts"]), len(document(out)["problems"]))
    assert "records/x.json" in err


@pytest.mark.parametrize(
    "words",
    [
        ("fleet", "store", "list"), ("fleet", "store", "index", "--rebuild"), ("fleet", "replay"), ("fleet", "list"),
        ("fleet", "list", "--node", "node-1"),
    ],
)  # fmt: skip
def test_a_store_without_a_gate_is_rejected(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    """A misspelt name is no history without a fault, and no folder is made for it."""
    code, out, err = run(*words, tmp_path / "none", "--format", "json")

    assert (2, False) == (code, (tmp_path / "none").exists())
    said = "there are no gate results in it"
    assert said in err and said in document(out)["error"]["message"]


def test_the_history_is_folded_anew(run: Run, store: FolderStore) -> None:
    """Where it lies is said."""
    ended = run("fleet", "store", "index", store.root, "--rebuild")
    assert (0, f"{store.root}/history: 3 verdicts, 3 with the rows of their nodes\n", "") == ended


def test_prune_shows_first_and_removes_when_told(run: Run, store: FolderStore) -> None:
    """Nothing goes without --delete, and never the last proof of a node."""
    keep(store, 3, healthy())
    for days in ("0", "-1", "nan"):
        assert 2 == run("fleet", "store", "prune", store.root, "--older-than", days, "--delete")[0]
    words = ("fleet", "store", "prune", store.root, "--older-than", "0.0001", "--keep-refused")
    shown, before, done = run(*words), len(store.list("")), run(*words, "--delete")

    assert (0, 0) == (shown[0], done[0])
    assert "1 gate would go; --delete removes them" in shown[1] and "1 gate removed" in done[1]
    assert f"stays: {gate_id(1)}: it refused" in shown[1]
    assert f"stays: {gate_id(3)}: it is the last proof of node-1" in shown[1]
    left = {key.split("/")[1] for key in store.list("gates")}
    assert 17 == before and {gate_id(1), gate_id(2), gate_id(3)} == left


def test_replay_under_the_same_policy_is_0(run: Run, store: FolderStore, tmp_path: Path) -> None:
    """None would change."""
    code, out, err = run("fleet", "replay", store.root, "--policy", policy_file(tmp_path, POLICY))

    assert (0, "3 reports: none would change\n", "") == (code, out, err)


def test_replay_lists_what_would_change_and_why(run: Run, store: FolderStore, tmp_path: Path) -> None:
    """Exit code 1, the gate, both answers, the findings, and the sum."""
    code, out, _ = run("fleet", "replay", store.root, "--policy", policy_file(tmp_path, stricter(looser())))
    lines = out.splitlines()

    assert 1 == code
    assert f"{gate_id(0)} on c, 2025-11-21T08:00:00Z: GO -> NO-GO" == lines[0]
    assert "    appears: FAIL HARDWARE node-0/rank-0: compute.gemm: " in lines[1]
    assert "3 reports: 3 would change: 2 GO -> NO-GO, 1 NO-GO about other nodes" == lines[-1]


def test_replay_as_json_has_every_key(run: Run, store: FolderStore, tmp_path: Path) -> None:
    """What would change, with both verdicts and the changes."""
    policy = policy_file(tmp_path, looser())
    code, out, _ = run("fleet", "replay", store.root, "--policy", policy, "--format", "json")
    found = document(out)

    assert (1, {"NO-GO -> GO": 1}, 2) == (code, found["moves"], found["counts"]["same"])
    (gate,) = found["gates"]
    assert ("changed", "no_go", "go") == (gate["fate"], gate["before"]["answer"], gate["after"]["answer"])
    assert [("FAIL", "WARN")] == [(change["before"], change["after"]) for change in gate["changes"]]


@pytest.mark.parametrize("key", [report_key, verdict_key])
def test_replay_of_what_cannot_be_compared_is_3(
    run: Run, store: FolderStore, tmp_path: Path, key: Any
) -> None:
    """Even where others would change: a list that is not whole proves nothing."""
    store.put(key(gate_id(2)), b"{")
    code, out, _ = run("fleet", "replay", store.root, "--policy", policy_file(tmp_path, stricter()))

    assert 3 == code
    assert f"{gate_id(2)} on other" in out and "1 that cannot be compared" in out.splitlines()[-1]


def test_replay_of_nothing_that_the_policy_is_for_is_3(run: Run, store: FolderStore, tmp_path: Path) -> None:
    """Nothing was compared, so nothing is known."""
    other = json.loads(dump_plain(POLICY)) | {"instance_types": ["p5.48xlarge"]}
    code, out, err = run("fleet", "replay", store.root, "--policy", policy_file(tmp_path, other))

    assert (3, "prelaunch: nothing was compared\n") == (code, err)
    assert "3 of types that the policy does not cover" in out
    assert "3 reports: nothing was compared" in out and "none would change" not in out


def test_hostile_words_do_not_reach_the_terminal(run: Run, store: FolderStore, tmp_path: Path) -> None:
    """A report's text is a machine's, or an attacker's."""
    key = report_key(gate_id(0))
    store.put(key, (store.get(key) or b"").replace(b"2026-11-21T08:00:00+00:00", b"\\u001b[31m<b>"))
    store.delete(f"records/{gate_id(0)}.json")
    _, out, _ = run("fleet", "replay", store.root, "--policy", policy_file(tmp_path, POLICY))

    assert "\x1b" not in out and "<b>" in out


def test_a_file_is_no_store(run: Run, tmp_path: Path) -> None:
    """It is rejected; nobody is sent to correct permissions."""
    (tmp_path / "report.json").write_text("{}")
    code, _, err = run("fleet", "store", "list", tmp_path / "report.json")

    assert 2 == code and "Name the folder of a store" in err and "permissions" not in err
