"""`prelaunch fleet store` about times, about ends of gates, also cancelled ones, and every form of the argument that names a store."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.report import dump_plain
from tasks.store.folder import FolderStore
from tasks.store.layout import outcome_key, report_key
from tests.flows.cli.conftest import Run
from tests.flows.cli.test_store import document, outcome, policy_file
from tests.flows.cli.test_store import store as store
from tests.flows.gates import write_gate
from tests.sample_reports import POLICY, healthy
from tests.tasks.kept_gates import gate_id, keep

__all__ = ["store"]

GATES = Path(__file__).parents[3] / "deployments" / "gates"


READERS = [
    ("fleet", "store", "list", "STORE"),
    ("fleet", "store", "prune", "STORE", "--older-than", "0.1"),
    ("fleet", "replay", "STORE", "--policy", "POLICY"),
    ("fleet", "baseline", "learn", "STORE", "--policy", "POLICY", "--force", "--out", "b.json"),
    ("fleet", "list", "STORE"),
    ("fleet", "list", "STORE", "--node", "node-1"),
]


def typed(words: tuple[str, ...], store: object, policy: object) -> list[object]:
    """The words of a command, with the store and the policy in their places."""
    return [{"STORE": store, "POLICY": policy}.get(word, word) for word in words]


def own_gate_file(folder: Path, cluster: str) -> Path:
    """A gate file of the store of the tests, for one of its clusters."""
    file = write_gate(folder, fake=False)
    text = file.read_text().replace('[cluster]\nname = "test"', f'[cluster]\nname = "{cluster}"')
    policy_file(folder, POLICY)
    file.write_text(text.replace('"policy.toml"', '"policy.json"'))
    return file


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_gate_file_and_its_name_stand_for_its_own_cluster(
    run: Run, store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The same for every command that takes a store, with a line that names the cluster and the command about all of the store."""
    monkeypatch.chdir(tmp_path)
    file = own_gate_file(tmp_path, "other")
    file.rename(tmp_path / "mine.toml")
    monkeypatch.setenv("PRELAUNCH_GATES", str(tmp_path))
    policy = policy_file(tmp_path, POLICY)

    by_name = run(*typed(words, "mine", policy))
    by_file = run(*typed(words, "mine.toml", policy))
    everything = run(*typed(words, store.root, policy))
    chosen = run(*typed(words, "mine.toml", policy), "--cluster", "c")

    assert by_name[:2] == by_file[:2] and by_file[1] != everything[1]
    assert gate_id(1) not in by_file[1]
    assert "this shows cluster other only. For all clusters name the store: " in by_file[2]
    assert f"mine is {tmp_path / 'mine.toml'}" in by_name[2]
    assert "all clusters" not in everything[2]
    # --cluster goes before the gate file's.
    assert chosen[1] == run(*typed(words, store.root, policy), "--cluster", "c")[1]
    assert chosen[1] != by_file[1] and "only" not in chosen[2]


def test_a_report_alone_has_no_cluster(run: Run, store: FolderStore) -> None:
    """--cluster would leave out nothing of it."""
    report = store.root / report_key(gate_id(0))
    code, _, err = run("fleet", "baseline", "learn", "--out", "b.json", report, "--cluster", "c")

    assert (2, True) == (code, "only a store has clusters" in err)


