"""What Slurm's commands are given of this process's environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tasks.launchers.base import EngineUnavailable, JobState, JobStatus, Trouble
from tasks.launchers.slurm import commands, launcher
from tasks.launchers.slurm.commands import SlurmReply
from tasks.launchers.slurm.job_states import SlurmJob
from tasks.launchers.slurm.options import SlurmOptions
from tasks.launchers.slurm.preflight import AS_A_JOB, check
from tests.tasks.launchers.slurm.answers import DONE, NO_ACCOUNTS
from tests.tasks.launchers.slurm.test_batch_script import plan


def test_a_command_gets_no_secret_and_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds its cluster and its programs."""
    for name in ("SLACK_BOT_TOKEN", "AWS_SECRET_ACCESS_KEY", "SBATCH_EXPORT", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "not for Slurm")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    said = commands.run(sys.executable, "-c", "import os; print(sorted(os.environ.items()))")

    assert "not for Slurm" not in said.out
    assert "('SLURM_CONF', '/etc/slurm.conf')" in said.out and "'PATH'" in said.out


def test_the_look_at_a_node_takes_no_variable_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Srun passes all of them on if it is told nothing. Its answer is written here: no Slurm is asked."""
    asked = list[tuple[str, ...]]()

    def run(*argv: str, timeout_s: float = 0.0) -> SlurmReply:
        asked.append(argv)
        return SlurmReply(0, "", "")

    monkeypatch.setattr(commands, "run", run)
    check((plan(),), SlurmOptions(), tmp_path)
    (srun,) = [argv for argv in asked if argv[0] == "srun"]

    assert "--export=NONE" in srun


def test_python_is_looked_for_as_a_login_of_the_user_finds_it() -> None:
    """The shell of the look runs here, without srun: arguments arrive as they are, and there is a home."""
    words = ("a 'b' $c", "")
    code = "import os, sys; print(sys.argv[1:], os.environ['HOME'])"
    said = commands.run(*AS_A_JOB[1:], "python3", "-c", code, *words)

    assert said.out.splitlines()[-1].startswith(str(list(words)))


def test_accounting_that_does_not_answer_is_not_one_that_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the job ended well is then not known, and must not pass for "it failed". Both answers are those of Slurm 22.05."""
    gone = "sacct: error: Problem talking to the database: Connection refused\n"
    monkeypatch.setattr(commands, "run", lambda *argv, timeout_s=0.0: NO_ACCOUNTS)
    absent = commands.accounted(5)
    monkeypatch.setattr(commands, "run", lambda *argv, timeout_s=0.0: SlurmReply(1, "", gone))

    assert absent == ()
    with pytest.raises(EngineUnavailable, match=f"the accounting does not answer: {gone[:30]}"):
        commands.accounted(5)


@pytest.mark.parametrize(
    ("err", "words"),
    [
        # As scontrol 22.05.8 prints them, without a configuration and with a file that is not there.
        (
            "scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
            "scontrol: error: fetch_config: DNS SRV lookup failed\n"
            "scontrol: error: _establish_config_source: failed to fetch config\n"
            "scontrol: fatal: Could not establish a configuration source\n",
            "scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host; "
            "scontrol: fatal: Could not establish a configuration source",
        ),
        (
            "scontrol: error: s_p_parse_file: cannot stat file /x: No such file or directory, retrying in 1sec up to 60sec\n"
            "scontrol: error: ClusterName needs to be specified\nscontrol: fatal: Unable to process configuration file\n",
            "scontrol: error: s_p_parse_file: cannot stat file /x: No such file or directory, retrying in 1sec up to 60sec; "
            "scontrol: fatal: Unable to process configuration file",
        ),
        ("sbatch: error: one\nsbatch: error: two\n", "sbatch: error: one; sbatch: error: two"),
        ("scontrol: fatal: alone\n", "scontrol: fatal: alone"),
        ("", "exit code 1"),
    ],
)
def test_failed_command_reports_its_first_error_and_its_last(err: str, words: str) -> None:
    """The steps between them lead nobody to the cause."""
    assert words == SlurmReply(1, "", err).text


@pytest.mark.parametrize(
    ("printed", "lost"),
    [
        ("n1|down|Not responding\nn1|down|Not responding\n", (("n1", "down: Not responding"),)),
        ("n1|idle*|none\n", (("n1", "idle*"),)),
        ("n1|allocated*|none\nn2|mixed|none\n", (("n1", "allocated*"),)),
        ("n1|down*|x\nn2|down|bad PSU|fan\n", (("n1", "down*: x"), ("n2", "down: bad PSU|fan"))),
        ("n1|fail|Action:Replace\n", (("n1", "fail: Action:Replace"),)),
        ("n1|draining|prelaunch: x\nn2|idle|none\nn3|reboot^|none\n", ()),
        ("", ()),
    ],
)
def test_the_nodes_that_slurm_has_lost_are_named(
    monkeypatch: pytest.MonkeyPatch, printed: str, lost: tuple[tuple[str, str], ...]
) -> None:
    """Those that are down or do not answer, and no other: a drained node finishes its jobs. Their partition may be hidden."""
    found = SlurmReply(0, printed, "")
    monkeypatch.setattr(commands, "run", lambda *argv, **_: found if "--all" in argv else DONE)
    assert lost == commands.lost_nodes("n[1-3]")


@pytest.mark.parametrize(
    ("state", "printed", "detail", "lost"),
    [
        ("NODE_FAIL", "n2|down*|Not responding\n", "lost a node: n2 is down*: Not responding", {"n2": "down*: Not responding"}),
        ("NODE_FAIL", "n2|idle|none\n", "lost a node", {}),
        ("FAILED", "n2|down*|Not responding\n", "lost a node", {}),
        ("CANCELLED", "n2|down|x\n", "lost a node", {}),
        ("TIMEOUT", "n2|down|x\n", "lost a node", {}),
    ],
)  # fmt: skip
def test_a_job_that_lost_a_node_names_it(
    monkeypatch: pytest.MonkeyPatch, state: str, printed: str, detail: str, lost: dict[str, str]
) -> None:
    """slurmctld knows which one does not answer; where it is back already, nobody is named."""
    monkeypatch.setattr(commands, "run", lambda *argv, **_: SlurmReply(0, printed, ""))
    status = JobStatus(JobState.FAILED, "lost a node", "", {}, Trouble.SERVICE)
    final = launcher.with_lost(status, SlurmJob(5, state, "n[1-2]"))

    assert (detail, lost) == (final.detail, dict(final.lost))
