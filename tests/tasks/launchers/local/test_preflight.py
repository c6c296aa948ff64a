"""A machine without PyTorch is noticed before anything starts, and only where a check or torchrun needs it.

So is a training script that is not on this machine: `plan` says it, and a gate refuses it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from checks import bundle as bundles
from checks.catalog import CATALOG
from checks.facts.builtin import builtin
from checks.model import Declared, Profile, Scope
from flows.cli.main import main
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.jobs import STARTERS
from tasks.gate.session import Session
from tasks.gate.submission import PreflightFailed, run_preflight
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobSpec, PreflightResult, Work
from tasks.launchers.local import preflight
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.plan import LocalOptions
from tests.checks.local_policy import local_policy
from tests.flows.gates import write_gate
from tests.programs import executable
from tests.tasks.parameters import spread

RANK_CHECKS = tuple(check.name for check in CATALOG if check.scope is Scope.RANK)
NOTHING: Mapping[str, str] = {}


def interpreter(folder: Path, lines: str) -> str:
    """A program that stands in for the interpreter of the nodes."""
    return str(executable(folder / "python", f"#!/bin/sh\n{lines}\n"))


def without_packages(folder: Path) -> str:
    """An interpreter that has the standard library alone."""
    return interpreter(folder, f'exec "{sys.executable}" -I -S "$@"')


def look(
    folder: Path,
    python: str,
    skip: tuple[str, ...] = (),
    work: Work = Work.CHECK,
    distributed: str = "none",
    environment: Mapping[str, str] = NOTHING,
    gpus: int = 0,
) -> tuple[tuple[str, str], ...]:
    """The result and the text of each line of the preflight."""
    declared = Declared("cpu", 1, gpus, 2)
    made = bundles.make("g-1", declared, Profile.QUICK, local_policy(), builtin(), skip=skip)
    files = {"bundle.json": bundles.dump(made)}
    behind = (*STARTERS[distributed], "train.py")
    job = JobSpec("g-1-check-1", ("{python}", "-m", "checks"), 1, 2, 60.0, files, environment, work, behind)
    launcher = LocalLauncher(folder / "jobs", LocalOptions(python=python))
    return tuple((line.result.value, line.text) for line in launcher.preflight((launcher.plan(job),)))


@pytest.mark.parametrize(
    ("gpus", "driver", "is_warned"), [(8, False, True), (8, True, False), (0, False, False)]
)
def test_declared_gpus_on_a_machine_without_one_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, driver: bool, is_warned: bool
) -> None:
    """The gate may start all the same: only its checks know for certain."""
    file = tmp_path if driver else tmp_path / "gpus"
    monkeypatch.setattr(preflight, "GPU_FILES", (str(tmp_path / "absent"), str(file)))
    warnings = [text for result, text in look(tmp_path, sys.executable, gpus=gpus) if result == "warning"]

    said = "GPUs: 8 GPUs a node are declared, and this machine has none"
    assert [True] * is_warned == [text.startswith(said) for text in warnings]


LACKS = "{0}, which runs the nodes, has no module torch. Install it: {0} -m pip install torch"


@pytest.mark.parametrize("distributed", ["none", "torchrun"])
@pytest.mark.parametrize("work", [Work.CHECK, Work.GATE])
def test_a_missing_torch_is_wrong_before_any_start(tmp_path: Path, work: Work, distributed: str) -> None:
    """One line names the interpreter and the command, also if the training lacks it as well; nothing was written."""
    python = without_packages(tmp_path)
    ((result, text),) = look(tmp_path, python, (), work, distributed)

    assert PreflightResult.WRONG.value == result
    assert text.startswith("PyTorch for the rank checks: ") and LACKS.format(python) in text
    assert not (tmp_path / "jobs").exists()


def test_without_rank_checks_torch_is_not_needed(tmp_path: Path) -> None:
    """Nor for a job that checks nothing."""
    python = without_packages(tmp_path)

    assert () == look(tmp_path, python, skip=RANK_CHECKS)
    assert () == look(tmp_path, python, work=Work.CONFIRM)


def test_torchrun_needs_torch_even_without_rank_checks(tmp_path: Path) -> None:
    """The training would fail at its start, after the checks; mpirun and a command by itself need no torch."""
    python, work = without_packages(tmp_path), Work.GATE
    ((result, text),) = look(tmp_path, python, RANK_CHECKS, work, "torchrun")

    assert PreflightResult.WRONG.value == result
    assert f"PyTorch for the training, which torchrun starts: {LACKS.format(python)}" == text
    assert () == look(tmp_path, python, RANK_CHECKS, work, "mpi")
    assert () == look(tmp_path, python, RANK_CHECKS, work, "none")
    assert () == look(tmp_path, "", RANK_CHECKS, work, "torchrun")


def test_the_training_may_bring_its_own_torch(tmp_path: Path) -> None:
    """Its interpreter is asked with the environment that the gate file gives the training."""
    (tmp_path / "brought").mkdir()
    (tmp_path / "brought" / "torch.py").touch()
    python = interpreter(tmp_path, f'exec "{sys.executable}" -S "$@"')
    environment = {"PYTHONPATH": str(tmp_path / "brought")}

    ((result, _),) = look(tmp_path, python, RANK_CHECKS, Work.CONFIRM, "torchrun")

    assert () == look(tmp_path, python, RANK_CHECKS, Work.CONFIRM, "torchrun", environment)
    assert PreflightResult.WRONG.value == result


def test_an_interpreter_with_torch_says_nothing(tmp_path: Path) -> None:
    """It is looked for and not imported."""
    assert () == look(tmp_path, "")
    assert () == look(tmp_path, "", (), Work.GATE, "torchrun")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("echo broken >&2; exit 3", "ended with exit code 3: broken"),
        ("exec sleep 60", "did not answer within 0.2 s"),
        (None, "could not be started: No such file or directory"),
    ],
)
def test_an_interpreter_that_cannot_say_is_unknown_and_not_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str | None, says: str
) -> None:
    """The gate goes on: its nodes show what is wrong."""
    monkeypatch.setattr(preflight, "LOOK_S", 0.2 if lines and "sleep" in lines else 20.0)
    python = interpreter(tmp_path, lines) if lines else str(tmp_path / "none")
    ((result, text),) = look(tmp_path, python)

    assert PreflightResult.UNSEEN.value == result
    assert says in text


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


def preflight_of_gate(path: str, launches: bool = True) -> None:
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

    preflight_of_gate(path, launches=False)
    with pytest.raises(PreflightFailed, match=rf"{said}.*Write its path into command of \[training\]"):
        preflight_of_gate(path)


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

    preflight_of_gate(gate(tmp_path, command, distributed))
