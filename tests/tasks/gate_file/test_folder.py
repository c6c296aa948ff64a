"""Gate files by name: which folder, which names, and what a name that leads nowhere is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate_file.folder import SHIPPED, folder_of, names_in, path_of, typed_path
from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import opened, refusal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two gate files, one of them broken, and with what is none; the working directory is another."""
    gates, here = tmp_path / "gates", tmp_path / "here"
    gates.mkdir()
    here.mkdir()
    (gates / "p5-test.toml").write_text('[cluster]\nname = "p5-test"\n')
    (gates / "p5-prod.toml").write_text('name = "p5-prod\n[cluster.declared]\n')
    (gates / "README.md").write_text("[cluster]\n")
    (gates / "policy.toml").write_text('name = "policy"\ninstance_types = ["cpu"]\n')
    (gates / "prices.toml").write_text('cluster = "a word"\n')
    (gates / "empty.toml").write_text("")
    monkeypatch.setenv("PRELAUNCH_GATES", str(gates))
    monkeypatch.chdir(here)
    return gates


def test_the_shipped_folder_is_the_default() -> None:
    """Unset is the checkout's; empty is none; a path is made absolute."""
    assert SHIPPED == folder_of({})
    assert folder_of({"PRELAUNCH_GATES": ""}) is None
    assert Path("/a/b") == folder_of({"PRELAUNCH_GATES": "/a/b"})


def test_names_are_those_of_the_gate_files(folder: Path) -> None:
    """By the alphabet, and without other TOML files; a folder that is not there has none."""
    assert ("p5-prod", "p5-test") == names_in(folder)
    assert () == names_in(folder / "missing") == names_in(None)


def test_a_name_leads_into_the_folder_and_a_path_stays(folder: Path) -> None:
    """Also a name with a dot in it; what the folder lacks stays as it was asked for."""
    assert folder / "p5-prod.toml" == path_of("p5-prod")
    assert Path("x/p5-prod.toml") == path_of("x/p5-prod.toml")
    assert Path("p5-prod.toml") == path_of("p5-prod.toml")
    assert Path("other") == path_of("other")


def test_gate_name_in_a_terminal_prefers_a_local_file(folder: Path) -> None:
    """A deployment's name leads into the folder all the same."""
    Path("p5-prod").write_text("")

    assert ("p5-prod", str(folder / "p5-test.toml")) == (typed_path("p5-prod"), typed_path("p5-test"))
    assert folder / "p5-prod.toml" == path_of("p5-prod")


def test_a_name_leads_into_the_gate_files_of_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a terminal: before the installation's file of that name, and stderr says which it is; PRELAUNCH_GATES goes first."""
    own = Path("deployments/gates").absolute()
    own.mkdir(parents=True)
    for name in ("local", "p5-test"):
        (own / f"{name}.toml").write_text("[cluster]\n")

    assert str(folder / "p5-test.toml") == typed_path("p5-test")
    capsys.readouterr()
    monkeypatch.delenv("PRELAUNCH_GATES")
    assert str(own / "local.toml") == typed_path("local")
    assert f"prelaunch: local is {own / 'local.toml'}\n" == capsys.readouterr().err
    assert str(SHIPPED / "slurm-p5.toml") == typed_path("slurm-p5")
    assert "nothing" == typed_path("nothing")
    assert capsys.readouterr().err == f"prelaunch: slurm-p5 is {SHIPPED / 'slurm-p5.toml'}\n"
    (beside := Path("slurm-p5.toml").absolute()).write_text("[cluster]\n")
    assert str(beside) == typed_path("slurm-p5")


def test_a_name_that_leads_nowhere_is_told_the_nearest(folder: Path) -> None:
    """With the folder and what it has."""
    said = str(refusal("p5-prd"))

    assert said.startswith("p5-prd: there is no gate file of this name in ") and str(folder) in said
    assert "it has p5-prod, p5-test" in said and said.endswith("Did you mean 'p5-prod'?")


def test_a_name_opens_its_gate_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own folder is where its policy is looked for."""
    write_gate(tmp_path)
    monkeypatch.setenv("PRELAUNCH_GATES", str(tmp_path))

    assert ("test", tmp_path) == (opened("gate").gate.name, opened("gate").here)


def test_a_name_that_leads_nowhere_names_every_folder_that_was_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal the folder's own gate files come before the installation's, and so does the nearest name."""
    monkeypatch.delenv("PRELAUNCH_GATES", raising=False)
    monkeypatch.chdir(tmp_path)
    without = refusal(typed_path("mine-prd"))
    gates = tmp_path / "deployments" / "gates"
    gates.mkdir(parents=True)
    (gates / "mine-prod.toml").write_text('[cluster]\nname = "mine"\n')
    found = refusal(typed_path("mine-prd"))

    assert str(tmp_path) not in str(without) and str(SHIPPED) in str(without)
    assert f"in {gates} (it has mine-prod) or {SHIPPED}; PRELAUNCH_GATES" in str(found)
    assert "(it has " in str(without)
    assert "mine-prod" == found.nearest