def test_a_misspelt_name_is_answered_with_the_nearest(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the gate files in the folder of gate files; one whose gate never ran with the command that runs it."""
    monkeypatch.chdir(tmp_path)
    file = write_gate(tmp_path / "gates", fake=False)
    monkeypatch.setenv("PRELAUNCH_GATES", str(tmp_path / "gates"))

    code, _, err = run("fleet", "store", "list", "gaet")

    assert (2, True) == (code, "Did you mean 'gate'?" in err)
    code, _, err = run("fleet", "store", "list", "gate")
    assert (2, True) == (code, f"no gate has run yet: run `prelaunch gate {file}` first.\n" in err)


def test_a_gate_file_brings_its_policy_and_names_it(run: Run, store: FolderStore, tmp_path: Path) -> None:
    """Else an own policy would be replayed as the shipped one, and nobody would see it."""
    file = own_gate_file(tmp_path, "c")
    policy = json.loads(dump_plain(POLICY))
    (tmp_path / "own.json").write_text(json.dumps({**policy, "name": "own-rules"}))
    file.write_text(file.read_text().replace('"policy.json"', '"own.json"'))

    code, out, err = run("fleet", "replay", file)
    _, shown, _ = run("fleet", "replay", file, "--format", "json")
    _, _, whole = run("fleet", "replay", store.root)
    learned = run("fleet", "baseline", "learn", file, "--out", tmp_path / "b.json")

    assert (0, "2 reports: none would change\n") == (code, out)
    assert f"policy: own-rules ({tmp_path / 'own.json'})" in err
    assert f"own-rules ({tmp_path / 'own.json'})" == document(shown)["policy"]
    assert "policy: the shipped one of each report's type" in whole
    assert f"policy: own-rules ({tmp_path / 'own.json'})" in learned[2]


def test_the_policy_of_the_gate_file_is_that_of_its_reports(
    run: Run, store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be read is named, and not replaced by the shipped one."""
    monkeypatch.chdir(tmp_path)
    file = own_gate_file(tmp_path, "c")
    file.write_text(file.read_text().replace('"policy.json"', '"gone.toml"'))

    code, _, err = run("fleet", "baseline", "learn", "--force", "--out", "b.json", file)

    assert (2, True) == (code, "gone.toml: it cannot be read" in err), err


@pytest.mark.parametrize("since", ["0h", "2w", "h", "-1d", "2 h", "yesterday", "2026-13-01"])
def test_store_list_rejects_a_bad_time_and_names_both_forms(run: Run, store: FolderStore, since: str) -> None:
    """Both forms are named."""
    code, _, err = run("fleet", "store", "list", store.root, f"--since={since}")

    assert (2, True) == (code, "2h" in err and "2026-11-20" in err)


@pytest.mark.parametrize("state", ["failed", "unknown"])
def test_list_shows_how_the_training_ended(run: Run, store: FolderStore, state: str) -> None:
    """A GO whose training failed is no success."""
    ended = {**json.loads(outcome("launched")), "training": {"job_id": "j", "state": state, "detail": "x"}}
    store.put(outcome_key(gate_id(0)), dump_plain(ended))
    _, text, _ = run("fleet", "store", "list", store.root)
    _, out, _ = run("fleet", "store", "list", store.root, "--format", "json")

    assert f"launched, by the policy; training {state} " in text
    assert [state, None, None] == [row["training"] for row in document(out)["verdicts"]]


def test_a_gate_that_ended_without_a_person_does_not_wait_for_one(run: Run, store: FolderStore) -> None:
    """Its end is kept, so nothing is pending; a training that was not launched is nobody's decision."""
    store.put(outcome_key(gate_id(0)), outcome("awaiting"))
    store.put(outcome_key(gate_id(1)), outcome("not_launched"))
    store.put(outcome_key(gate_id(2)), outcome("cannot_tell"))
    _, text, _ = run("fleet", "store", "list", store.root)

    assert "left to a person, and nobody decided" in text and "waits" not in text
    assert re.search(r"not launched +FAIL", text) and "cannot tell, by the policy" in text


def cancelled(number: int, training: str | None = None, decision: str | None = None) -> bytes:
    """What a gate keeps that somebody cancelled, on cluster "c"."""
    trained = None if training is None else {"job_id": "j", "state": training, "detail": ""}
    table = {"gate_id": gate_id(number), "cluster": "c", "decision": decision, "training": trained}
    return json.dumps({**table, "ending": "cancelled", "reason": "cancelled by SIGINT\x1b[31m"}).encode()


def test_list_says_which_gates_were_cancelled(run: Run, store: FolderStore) -> None:
    """With a verdict in its row; without one below, with when it began and why it ended, unless other gates are asked for."""
    store.put(outcome_key(gate_id(0)), cancelled(0, "cancelled", "launched"))
    store.put(outcome_key(gate_id(1)), cancelled(1))
    store.put(outcome_key(gate_id(7)), cancelled(7))
    _, text, _ = run("fleet", "store", "list", store.root)
    found = document(run("fleet", "store", "list", store.root, "--format", "json")[1])
    asked = (("--cluster", "other"), ("--since", "1m"))
    others = [run("fleet", "store", "list", store.root, *words).out for words in asked]

    assert "launched, and cancelled; training cancelled" in text
    assert re.search(r"NO-GO \(FAIL\) +cancelled  ", text)
    assert re.search(rf"1 gate ended without a verdict:\n  \S+Z  {gate_id(7)}  cancelled by SIGINT", text)
    assert "\x1b" not in text
    (row,) = found["unjudged"]
    assert (gate_id(7), "cancelled", "c") == (row["gate_id"], row["ending"], row["cluster"])
    assert not any(gate_id(7) in one for one in others)


def test_a_training_that_failed_is_listed_at_its_node(run: Run, store: FolderStore) -> None:
    """The column of the first finding says why it failed, and so does the history of that node alone."""
    failed = {
        "decision": "launched", "ending": "job failed", "reason": "node-1, rank 3: KeyError: 'x'",
        "training": {"job_id": "j", "state": "failed", "detail": "", "node": "node-1"}, "approval": None,
    }  # fmt: skip
    store.put(outcome_key(gate_id(0)), dump_plain(failed))
    said = "TRAINING FAILED: node-1, rank 3: KeyError: 'x'"
    _, text, _ = run("fleet", "store", "list", store.root)
    rows = document(run("fleet", "store", "list", store.root, "--format", "json")[1])["verdicts"]
    histories = [run("fleet", "list", store.root, "--node", node)[1] for node in ("node-1", "node-0")]

    row = f"launched, by the policy; training failed on node-1  {said}"
    assert any(line.endswith(row) for line in text.splitlines())
    assert ["node-1"] == [row["training_node"] for row in rows if row["training"]]
    assert [True, False] == [said in history for history in histories]


def test_a_report_that_was_old_when_it_was_judged_is_said_so(run: Run, store: FolderStore) -> None:
    """Its gate is no news about its machines; one that was judged at once says nothing."""
    keep(store, 5, replace(healthy(), measured_at="2025-11-21T08:00:00Z"))
    keep(store, 6, replace(healthy(), measured_at="2025-11-27T07:00:00Z"))
    lines = run("fleet", "store", "list", store.root)[1].splitlines()
    old, new = (next(line for line in lines if gate_id(number) in line) for number in (5, 6))

    assert old.endswith("(measured 5 days before, at 2025-11-21T08:00:00Z)") and "measured" not in new
