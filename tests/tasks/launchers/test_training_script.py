"""Which file a training starts."""

from __future__ import annotations

import pytest

from tasks.launchers.training_script import training_script


@pytest.mark.parametrize(
    ("distributed", "command", "script"),
    [
        ("torchrun", ("/code/train.py", "--steps", "2"), "/code/train.py"),
        ("torchrun", ("-m", "package.train"), ""),
        ("none", ("{python}", "/code/train.py"), "/code/train.py"),
        ("none", ("/usr/bin/python3.11", "-c", "pass"), ""),
        ("none", ("bash", "-c", "true"), "bash"),
        ("mpi", ("/code/all_reduce_perf", "-b", "8"), "/code/all_reduce_perf"),
        ("none", (), ""),
    ],
)
def test_the_script_of_a_command(distributed: str, command: tuple[str, ...], script: str) -> None:
    """An interpreter's own script, torchrun's, or the program; nothing where an option is in its place."""
    assert script == training_script(distributed, command)
