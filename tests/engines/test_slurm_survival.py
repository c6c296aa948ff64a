"""What happens to real clusters happens to the launcher: what it says of a job, and that there is one job and nothing is left."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.launchers.base import JobHandle, JobState, Launcher, LaunchRejected, PreflightResult, Trouble, Work
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tests.engines.slurm_cluster import SlurmCluster
from tests.tasks.launchers.contract import SAY, WAIT, Bench, until_final, until_told
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


@pytest.fixture
def bench(slurm: SlurmCluster, tmp_path: Path) -> Bench:
    """Launchers over one folder, which the nodes share."""
    options = SlurmOptions(grace_s=1.0, poll_seconds=0.1)
    return Bench(lambda: SlurmLauncher(tmp_path / "shared", options), tmp_path, 60.0, agent=True)


def names(slurm: SlurmCluster) -> list[str]:
    """The names of all jobs that slurmctld knows and that have not ended."""
    return slurm.run("squeue", "-h", "-o", "%j").split()


def test_two_gates_that_submit_at_the_same_moment_have_one_job(slurm: SlurmCluster, bench: Bench) -> None:
    """One makes the folder and calls sbatch; the other adopts. Slurm itself would run two jobs of one name."""
    job, both = bench.job(WAIT), threading.Barrier(2)

    def submit(launcher: Launcher) -> JobHandle:
        plan = launcher.plan(job)
        both.wait()
        return launcher.submit(plan)

    with ThreadPoolExecutor(2) as pool:
        handles = [*pool.map(submit, (bench.again(), bench.again()))]

    assert sorted(handle.adopted for handle in handles) == [False, True]
    assert names(slurm) == [job.name]


def test_another_users_job_of_the_name_is_left_alone(slurm: SlurmCluster, bench: Bench) -> None:
    """It is neither this gate's job nor ended with it, although the gate's user may end any job."""
    launcher, job = bench.again(), bench.job(WAIT)
    theirs = ("--uid=65534", "--hold", "--chdir=/", "--output=/dev/null", f"--job-name={job.name}")
    number = slurm.run("sbatch", "--parsable", *theirs, "--wrap", "sleep 300").strip()
    try:
        absent = launcher.state(job.name).absent
        launcher.submit(launcher.plan(job))
        launcher.cancel(job.name)
        left = slurm.run("squeue", "-h", "-o", "%A").split()
    finally:
        slurm.run("scancel", number)

    assert (absent, left) == (True, [number])


@pytest.mark.long
def test_a_second_job_of_the_name_does_nothing(slurm: SlurmCluster, bench: Bench) -> None:
    """A gate that died between its folder and sbatch is taken over; if both called sbatch, the folder has one owner."""
    launcher, job = bench.again(), bench.job(SAY)
    launcher.submit(launcher.plan(job))
    script = bench.folder / "shared" / "jobs" / job.name / "job.sbatch"
    second = slurm.run("sbatch", "--parsable", "--dependency=", str(script)).strip()
    status = until_final(launcher, job.name, bench.seconds)
    asked = ("squeue", "-h", "-j", second, "-t", "all", "-o", "%T")
    until(lambda: slurm.run(*asked).strip() in ("FAILED", "COMPLETED"))
    # Either of the two may be the later one, and still wait in the queue.
    until(lambda: "belongs to another job" in (script.parent / "slurm.log").read_text())

    assert (status.state, len(status.earlier)) == (JobState.SUCCEEDED, 0)
    assert launcher.state(job.name) == status


@pytest.mark.parametrize("requeue", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_failing_prolog_is_no_nodes_fault(slurm: SlurmCluster, bench: Bench, requeue: bool) -> None:
    """Slurm drains the node, and holds the job for ever, which is then ended, or ends it: the reason is SERVICE."""
    slurm.hook("prolog", "exit 1")
    options = SlurmOptions(grace_s=1.0, poll_seconds=0.1, requeue=requeue)
    launcher = SlurmLauncher(bench.folder / "shared", options)
    job = replace(bench.job(SAY), work=Work.CHECK)
    try:
        launcher.submit(launcher.plan(job))
        status = until_final(launcher, job.name, bench.seconds)
        drained = slurm.run("sinfo", "-h", "-R", "-o", "%E")
    finally:
        slurm.hook("prolog")
        for node in slurm.nodes:
            if not requeue:
                slurm.restart_node(node)
            slurm.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    assert (status.state, status.trouble) == (JobState.FAILED, Trouble.SERVICE), status
    assert "sinfo -R" in status.detail
    assert "Prolog error" in drained
    assert names(slurm) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (SlurmOptions(auto_resume=True), "auto_resume: this is no HyperPod cluster.*Leave auto_resume out"),
        (
            SlurmOptions(container_image="docker://ubuntu:22.04"),
            "pyxis: it is not installed: srun has no --container-image.*Install pyxis",
        ),
    ],
)
def test_slurm_launcher_rejects_options_unknown_to_srun_before_submission(
    slurm: SlurmCluster, tmp_path: Path, options: SlurmOptions, says: str
) -> None:
    """With the remedy; the preflight says the same."""
    launcher = SlurmLauncher(tmp_path / "shared", options)
    plan = launcher.plan(Bench(lambda: launcher, tmp_path).job(SAY))
    with pytest.raises(LaunchRejected, match=says):
        launcher.submit(plan)

    assert any(check.result is PreflightResult.WRONG for check in launcher.preflight((plan,)))
    slurm.until_idle()  # the look at a node is over
    assert not (tmp_path / "shared" / "jobs").exists() and names(slurm) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (SlurmOptions(partition="nope"), "invalid partition specified: nope"),
        (SlurmOptions(gres="gpu:8"), "Invalid generic resource"),
    ],
)
def test_slurm_rejection_is_reported_in_the_words_of_slurm(
    slurm: SlurmCluster, tmp_path: Path, options: SlurmOptions, says: str
) -> None:
    """Nothing is left of the refused job, and the preflight has found it before and says what to do."""
    launcher = SlurmLauncher(tmp_path / "shared", options)
    plan = launcher.plan(Bench(lambda: launcher, tmp_path).job(SAY))
    with pytest.raises(LaunchRejected, match=says):
        launcher.submit(plan)

    wrong = [check for check in launcher.preflight((plan,)) if check.result is PreflightResult.WRONG]
    remedy = "Correct [cluster.options]"
    assert [(says in check.message, check.remedy.startswith(remedy)) for check in wrong] == [(True, True)]
    assert launcher.state(plan.job.name).absent
    assert list((tmp_path / "shared" / "jobs").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "max_runtime_s", "result", "says"),
    [
        (SlurmOptions(partition="closed"), 60.0, PreflightResult.NO_CAPACITY, "its state is DOWN"),
        (SlurmOptions(), 8000.0, PreflightResult.WRONG, "MaxTime of partition gpu is 120 minutes"),
        (
            SlurmOptions(python="/nowhere/python"), 60.0, PreflightResult.WRONG,
            "the interpreter /nowhere/python was not found on node n",
        ),
    ],
)  # fmt: skip
def test_slurm_preflight_finds_a_job_that_would_never_run(
    slurm: SlurmCluster, tmp_path: Path, options: SlurmOptions, max_runtime_s: float, result: PreflightResult, says: str
) -> None:  # fmt: skip
    """One line says it, and none contradicts it."""
    launcher = SlurmLauncher(tmp_path / "shared", options)
    job = replace(Bench(lambda: launcher, tmp_path).job(SAY), max_runtime_s=max_runtime_s)
    found = launcher.preflight((launcher.plan(job),))

    assert [check.result for check in found if says in check.message] == [result]
    assert {check.result for check in found} == {PreflightResult.OK, result}


def test_a_folder_that_nodes_cannot_use_is_found_before_a_run(slurm: SlurmCluster, tmp_path: Path) -> None:
    """A file is written here, and a node looks for it and whether it could write."""
    folders = {"seen": tmp_path / "shared", "hidden": slurm.hidden, "read-only": slurm.small}
    job = Bench(lambda: SlurmLauncher(tmp_path, SlurmOptions()), tmp_path).job(SAY)
    told, before = dict[str, PreflightResult](), [*slurm.hidden.iterdir(), *slurm.small.iterdir()]
    with slurm.nodes_only_read():
        for name, folder in folders.items():
            launcher = SlurmLauncher(folder, SlurmOptions())
            plan = launcher.plan(job)
            lines = {check.subject: check.result for check in launcher.preflight((plan,))}
            told[name] = lines["the shared folder"]

    assert told == {
        "seen": PreflightResult.OK, "hidden": PreflightResult.WRONG, "read-only": PreflightResult.WRONG,
    }  # fmt: skip
    assert not (tmp_path / "shared").exists() and [*slurm.hidden.iterdir(), *slurm.small.iterdir()] == before


def fill(folder: Path) -> Path:
    """Use all the space of a file system; returns the file that does."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"\0" * 65536):
            continue
    return filler


