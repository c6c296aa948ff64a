"""When a job of Slurm is over that Slurm itself does not end, or does not list any more. No Slurm is asked."""

from __future__ import annotations

import pytest

from tasks.launchers.base import JobState, Trouble
from tasks.launchers.slurm import launcher, submit
from tasks.launchers.slurm.commands import SlurmReply
from tasks.launchers.slurm.launcher import SlurmLauncher
from tests.tasks.launchers.slurm.answers import NAME, NO_ACCOUNTS, Answers, folder
from tests.tasks.launchers.slurm.test_batch_script import JOB


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


LAUNCH_FAILED = "srun: error: task 1 launch failed: Slurmd could not connect IO\n"
EXITED = "srun: error: n2: task 1: Exited with exit code 127\n"


@pytest.mark.parametrize(
    ("log", "files", "settle_s", "over"),
    [
        (LAUNCH_FAILED, ("agent/n1",), 3600.0, True),
        (EXITED, ("agent/n1",), 0.0, True),
        (EXITED, ("agent/n1",), 3600.0, False),  # its record may be on its way
        (EXITED, ("agent/n1", "agent/n2"), 0.0, False),  # an agent that ended after its report
        (EXITED, ("agent/n1", "started/n1"), 0.0, False),  # a training
        ("", ("agent/n1",), 0.0, False),
    ],
)
def test_a_node_on_which_no_agent_ran_ends_the_job(
    answers: Answers, slurm: SlurmLauncher, monkeypatch: pytest.MonkeyPatch,
    log: str, files: tuple[str, ...], settle_s: float, over: bool,
) -> None:  # fmt: skip
    """The other nodes would wait for it for minutes. It is named, and the codes of the others say nothing."""
    slurm.submit(slurm.plan(JOB))
    monkeypatch.setattr(launcher, "SETTLE_S", settle_s)
    monkeypatch.setattr(submit, "cancel", lambda *_: None)
    answers.squeue = "5|RUNNING|n[1-2]|None\n"
    for name in files:
        path = folder(slurm) / "out" / "abcdef12" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"exit_code": null}')
    (folder(slurm) / "slurm.log").write_text(f"prelaunch: start 1 of job 5\n{log}")
    status = slurm.state(NAME)

    assert (over, status) == (status.state.final, slurm.state(NAME))
    if over:
        assert (JobState.FAILED, Trouble.ENDED, ("n1",)) == (status.state, status.trouble, status.ended)
        assert ({"n2": 127} if log == EXITED else {}) == status.exit_codes
        assert status.detail.startswith("n2: ")
