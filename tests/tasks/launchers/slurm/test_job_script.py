"""The batch script runs with commands on PATH that only record how they were called: no Slurm is here."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.launchers.base import JobSpec, Work
from tasks.launchers.slurm import batch_script
from tasks.launchers.slurm.batch_script import make_plan
from tasks.launchers.slurm.job_folder import ScriptEnd, SharedJobFolder
from tasks.launchers.slurm.options import SlurmOptions
from tests.tasks.launchers.slurm.test_batch_script import JOB

# A stub: it writes its arguments and its environment down, and stays as long as it is told to.
STUB = """#!/bin/bash
echo "stub {name} $*" >>{log}
/usr/bin/env >{log}.{name}
exec /bin/sleep {seconds}
"""


def staged(folder: Path, job: JobSpec, srun: str) -> SharedJobFolder:
    """The folder of the job, beside commands: this srun, and a scancel."""
    (folder / "bin").mkdir()
    scancel = STUB.format(name="scancel", log=folder / "log", seconds=0.0)
    for name, text in (("srun", srun), ("scancel", scancel)):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    shared = SharedJobFolder(folder / "root", job.name)
    assert shared.stage(make_plan(job, folder / "root", SlurmOptions(grace_s=1.0)))
    return shared


def ran(folder: Path, shared: SharedJobFolder) -> str:
    """What the job's script calls."""
    path = os.pathsep.join((str(folder / "bin"), "/usr/bin", "/bin"))
    argv, environment = ("/bin/bash", str(shared.path / "job.sbatch")), {"PATH": path, "SLURM_JOB_ID": "77"}
    subprocess.run(argv, env=environment, cwd=folder, check=False, capture_output=True)
    return (folder / "log").read_text()


def calls(
    folder: Path, environment: dict[str, str], stays_s: float = 0.0, change: tuple[str, str] = ("", "")
) -> tuple[str, SharedJobFolder]:
    """What the script of a job with that environment calls, and the job's folder. `change` is one of the script's text."""
    job = replace(JOB, environment=environment, max_runtime_s=1.0 if stays_s else 3600.0)
    shared = staged(folder, job, STUB.format(name="srun", log=folder / "log", seconds=stays_s))
    script = shared.path / "job.sbatch"
    script.write_text(script.read_text().replace(*change))
    return ran(folder, shared), shared


def test_a_variable_of_the_training_is_no_variable_of_the_script(tmp_path: Path) -> None:
    """It reaches the step under any name, and neither the number of nodes, nor the agent, nor the folder changes."""
    own = {"nodes": "1", "job": "/tmp/x", "srun_options": "--uid=0", "step": "1", "agent": "x", "srun": "/x"}
    own |= {"PATH": "/nowhere", "WANDB_API_KEY": "a 'b' $c"}
    said, shared = calls(tmp_path, own)
    given = (tmp_path / "log.srun").read_text().splitlines()

    assert "--nodes=2 --ntasks=2 " in said and f"--output={shared.logs}/%N.log" in said
    assert "--uid" not in said and f"gate --bundle {shared.path}/in/bundle.json" in said
    assert {f"{name}={value}" for name, value in own.items()} <= set(given)
    assert shared.ended() == ScriptEnd(77, 0, overdue=False)


def test_no_value_of_a_variable_is_computed(tmp_path: Path) -> None:
    """Bash runs commands within arithmetic on text."""
    mark = tmp_path / "mark"
    text = f"SECONDS[$(touch {mark})]+3"
    names = ("max_runtime_s", "grace_s", "left", "SECONDS", "code", "overdue")
    _, shared = calls(tmp_path, dict.fromkeys(names, text))

    assert not mark.exists()
    assert shared.ended() == ScriptEnd(77, 0, overdue=False)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "change", [("", ""), ("< 403", "< 903")], ids=["this bash", "a bash without wait -n"]
)
def test_a_script_ends_its_own_step_at_the_max_runtime(tmp_path: Path, change: tuple[str, str]) -> None:
    """With the time that the launcher gave, whatever the training's variables are."""
    said, shared = calls(tmp_path, {"max_runtime_s": "3600", "grace_s": "600"}, 30.0, change)

    assert "stub scancel --signal=TERM 77\n" in said
    assert shared.ended() == ScriptEnd(77, 143, overdue=True)


@pytest.mark.timeout(60)
def test_the_time_in_which_a_job_is_suspended_is_no_runtime(tmp_path: Path) -> None:
    """Slurm's own limit leaves it out as well."""
    suspended = """max_runtime_s=3600
pause() { sleep 0.1; [[ -n "${once-}" ]] || SECONDS=$((SECONDS + 4000)) once=1; }
overdue=false"""
    _, shared = calls(tmp_path, {}, 0.5, ("overdue=false", suspended))

    assert shared.ended() == ScriptEnd(77, 0, overdue=False)


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_a_signal_for_the_training_that_the_script_gets_reaches_the_step(tmp_path: Path, name: str) -> None:
    """`sbatch --signal=B:USR1@300` signals the batch shell alone, and the default action would end the job."""
    said, shared = calls(tmp_path, {}, change=("overdue=false", f"kill -{name} $$; overdue=false"))

    assert f"stub scancel --signal={name} 77\n" in said
    assert shared.ended() == ScriptEnd(77, 0, overdue=False)


FAILS = """#!/bin/bash
echo "stub srun" >>{log}
mkdir -p "$PRELAUNCH_OUT/{token}/agent" "$PRELAUNCH_OUT/{token}/started"
{started}
printf '{{\\n "exit_code": 7,\\n "node": "n2"\\n}}' >"$PRELAUNCH_OUT/{token}/agent/n2.json"
printf '{{\\n "exit_code": null,\\n "node": "n1"\\n}}' >"$PRELAUNCH_OUT/{token}/agent/n1.json"
exec /bin/sleep {seconds}
"""
TOKEN = "abcdef12"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("work", "started", "ends"),
    [
        (Work.CONFIRM, True, ScriptEnd(77, 143, overdue=False, failed=("n2",))),
        (Work.GATE, False, ScriptEnd(77, 0, overdue=False)),
        (Work.CHECK, True, ScriptEnd(77, 0, overdue=False)),
    ],
    ids=["training", "before the training", "checks"],
)
def test_a_training_that_failed_on_a_node_is_ended_on_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Work, started: bool, ends: ScriptEnd
) -> None:
    """After a grace. Neither checks nor a job whose nodes still check are: the other nodes would lose their reports."""
    monkeypatch.setattr(batch_script, "FAILED_NODE_GRACE_S", 1.0)
    mark = f'touch "$PRELAUNCH_OUT/{TOKEN}/started/n1"' if started else ""
    stays = 30 if ends.failed else 8
    srun = FAILS.format(log=tmp_path / "log", token=TOKEN, started=mark, seconds=stays)
    shared = staged(tmp_path, replace(JOB, work=work), srun)
    old = shared.path / "out" / "0000aaaa"  # a start before this one that failed as well
    (old / "agent").mkdir(parents=True)
    (old / "agent" / "n9.json").write_text('{"exit_code": 9}')
    log = ran(tmp_path, shared)

    assert ends == shared.ended()
    assert ("stub scancel --signal=TERM 77" in log) is bool(ends.failed)
