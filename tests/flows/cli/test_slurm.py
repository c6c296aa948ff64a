"""`prelaunch site slurm`: a line per check, and the exit code of the worst."""

from __future__ import annotations

import json

import pytest

from flows.cli import slurm
from flows.cli.main import main
from tasks.launchers.slurm import commands
from tasks.launchers.slurm.cluster_checks import ClusterCheck, SlurmOutcome
from tests.flows.cli.conftest import Captured, Run

WORKS = ClusterCheck("srun", SlurmOutcome.WORKS, "n0, n1 answered")
MISSING = ClusterCheck("enroot", SlurmOutcome.MISSING, "it is not on the PATH of n1")
UNSEEN = ClusterCheck("pyxis", SlurmOutcome.UNSEEN, "no node could be asked")
FAILS = ClusterCheck("pyxis", SlurmOutcome.FAILS, "it did not start on n1")


@pytest.mark.parametrize(
    ("made", "code"), [((WORKS,), 0), ((WORKS, MISSING), 3), ((WORKS, UNSEEN), 3), ((MISSING, FAILS), 1)]
)
def test_the_worst_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, run: Run, made: tuple[ClusterCheck, ...], code: int
) -> None:
    """1 if one fails; 3 if one could not run, because it is not installed or nothing was free."""
    monkeypatch.setattr(slurm, "run_checks", lambda *asked: iter(made))
    text, document = run("site", "slurm"), run("site", "slurm", "--format", "json")
    outcomes = [row["outcome"] for row in json.loads(document.out)["checks"]]

    assert (text.code, document.code) == (code, code)
    assert text.out.splitlines() == [line.text for line in made]
    assert outcomes == [line.outcome.value for line in made]


def test_a_machine_without_slurm_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """With the remedy."""

    def run(*argv: str, timeout_s: float = 0.0) -> commands.SlurmReply:
        raise commands.MissingCommand("there is no srun on this machine. Run the gate where it is.")

    monkeypatch.setattr(commands, "run", run)

    assert main(["site", "slurm"]) == 2
    assert "there is no srun on this machine" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["ssh"], ["--nodes", "0"], ["--nodes", "nan"], ["-N", "-1"]])
def test_other_words_are_refused(words: list[str], capsys: Captured) -> None:
    """Before Slurm is asked."""
    assert main(["site", "slurm", *words]) == 2
    assert capsys.readouterr().err.strip()
