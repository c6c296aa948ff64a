"""What the logs of a training say of its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tasks.store.layout import logs_folder
from tests.tasks.sessions import TRAIN_JOB, FakeEngine
from tests.tasks.test_launch import FAILED, result


def test_an_engine_that_says_why_and_a_log_that_says_nothing_make_one_sentence(tmp_path: Path) -> None:
    """As where Slurm has forgotten a job whose nodes left no log."""
    status = replace(FAILED, detail="Slurm no longer knows the job")
    found, one = result(tmp_path, FakeEngine(log=""), status)
    logs = one.setting.store.place(logs_folder(one.gate_id, TRAIN_JOB))

    assert found.training.cause == "Slurm no longer knows the job"
    assert found.training.detail == f"logs: {logs}"
