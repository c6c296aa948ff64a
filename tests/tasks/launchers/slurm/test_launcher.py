"""What the launcher makes of the answers of Slurm's commands. The answers are written here: no Slurm is asked."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from tasks.launchers.base import (
    EngineUnavailable,
    JobState,
    LaunchError,
    LaunchRejected,
    NoCapacity,
    NotSubmitted,
    Trouble,
)
from tasks.launchers.interruption import Silence, interruptible, silences
from tasks.launchers.slurm import launcher, submit
from tasks.launchers.slurm.commands import SlurmReply
from tasks.launchers.slurm.launcher import SlurmLauncher
from tests.tasks.launchers.slurm.answers import NAME, NO_ACCOUNTS, REFUSED, SILENT, TAKEN, Answers, folder
from tests.tasks.launchers.slurm.test_batch_script import JOB


@pytest.fixture
def taken(slurm: SlurmLauncher) -> SlurmLauncher:
    """The launcher whose job Slurm has taken."""
    slurm.submit(slurm.plan(JOB))
    return slurm


def test_only_jobs_of_the_own_user_are_asked_for_and_ended(answers: Answers, taken: SlurmLauncher) -> None:
    """Names are not unique between users, and an operator of Slurm may end anybody's job."""
    taken.state(NAME)
    answers.squeue = "5|RUNNING|n1|None\n"
    with pytest.raises(LaunchError):
        submit.cancel(NAME, taken._folder(NAME), 0.2, 0.1)
    by_user = {argv[0] for argv in answers.asked if f"--user={os.geteuid()}" in argv}

    assert by_user == {"squeue", "sacct", "scancel"}
    assert {argv[0] for argv in answers.asked} - by_user == {"sbatch"}