@pytest.mark.parametrize("full", [True, False], ids=["full", "read-only"])
def test_a_shared_folder_that_takes_no_file_gives_no_wrong_answer(
    slurm: SlurmCluster, bench: Bench, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """A job that could not write anything has not succeeded, and is over."""
    monkeypatch.setattr("tasks.launchers.slurm.launcher.SETTLE_S", 1.0)
    launcher = SlurmLauncher(slurm.small, SlurmOptions(grace_s=1.0, poll_seconds=0.1))
    job = bench.job(SAY)
    with contextlib.ExitStack() as after:
        if not full:
            after.enter_context(slurm.nodes_only_read())
        after.callback(shutil.rmtree, slurm.small / "jobs", ignore_errors=True)
        launcher.submit(launcher.plan(job))
        if full:
            after.callback(fill(slurm.small).unlink)
        status = until_final(launcher, job.name, 90.0)

    assert (status.state, status.exit_codes) == (JobState.FAILED, {}), status


SAVES = """
import os, signal, sys, time
saved = []
signal.signal(signal.SIGUSR1, lambda number, frame: saved.append(number))
open(os.path.join(sys.argv[1], os.environ["PRELAUNCH_NODE"]), "w").write("{}")
while len(saved) < 2:
    time.sleep(0.1)
"""


def test_a_training_that_saves_its_state_on_a_signal_goes_on(slurm: SlurmCluster, bench: Bench) -> None:
    """Slurm signals every process of a step (`--signal=USR1@300`), or the batch script alone (`--signal=B:USR1@300`)."""
    launcher, job = bench.again(), bench.job(SAVES)
    launcher.submit(launcher.plan(job))
    until_told(bench, launcher, job.name, job.nodes)
    number = slurm.run("squeue", "-h", "-n", job.name, "-o", "%A").strip()
    slurm.run("scancel", "--signal=USR1", number)
    time.sleep(0.5)  # two of one kind at once are one
    slurm.run("scancel", "--signal=USR1", "--batch", number)

    assert JobState.SUCCEEDED is until_final(launcher, job.name, bench.seconds).state
