"""The id of a gate in the place of a file, and one that is mistyped: the answer says which command takes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.report import dump_plain
from tasks.reports import store_argument
from tasks.store import records
from tasks.store.base import StoreUnreachable
from tasks.store.folder import FolderStore
from tasks.store.layout import outcome_key, policy_key, report_key
from tests.flows.cli.conftest import Run
from tests.sample_reports import POLICY, healthy, wrong_sums
from tests.tasks.kept_gates import gate_id, keep, record_for

ID = "local-20261127-015647-8b0d"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def kept(folder: Path) -> FolderStore:
    """A store with a GO and a NO-GO, and their policy."""
    store = FolderStore(folder)
    for number, report in enumerate((healthy(), wrong_sums(healthy()))):
        keep(store, number, report)
        store.put(policy_key(gate_id(number)), dump_plain(POLICY))
    return store


def test_a_report_is_named_by_its_gate(tmp_path: Path, run: Run) -> None:
    """In the store of this folder, or in the one that is named; the same bytes as of the report's own path."""
    store = kept(tmp_path / ".prelaunch")
    for number, code in ((0, 0), (1, 1)):
        by_path = run("judge", store.location(report_key(gate_id(number))))

        assert (code, by_path[1]) == (by_path[0], run("judge", gate_id(number))[1])
        assert by_path == run("judge", gate_id(number), "--store", store.root)
        assert by_path[:2] == run("judge", gate_id(number), "--store", ".prelaunch")[:2]


def test_the_report_of_a_gate_in_s3_is_to_be_copied(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is in the refusal."""
    local = kept(tmp_path / "kept")
    monkeypatch.setattr(store_argument, "open_store", lambda address: local)
    code, _, err = run("judge", gate_id(1), "--store", "s3://bucket/a")

    assert 2 == code and f"aws s3 cp --recursive {local.root}/gates/{gate_id(1)} {gate_id(1)}" in err


def test_a_pass_that_was_used_again_is_that_of_the_gate_that_measured(tmp_path: Path, run: Run) -> None:
    """Its record names the report."""
    store = kept(tmp_path / ".prelaunch")
    verdict = keep(store, 1, wrong_sums(healthy()))
    record = replace(record_for(1, healthy(), verdict), gate_id=ID, reused=gate_id(1))
    records.keep(store, record)

    assert 1 == run("judge", ID)[0]


def test_a_path_goes_before_an_id(tmp_path: Path, run: Run) -> None:
    """A folder that is called like a gate, as in a store."""
    store = kept(tmp_path / ".prelaunch")
    (tmp_path / gate_id(0)).mkdir()
    bad = store.get(report_key(gate_id(1)))
    assert bad
    (tmp_path / gate_id(0) / "health_check_metrics.json").write_bytes(bad)

    assert 1 == run("judge", gate_id(0))[0]
    assert 1 == run("judge", gate_id(0), "--store", store.root)[0]


def test_an_id_that_no_store_has_says_where_it_was_looked_for(tmp_path: Path, run: Run) -> None:
    """With the nearest id and the newest ones; a store without gates is said to be one, and how to name another."""
    code, _, err = run("judge", ID)
    assert 2 == code and f"no gate of {tmp_path}/.prelaunch has this id; it has none. --store STORE" in err

    store = kept(tmp_path / ".prelaunch")
    code, _, err = run("judge", gate_id(1)[:-1] + "9")
    assert 2 == code and f"Did you mean {gate_id(1)!r}?" in err
    assert f"Its newest are {gate_id(1)}, {gate_id(0)}." in err
    word = gate_id(1).removeprefix("sample-")[:-4]
    assert f"Did you mean {gate_id(1)!r}?" in run("judge", f"sampel-{word}", "--store", store.root).err

    code, _, err = run("judge", "none.json")
    assert 2 == code and "gates/" not in err


def test_a_gate_that_judged_nothing_is_said_to_be_one(tmp_path: Path, run: Run) -> None:
    """It is there, and has no report."""
    store = kept(tmp_path / ".prelaunch")
    store.put(outcome_key(ID), b"{}")
    code, _, err = run("judge", ID)

    assert 2 == code and "this gate kept no report: it ended before it judged" in err


def test_a_store_that_fails_is_no_rejection(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5, as of every command that reads a store."""

    def fails(self: object, key: str) -> None:
        raise StoreUnreachable("it does not answer")

    kept(tmp_path / ".prelaunch")
    monkeypatch.setattr(FolderStore, "get", fails)

    assert 5 == run("judge", gate_id(0))[0]
