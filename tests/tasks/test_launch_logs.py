"""What the logs of a training say of its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.launch import last_log_line
from tasks.store.layout import logs_folder
from tests.tasks.sessions import TRAIN_JOB, FakeEngine
from tests.tasks.test_launch import FAILED, result


def test_an_engine_that_says_why_and_a_log_that_says_nothing_make_one_sentence(tmp_path: Path) -> None:
    """As where Slurm has forgotten a job whose nodes left no log."""
    status = replace(FAILED, detail="Slurm no longer knows the job")
    found, one = result(tmp_path, FakeEngine(log=""), status)
    logs = one.setting.store.place(logs_folder(one.gate_id, TRAIN_JOB))

    assert found.training.detail == f"Slurm no longer knows the job (logs: {logs})"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", ""),
        ("one\ntwo\n\n", "two"),
        ("one\n=====\n", "one"),
        ("mine\nE torch/distributed/elastic failed\nexitcode  : 7\nexitcode  : 9\n", "mine exitcode  : 7"),
        ("E torch/distributed/elastic failed\nthe end\n", "the end"),
    ],
)
def test_the_line_of_a_log_that_says_why(log: str, expected: str) -> None:
    """The command's own last line, not what torchrun prints after it."""
    assert expected == last_log_line(log)
