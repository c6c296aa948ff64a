"""`prelaunch machines`: the table, one node, and what is printed where the engine, the records or the store fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli import machines as command
from flows.cli.main import main
from tasks.machines.base import Rung
from tasks.remediation.records import Records
from tasks.store.layout import act_key
from tasks.store.open import open_store
from tests.fakes.machines import PlayedMachines, serving
from tests.tasks.reports.machines.test_rows import act

GATES = Path(__file__).parents[3] / "deployments" / "gates"


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedMachines:
    """n1 and n2, which serve."""
    machines = serving("n1", "n2")
    monkeypatch.setattr(command, "machines_of", lambda gate: machines)
    return machines


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A gate file with a store of its own."""
    text = (GATES / "local.toml").read_text()
    text = text.replace('path = ".prelaunch"', f'path = "{tmp_path}/store"').replace(
        "../", f"{GATES.parent}/"
    )
    text = text.replace('[cluster]\nname = "local"', '[cluster]\nname = "c"')
    (tmp_path / "gate.toml").write_text(text)
    return tmp_path / "gate.toml"


def keep(folder: Path, *rungs: Rung) -> None:
    """Records of acts on n2."""
    for index, rung in enumerate(rungs):
        Records(open_store(str(folder / "store")), "c").create(act(rung, at=1000.0 + index))


def test_engine_and_records_are_one_table(
    gate: Path, played: PlayedMachines, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node that the engine serves and that we fenced is marked."""
    keep(gate.parent, Rung.FENCE)

    assert 0 == main(["machines", str(gate), "--format", "json"])
    rows = {row["node"]: row for row in json.loads(capsys.readouterr().out)["machines"]}
    assert ("untouched", None) == (rows["n1"]["ours"], rows["n1"]["disagreement"])
    assert ("fenced", "serves", "fence 1") == tuple(
        rows["n2"][key] for key in ("ours", "disagreement", "last_act")
    )
    assert 0 == main(["machines", str(gate)])
    assert "serves, but is fenced by us" in capsys.readouterr().out


def test_a_silent_engine_is_said_and_the_records_are_printed(
    gate: Path, played: PlayedMachines, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 3."""
    keep(gate.parent, Rung.FENCE)
    played.silent = True

    assert 3 == main(["machines", str(gate)])
    shown = capsys.readouterr()
    assert "fenced (fence 1 done)" in shown.out
    assert "the engine did not answer" in shown.err
    assert 3 == main(["machines", str(gate), "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    assert (False, "n2", None) == (
        document["answered"], document["machines"][0]["node"], document["machines"][0]["engine"],
    )  # fmt: skip


def test_an_unreadable_record_is_said_and_the_engine_is_printed(
    gate: Path, played: PlayedMachines, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 3, and no node that looks untouched."""
    open_store(str(gate.parent / "store")).put(act_key("c", "n2", "x"), b"{")

    assert 3 == main(["machines", str(gate)])
    shown = capsys.readouterr()
    assert "untouched" not in shown.out
    assert "cannot be read" in shown.err


def test_machines_command_lists_the_acts_of_one_node(
    gate: Path, played: PlayedMachines, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no other node's."""
    keep(gate.parent, Rung.FENCE, Rung.RECHECK, Rung.RETURN)

    assert 0 == main(["machines", str(gate), "--node", "n2"])
    text = capsys.readouterr().out
    assert ["fence 1: done", "recheck 1: done", "return 1: done"] == [
        line[21:].partition(" at ")[0] for line in text.splitlines() if " at 1970" in line
    ]
    assert "n1" not in text
    assert 0 == main(["machines", str(gate), "--node", "n2", "--format", "json"])
    assert 3 == len(json.loads(capsys.readouterr().out)["records"])


def test_a_gate_file_that_names_no_engine_is_told_so(gate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The nodes of its cluster may be many, and none of them is listed."""
    assert 0 == main(["machines", str(gate)])
    assert ("No machine is known.\n", True) == (
        (said := capsys.readouterr()).out,
        "`prelaunch fleet`" in said.err,
    )


@pytest.mark.parametrize("verb", ["machines", "remedy"])
def test_a_store_in_the_place_of_a_gate_file_is_said_to_be_a_folder(
    tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what is needed."""
    assert 2 == main([verb, str(tmp_path)])
    assert "is a folder. This needs a gate file" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--node", "n9"], ["--node", "../n2"], ["--node", "n2\n"]])
def test_a_node_that_is_none_is_rejected(
    gate: Path, played: PlayedMachines, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2."""
    assert 2 == main(["machines", str(gate), *words])
    assert not capsys.readouterr().out
