"""The training's environment on a local node: what a command without checks gets, and documented names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.launchers.base import JobSpec, Work
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.plan import LocalOptions
from tests.survival.test_in_job import GATE, passed
from tests.survival.world import World, run, wait

CODE = "import json, os, sys; json.dump({'path': sys.path, **os.environ}, open('environment.json', 'w'))"
DUMP = ("{python}", "-c", CODE)
DOCUMENTED = {"PRELAUNCH_INTERFACE", "PRELAUNCH_PASS"}
# Their values name the job, its folder and its start; LC_CTYPE is Python's own (PEP 538).
OF_THE_JOB = {"PRELAUNCH_ROSTER", "PRELAUNCH_ATTEMPT", "PRELAUNCH_EXCHANGE_KEY", "LC_CTYPE"}


def dumped(folder: Path) -> dict[str, object]:
    """What the command of node-0 found."""
    (path,) = folder.rglob("node-0/environment.json")
    made: dict[str, object] = json.loads(path.read_bytes())
    return made


OWN = {"PYTHONPATH": "/srv/mine", "OMP_NUM_THREADS": "7", "NCCL_DEBUG": "WARN", "RES_OPTIONS": "rotate"}


def test_the_training_gets_what_a_bare_command_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variable for variable, whatever the submitter set; neither Prelaunch's code nor its checks' settings are left."""
    for name, value in OWN.items():
        monkeypatch.setenv(name, value)
    launcher = LocalLauncher(tmp_path / "bare", LocalOptions())
    bare = JobSpec("bare", DUMP, 1, 1, 60.0, {}, {"PYTHONPATH": "/srv/job"}, work=Work.COMMAND)
    launcher.submit(launcher.plan(bare))
    wait(launcher, "bare", 30)
    without = dumped(tmp_path / "bare")
    command = (*GATE, "--confirm", "{job}/pass.json", "--", *DUMP)
    world = World(1, 1, environment={"PYTHONPATH": "/srv/job"})
    run(world, tmp_path / "gated", command=command, files={"pass.json": passed()})
    trained = dumped(tmp_path / "gated")

    assert DOCUMENTED == trained.keys() - without.keys()
    assert without.keys() - trained.keys() <= {"PRELAUNCH_EXCHANGE_KEY"}
    same = without.keys() & trained.keys() - OF_THE_JOB
    assert {name: without[name] for name in same} == {name: trained[name] for name in same}
    assert trained["PYTHONPATH"] == "/srv/job:/srv/mine"