def test_slurm_launcher_submits_no_job_while_slurmctld_is_silent(
    answers: Answers, slurm: SlurmLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that whoever gives up then knows that no job can run; once it answers, the job is submitted."""
    monkeypatch.setattr(submit, "SILENT_S", 0.0)
    answers.silent = 1000
    with pytest.raises(NotSubmitted, match="was not submitted, because slurmctld does not answer"):
        slurm.submit(slurm.plan(JOB))

    assert {"squeue"} == {argv[0] for argv in answers.asked} and not folder(slurm).exists()
    monkeypatch.setattr(submit, "SILENT_S", 60.0)
    answers.silent = 2
    told: list[Silence] = []
    with silences(told.append):
        slurm.submit(slurm.plan(JOB))
    assert 5 == slurm._folder(NAME).job_id()
    assert [("slurmctld does not answer", 60.0)] * 2 == [(one.problem, one.most_s) for one in told]


@pytest.mark.parametrize("prepared", [False, True])
def test_a_gate_that_is_to_end_waits_for_no_answer(
    answers: Answers, slurm: SlurmLauncher, monkeypatch: pytest.MonkeyPatch, prepared: bool
) -> None:
    """Nothing is submitted on the way out, also where an earlier process has prepared the folder."""
    monkeypatch.setattr(submit, "AGAIN_S", 600.0)
    monkeypatch.setattr(submit, "ADOPT_S", 600.0)
    plan = slurm.plan(JOB)
    if prepared:
        assert slurm._folder(NAME).stage(plan)
    else:
        answers.silent = 1000
    with interruptible() as stop, pytest.raises(EngineUnavailable):
        stop.set()
        slurm.submit(plan)

    assert "sbatch" not in {argv[0] for argv in answers.asked}


def test_a_partition_that_takes_no_jobs_has_no_machines(answers: Answers, slurm: SlurmLauncher) -> None:
    """The gate may wait for it, and nothing is left of the job."""
    refusal = "sbatch: error: Batch job submission failed: Required partition not available"
    answers.sbatch = SlurmReply(1, "", refusal)
    with pytest.raises(NoCapacity, match="Required partition not available"):
        slurm.submit(slurm.plan(JOB))

    assert not folder(slurm).exists()


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CANCELLED"])
def test_an_older_job_of_the_name_is_not_the_one_that_slurm_refused(
    answers: Answers, slurm: SlurmLauncher, state: str
) -> None:
    """The refusal is reported, and no end of another job."""
    answers.squeue, answers.sbatch = f"4001|{state}||None\n", REFUSED
    with pytest.raises(LaunchRejected, match="Invalid account"):
        slurm.submit(slurm.plan(JOB))

    assert not folder(slurm).exists()


def test_an_older_job_that_ended_well_is_no_success_of_one_that_was_only_prepared(
    answers: Answers, slurm: SlurmLauncher
) -> None:
    """A job of ours that has ended well has written its number into the folder."""
    slurm._folder(NAME).stage(slurm.plan(JOB))
    answers.squeue = "4001|COMPLETED||None\n"

    assert slurm.state(NAME).absent


def test_a_refused_job_that_another_gate_started_is_adopted(answers: Answers, slurm: SlurmLauncher) -> None:
    """The older job of the name does not hide it."""
    answers.squeue, answers.sbatch = "4001|COMPLETED||None\n4002|FAILED||None\n4003|PENDING||None\n", REFUSED
    slurm.submit(slurm.plan(JOB))

    assert slurm._folder(NAME).job_id() == 4003


@pytest.mark.parametrize("listed", ["", "7|PENDING||None\n"])
def test_a_controller_that_is_silent_while_a_job_is_submitted_is_asked_again(
    answers: Answers, slurm: SlurmLauncher, listed: str
) -> None:
    """It restarts, or its backup takes over. Whether it has the job is asked before anything is submitted a second time."""
    answers.sbatch, answers.squeue, answers.silent = SILENT, listed, 3
    if listed:
        slurm.submit(slurm.plan(JOB))
        assert slurm._folder(NAME).job_id() == 7
    else:
        with pytest.raises(EngineUnavailable, match="not known"):
            slurm.submit(slurm.plan(JOB))
        answers.sbatch, answers.silent = TAKEN, 3
        assert slurm.submit(slurm.plan(JOB)).adopted

    assert answers.silent == 0
    assert [argv[0] for argv in answers.asked].count("sbatch") == (1 if listed else 2)


def test_a_job_is_ended_once_the_controller_answers_again(answers: Answers, taken: SlurmLauncher) -> None:
    """It would otherwise run to its time limit, with nobody who waits for it."""
    answers.squeue, answers.silent = "5|RUNNING|n1|None\n", 2
    with pytest.raises(LaunchError, match="is not ended after 0 s: job 5 is RUNNING"):
        submit.cancel(NAME, taken._folder(NAME), 0.3, 0.1)

    assert ("scancel", f"--user={os.geteuid()}", "5") in answers.asked


def test_slurm_launcher_does_not_wait_when_slurm_is_not_installed(
    slurm: SlurmLauncher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A command that is not there will not answer later."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="there is no squeue on this machine"):
        slurm.cancel(NAME)


def test_slurm_job_missing_from_one_answer_is_not_ended(answers: Answers, taken: SlurmLauncher) -> None:
    """It may be listed again, and then it runs as before, with its key."""
    missing = taken.state(NAME)
    answers.squeue = "5|RUNNING|n1|None\n"

    assert (missing.state, "does not list the job" in missing.detail) == (JobState.RUNNING, True)
    assert taken.state(NAME).detail == "job 5 is RUNNING"
    assert taken._folder(NAME).final() is None and (folder(taken) / "in" / "exchange.key").exists()


def test_how_the_script_ended_counts_while_the_folder_settles(
    answers: Answers, taken: SlurmLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An NFS client sees the file late."""
    assert taken.state(NAME).state is JobState.RUNNING
    (folder(taken) / "ended.json").write_text('{"job_id": 5, "exit_code": 0, "overdue": false}')
    monkeypatch.setattr(launcher, "SETTLE_S", 0.0)

    assert taken.state(NAME).state is JobState.SUCCEEDED


@pytest.mark.parametrize("started", [True, False])
def test_a_training_that_failed_on_a_node_says_so_while_it_runs_and_at_its_end(
    answers: Answers, taken: SlurmLauncher, started: bool
) -> None:
    """Who failed, how long the others are waited for, and whose exit codes say nothing; a node's checks are none of this."""
    answers.squeue = "5|RUNNING|n[1-2]|None\n"
    attempt = folder(taken) / "out" / "abcdef12"
    for name in ("agent", *(("started",) if started else ())):
        (attempt / name).mkdir(parents=True)
    for node, code in (("n1", "null"), ("n2", "7")):
        (attempt / "agent" / f"{node}.json").write_text(f'{{"exit_code": {code}}}')
    if started:
        (attempt / "started" / "n1").touch()
    running = taken.state(NAME)
    (attempt / "agent" / "n1.json").write_text('{"exit_code": 143}')
    failed = "n2" if started else ""
    end = f'{{"job_id": 5, "exit_code": 143, "overdue": false, "failed": "{failed}"}}'
    (folder(taken) / "ended.json").write_text(end)
    answers.squeue = "5|FAILED|n[1-2]|None\n"
    ended, again = taken.state(NAME), taken.state(NAME)

    waits = "; n2 ended with 7; the other nodes have 630 s from then on to end by themselves"
    late = "n2 ended with 7; the other nodes still ran 630 s later and were ended"
    alone = "job 5 ended with exit code 143; n1 ended with 143; n2 ended with 7"
    assert running.detail == f"job 5 is RUNNING{waits if started else ''}"
    assert (JobState.FAILED, ("n1",) if started else ()) == (ended.state, ended.ended)
    assert ended.detail == (late if started else alone)
    assert again == ended


def test_a_held_job_that_cannot_be_ended_is_not_over(
    answers: Answers, taken: SlurmLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Released by somebody it would still start, so its state is not known until slurmctld has ended it."""
    monkeypatch.setattr(launcher, "HELD_S", 0.2)
    answers.squeue = "5|PENDING|(null)|launch_failed_requeued_held\n"
    answers.scancel = SlurmReply(1, "", "scancel: error: Kill job error: slurmctld busy")

    assert taken.state(NAME).state is JobState.UNKNOWN
    assert taken._folder(NAME).final() is None


@pytest.mark.parametrize(
    ("reasons", "claim", "state", "trouble"),
    [
        ("none\nProlog error\n", "", JobState.FAILED, Trouble.SERVICE),
        ("jdoe: fan\n", "", JobState.CANCELLED, Trouble.STOPPED),
        ("Prolog error\n", "5", JobState.CANCELLED, Trouble.STOPPED),
    ],
)
def test_a_prolog_that_ends_a_job_is_no_operator(
    answers: Answers, taken: SlurmLauncher, monkeypatch: pytest.MonkeyPatch, reasons: str, claim: str,
    state: JobState, trouble: Trouble,
) -> None:  # fmt: skip
    """With --no-requeue slurmctld ends the job as scancel does. Its script never ran, and a node of it is drained for that reason."""
    monkeypatch.setattr(launcher, "DRAINED_S", 0.0)
    if claim:
        (folder(taken) / "claim").write_text(claim)
    answers.squeue, answers.sinfo = "5|CANCELLED|n[0-1]|None\n", SlurmReply(0, reasons, "")
    status = taken.state(NAME)

    assert (status.state, status.trouble) == (state, trouble)
    assert ("sinfo -R" in status.detail) is (trouble is Trouble.SERVICE)


def test_the_reason_of_a_node_may_come_a_moment_after_the_end(answers: Answers, taken: SlurmLauncher) -> None:
    """Until then the job is not over."""
    answers.squeue = "5|CANCELLED|n[0-1]|None\n"
    first = taken.state(NAME)
    answers.sinfo = SlurmReply(0, "Prolog error\n", "")

    assert (first.state, taken.state(NAME).trouble) == (JobState.RUNNING, Trouble.SERVICE)


@pytest.mark.parametrize(
    ("path", "silence_s", "sacct", "end"),
    [
        ("agent/n1.json", 600.0, NO_ACCOUNTS, (JobState.FAILED, Trouble.ENDED)),
        ("started/n1", 600.0, NO_ACCOUNTS, (JobState.RUNNING, Trouble.NONE)),  # slurmctld may get its state back
        ("started/n1", 0.0, NO_ACCOUNTS, (JobState.FAILED, Trouble.ENDED)),
        ("started/n1", 600.0, SlurmReply(0, "5|CANCELLED by 7|n1|None\n", ""), (JobState.CANCELLED, Trouble.STOPPED)),
    ],
)  # fmt: skip
def test_a_job_that_nobody_knows_is_over_at_last(
    answers: Answers, slurm: SlurmLauncher, monkeypatch: pytest.MonkeyPatch, path: str, silence_s: float,
    sacct: SlurmReply, end: object,
) -> None:  # fmt: skip
    """And has not succeeded. A slurmctld that forgets a training for a while does not lose it; the accounting counts at once."""
    monkeypatch.setattr(launcher, "SETTLE_S", 0.0)
    monkeypatch.setattr(launcher, "DRAINED_S", 0.0)
    slurm.silence_s, answers.sacct = silence_s, sacct
    slurm.submit(slurm.plan(JOB))
    (agent := folder(slurm) / "out" / "abcdef12" / "agent").mkdir(parents=True)
    (agent / "n1.json").write_text('{"exit_code": null}')
    (agent.parent / path).parent.mkdir(exist_ok=True)
    (agent.parent / path).touch()
    seen = [slurm.state(NAME) for _ in range(2)]

    assert [end] * 2 == [(one.state, one.trouble) for one in seen]


def test_a_mount_that_fails_for_a_moment_says_nothing_about_the_job(
    answers: Answers, taken: SlurmLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is raised, and nothing has ended."""
    stale = Mock(side_effect=OSError(errno.ESTALE, "Stale file handle"))
    monkeypatch.setattr(type(taken._folder(NAME)), "attempts", stale)
    status = taken.state(NAME)

    assert (JobState.UNKNOWN, False) == (status.state, status.absent) and "Stale" in status.detail


EXITED = "srun: error: n2: task 1: Exited with exit code 127\n"


@pytest.mark.parametrize(
    ("log", "files", "settle_s", "over"),
    [
        ("srun: error: task 1 launch failed: Slurmd could not connect IO\n", ("agent/n1",), 3600.0, True),
        (EXITED, ("agent/n1",), 0.0, True),
        (EXITED, ("agent/n1",), 3600.0, False),  # its record may be on its way
        (EXITED, ("agent/n1", "agent/n2"), 0.0, False),  # an agent that ended after its report
        (EXITED, ("agent/n1", "started/n1"), 0.0, False),  # a training
        ("", ("agent/n1",), 0.0, False),
    ],
)
def test_a_node_on_which_no_agent_ran_ends_the_job(
    answers: Answers, taken: SlurmLauncher, monkeypatch: pytest.MonkeyPatch,
    log: str, files: tuple[str, ...], settle_s: float, over: bool,
) -> None:  # fmt: skip
    """The other nodes would wait for it for minutes. It is named, and the codes of the others say nothing."""
    monkeypatch.setattr(launcher, "SETTLE_S", settle_s)
    monkeypatch.setattr(submit, "cancel", lambda *_: None)
    answers.squeue = "5|RUNNING|n[1-2]|None\n"
    for name in files:
        path = folder(taken) / "out" / "abcdef12" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"exit_code": null}')
    (folder(taken) / "slurm.log").write_text(f"prelaunch: start 1 of job 5\n{log}")
    status = taken.state(NAME)

    assert (over, status) == (status.state.final, taken.state(NAME))
    if over:
        assert (JobState.FAILED, Trouble.ENDED, ("n1",)) == (status.state, status.trouble, status.ended)
        assert ({"n2": 127} if log == EXITED else {}) == status.exit_codes
        assert status.detail.startswith("n2: ")
