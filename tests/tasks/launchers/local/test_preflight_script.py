"""A training script that is not on this machine is said by `plan` and refused by a gate, before anything starts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from flows.cli.main import main
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.session import Session
from tasks.gate.submission import PreflightFailed, run_preflight
from tasks.gate_file.request import GateRequest
from tests.flows.gates import write_gate
from tests.tasks.parameters import spread

THERE = Path(__file__)


def gate(folder: Path, command: list[str], distributed: str = "none") -> str:
    """A gate file with this training."""
    path = write_gate(folder, fake=False)
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("command = ", "distributed = "))]
    place = kept.index("[training]") + 1
    kept[place:place] = [f"command = {json.dumps(command)}", f'distributed = "{distributed}"']
    path.write_text("\n".join(kept))
    return str(path)


@dataclass
class Opened:
    """A session of a gate, as far as its preflight asks for it."""

    context: GateContext
    launches: bool
    gate_id: str = "g-1"
    preflight_done: bool = False


def test_a_script_of_the_current_folder_is_not_that_of_the_job(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who typed a relative path meant that one: the remedy says how; a folder of a job that does not exist yet is no help."""
    path = gate(tmp_path, ["train.py"])
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)

    assert 2 == main(["plan", path, "--format", "shell"])
    err = capfd.readouterr().err
    assert "begins in the folder of the job, which has no such file" in err and "{here}/../train.py" in err
    assert ".prelaunch" not in err and "prelaunch: training script: '" in err
    assert 0 == main(["plan", path, "--offline"])


def look(path: str, launches: bool = True) -> None:
    """A gate's preflight."""
    run_preflight(cast(Session, Opened(open_gate_context(GateRequest(gate_file=path)), launches)))


@pytest.mark.parametrize(
    ("command", "distributed", "said"),
    [
        (["/nowhere/train.py"], "torchrun", "'/nowhere/train.py': there is no such file"),
        (["{python}", "/nowhere/train.py"], "none", "'/nowhere/train.py': there is no such file"),
        (["train.py"], "torchrun", "a relative path begins in the folder of the job"),
        (["no-such-program", "--x"], "none", "no folder of PATH has it"),
    ],
)
def test_a_missing_script_is_wrong(tmp_path: Path, command: list[str], distributed: str, said: str) -> None:
    """With the file, and what to write. A gate that only checks a cluster needs none."""
    path = gate(tmp_path, command, distributed)

    look(path, launches=False)
    with pytest.raises(PreflightFailed, match=rf"{said}.*Write its path into command of \[training\]"):
        look(path)


@pytest.mark.parametrize(
    ("distributed", "command"),
    spread(
        ("torchrun", ([str(THERE)], ["{here}/train.py"], ["-m", "package.train"])),
        ("none", (["{python}", str(THERE)], ["sh", "-c", "true"])),
    ),
)
def test_a_script_that_is_there_is_all_right(tmp_path: Path, command: list[str], distributed: str) -> None:
    """Also one below the gate file's folder, a program of PATH, and a module, which is not looked for."""
    (tmp_path / "train.py").touch()

    look(gate(tmp_path, command, distributed))
