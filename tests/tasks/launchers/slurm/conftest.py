"""Launchers and preflights over answers that are written here."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tasks.launchers.slurm import commands
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tests.tasks.launchers.slurm.answers import Answers, Look, looked_at


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """A job is taken under number 5, and squeue lists nothing."""
    told = Answers()
    monkeypatch.setattr(commands, "run", told)
    monkeypatch.setattr("tasks.launchers.slurm.submit.ADOPT_S", 0.0)
    monkeypatch.setattr("tasks.launchers.slurm.submit.AGAIN_S", 0.0)
    return told


@pytest.fixture
def slurm(tmp_path: Path) -> SlurmLauncher:
    """A launcher with an empty folder."""
    return SlurmLauncher(tmp_path, SlurmOptions(poll_seconds=0.1))


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Look:
    """The lines of a preflight by subject."""
    return partial(looked_at, monkeypatch, root=tmp_path)
