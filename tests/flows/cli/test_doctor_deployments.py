"""`prelaunch doctor` and deployments/prefect.yaml: a name that no form offers is found before `prefect deploy` stops at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli import doctor
from flows.cli.doctor_deployments import look_at_deployments
from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.orchestration.work_pools import is_for

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "deployments" / "prefect.yaml"


@pytest.fixture(autouse=True)
def shipped_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a checkout: the forms offer the shipped gate files."""
    monkeypatch.delenv("PRELAUNCH_GATES", raising=False)


def edited(folder: Path, old: str, new: str) -> Path:
    """The shipped file as a person changed it."""
    path, text = folder / "prefect.yaml", SHIPPED.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_the_shipped_file_names_gate_files_that_there_are() -> None:
    """One line says so, with the folder."""
    (line,) = look_at_deployments(SHIPPED)

    assert PreflightResult.OK is line.result
    assert str(ROOT / "deployments" / "gates") in line.message


@pytest.mark.parametrize(
    ("old", "new", "name", "meant"),
    [
        ("gate_files: [local]", "gate_files: [local, slurm-p6]", "slurm-p6", "slurm-p5"),
        ("{request: {gate_file: local}}", "{request: {gate_file: locall}}", "locall", "local"),
        ("{gate_file: local, wait", "{gate_file: ./mine.toml, wait", "./mine.toml", ""),
    ],
)
def test_a_wrong_name_is_found_with_its_line_and_the_nearest(
    tmp_path: Path, old: str, new: str, name: str, meant: str
) -> None:
    """And nothing is called right beside it."""
    path = edited(tmp_path, old, new)
    lines = list(look_at_deployments(path))
    numbers = [n for n, text in enumerate(path.read_text().splitlines(), 1) if new in text]

    assert {PreflightResult.WRONG} == {line.result for line in lines}
    assert [f"{path}, line {n}: {name} is no gate file in" for n in numbers] == [
        line.message[: line.message.index(" in ") + 3] for line in lines
    ]
    assert all((f"Did you mean {meant}?" in line.remedy) == bool(meant) for line in lines)


def test_a_file_that_cannot_be_read_is_said_and_one_that_is_not_there_is_not(tmp_path: Path) -> None:
    """Whoever deploys nothing hears nothing of it."""
    (tmp_path / "prefect.yaml").write_text("deployments: [\n")

    (line,) = look_at_deployments(tmp_path / "prefect.yaml")
    assert PreflightResult.WRONG is line.result and "line 2" in line.message
    assert [] == list(look_at_deployments(tmp_path / "none.yaml"))


def test_what_a_person_edits_is_behind_the_reaper() -> None:
    """`prefect deploy --all` stops at the first mistake: what ends a dead run is there by then."""
    text = SHIPPED.read_text(encoding="utf-8")

    assert text.index("entrypoint: prelaunch.reap") < text.index("gate_file: local")
    assert text.index("why: late") < text.index("# Another cluster")


def test_a_deployment_that_starts_another_file_of_that_name_is_not_this_one_s(tmp_path: Path) -> None:
    """The name leads to the installation's file; one that leads nowhere here may lead to this one on its worker."""
    own = tmp_path / "local.toml"
    own.write_text("")
    asked = {"request": {"gate_file": "local"}}

    assert not is_for(asked, own)
    assert is_for(asked, ROOT / "deployments" / "gates" / "local.toml")
    assert is_for({"request": {"gate_file": "p5-prod"}}, tmp_path / "p5-prod.toml")
    assert is_for({"request": {}}, own) and is_for(asked, None)


def test_what_one_missing_login_hides_is_one_line() -> None:
    """At the place of the first, each subject once; a line of its own for all else."""
    login = PreflightCheck("credentials", PreflightResult.WRONG, "there are none", "Log in.")
    quota = PreflightCheck("quota", PreflightResult.UNSEEN, "AWS did not answer")
    hidden = [
        PreflightCheck(name, PreflightResult.UNSEEN, f"for {name}", "See it.", behind="credentials")
        for name in ("image", "image", "role")
    ]

    found = list(doctor._gathered([login, hidden[0], quota, *hidden[1:]]))

    gathered = PreflightCheck(
        "image, role", PreflightResult.UNSEEN, "not looked at, because of the line on credentials"
    )
    assert [login, gathered, quota] == found
