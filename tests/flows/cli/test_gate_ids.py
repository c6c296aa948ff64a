"""The id of a gate in the place of a file, and one that is mistyped: the answer says which command takes it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from checks.documents.decode import nearest
from flows.cli.main import main
from tasks.gate.context import GateContext
from tasks.remedy import RemedyRejected, cases_of_gate
from tasks.store.folder import FolderStore
from tests.sample_reports import healthy
from tests.tasks.kept_gates import gate_id, keep

ID = "local-20261127-015647-8b0d"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_remedy_takes_the_id_behind_a_gate_file(capsys: Captured) -> None:
    """The id is in the command."""
    assert 2 == main(["remedy", ID])
    assert f"`prelaunch remedy GATE_FILE --gate {ID}`" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["judge", "render", "explain"])
def test_a_report_is_named_by_its_folder(command: str, tmp_path: Path, capsys: Captured) -> None:
    """The one of the store in this folder, if it is there."""
    assert 2 == main([command, ID])
    assert f"Name the folder of its report: STORE/gates/{ID}" in capsys.readouterr().err

    (tmp_path / ".prelaunch" / "gates" / ID).mkdir(parents=True)
    assert 2 == main([command, ID])
    assert f" .prelaunch/gates/{ID}" in capsys.readouterr().err
    assert 2 == main([command, "none.json"])
    assert "gates/" not in capsys.readouterr().err


def test_a_mistyped_id_is_answered_with_the_nearest(tmp_path: Path) -> None:
    """Of those that the store has."""
    store = FolderStore(tmp_path / "store")
    keep(store, 0, healthy())
    keep(store, 7, healthy())
    typed = gate_id(7)[:-1] + "9"

    class Setting:
        """Only the store is looked at."""

    setting = Setting()
    setting.store = store  # type: ignore[attr-defined]
    with pytest.raises(
        RemedyRejected, match=f"Did you mean {nearest(typed, [gate_id(0), gate_id(7)])}"
    ) as raised:
        cases_of_gate(cast(GateContext, setting), typed)
    assert gate_id(7) in str(raised.value)
