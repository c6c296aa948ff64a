"""`prelaunch store` about one node, about times, and for arguments that name no store: what is said of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.store.folder import FolderStore
from tasks.store.layout import nodes_key
from tests.flows.cli.test_store import Run, document
from tests.flows.cli.test_store import run as run
from tests.flows.cli.test_store import store as store
from tests.sample_reports import healthy, without_node, wrong_sums
from tests.tasks.kept_gates import DAY_S, FIRST_S, gate_id, keep

GATES = Path(__file__).parents[3] / "deployments" / "gates"


def test_a_list_shows_the_nodes_own_first_finding(run: Run, store: FolderStore) -> None:
    """Not that of another node, which the verdict may have first; what is missing of it is one text."""
    both = wrong_sums(wrong_sums(healthy(), "node-0/rank-0"), "node-1/rank-3")
    keep(store, 3, both)
    keep(store, 4, without_node(healthy(), "node-1"))
    rows = {
        node: document(run("store", "list", store.root, "--node", node, "--format", "json")[1])["verdicts"]
        for node in ("node-0", "node-1")
    }

    assert rows["node-0"][0]["finding"] == rows["node-1"][1]["finding"]
    assert rows["node-0"][0]["node_finding"].startswith("FAIL node-0, rank 0 ")
    assert rows["node-1"][1]["node_finding"].startswith("FAIL node-1, rank 3 ")
    assert rows["node-1"][2]["node_finding"].startswith("CANNOT TELL ")
    assert "node-1, rank 3" in run("store", "list", store.root, "--node", "node-1")[1].splitlines()[2]


def test_a_node_that_no_gate_knows_is_rejected(run: Run, store: FolderStore) -> None:
    """With the nearest one, and the command that lists them; a known node without a gate in the chosen time is none of it."""
    code, _, err = run("store", "list", store.root, "--node", "node1")

    assert (2, True, True) == (
        code,
        "Did you mean 'node-1'?" in err,
        f"`prelaunch fleet {store.root}` lists them" in err,
    )
    assert 0 == run("store", "list", store.root, "--node", "node-1", "--since", "2025-12-24")[0]
    store.delete(nodes_key(gate_id(0)))
    (store.root / "index.sqlite").unlink(missing_ok=True)
    code, _, err = run("store", "list", store.root, "--node", "node-9")
    assert 3 == code and f"`prelaunch store index {store.root} --rebuild`" in err


@pytest.mark.parametrize("words", [("store", "list"), ("fleet",), ("replay",)])
def test_the_name_of_a_gate_file_is_answered_with_its_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A store is named by its gate file, not by the name that the file has in the folder of gate files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gates").mkdir()
    (tmp_path / "gates" / "mine.toml").write_text("[cluster]\n")
    monkeypatch.setenv("PRELAUNCH_GATES", str(tmp_path / "gates"))

    code, _, err = run(*words, "mine")

    assert (2, True) == (code, f"name the file: {Path('gates') / 'mine.toml'}" in err)
    assert "name the file" not in run(*words, "other")[2]


def test_a_relative_store_of_a_gate_file_is_said_to_be_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command runs in another folder than the gate did."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "gate.toml").write_text((GATES / "local.toml").read_text())
    monkeypatch.chdir(tmp_path / "elsewhere")

    code, _, err = run("history", "../gate.toml", "node-1")

    assert (2, True) == (
        code,
        "[store] path '.prelaunch' is relative to the folder where the command runs" in err,
    )
    assert "is relative to" not in run("history", str(tmp_path / "none"), "node-1")[2]


@pytest.mark.parametrize(("since", "numbers"), [("36h", [1, 2]), ("1d", [2]), ("90m", []), ("3d", [0, 1, 2])])
def test_a_list_begins_at_an_age(
    run: Run, store: FolderStore, monkeypatch: pytest.MonkeyPatch, since: str, numbers: list[int]
) -> None:
    """Minutes, hours or days before now."""
    monkeypatch.setattr("flows.cli.store.time.time", lambda: FIRST_S + 2 * DAY_S + 2 * 3600)

    code, out, _ = run("store", "list", store.root, "--format", "json", "--since", since)

    assert (0, [gate_id(n) for n in numbers]) == (code, [row["gate_id"] for row in document(out)["verdicts"]])


@pytest.mark.parametrize("since", ["0h", "2w", "h", "-1d", "2 h"])
def test_another_age_is_rejected_with_the_forms(run: Run, store: FolderStore, since: str) -> None:
    """Both forms are named."""
    code, _, err = run("store", "list", store.root, f"--since={since}")

    assert (2, True) == (code, "2h" in err and "2026-11-20" in err)
