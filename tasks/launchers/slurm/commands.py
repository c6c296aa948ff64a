"""Slurm's own commands, started without a shell, and with the few variables that they need."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.launchers.base import EngineUnavailable
from tasks.launchers.slurm.job_states import SACCT_FORMAT, SQUEUE_FORMAT, SlurmJob, UnreadableRow, rows_of
from tasks.text.inert import one_line

# slurmctld is waited for by the commands themselves for MessageTimeout (10 s by default) and a few repetitions of it.
ANSWER_S = 60.0
# sbatch reads SBATCH_PARTITION, squeue SQUEUE_STATES ... before anything that we say on lines of a script; a gate that runs
# inside an allocation has SLURM_JOB_ID; others are secrets. These find the programs, the cluster, and who we are.
PASSED = (
    "PATH", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR",
    "XDG_RUNTIME_DIR", "KRB5CCNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES",
)  # fmt: skip
# The line with which a command of Slurm ends itself (src/common/log.c); the errors before it are steps on the way there.
FATAL = re.compile(r"\w+: fatal: ")
# What every command says on a machine without a usable slurm.conf (src/common/read_config.c and parse_config.c of Slurm 22.05): no
# slurmctld can be waited for.
NO_CONFIGURATION = re.compile(
    r"Could not establish a configuration source|Unable to process configuration file|cannot stat file|No SlurmctldHost defined"
)
# src/sacct/options.c of Slurm 22.05 and 24.11, for AccountingStorageType=accounting_storage/none.
# sinfo(1), "NODE STATE CODES": it is down, or (with an asterisk) does not answer.
LOST = re.compile(r"(down|fail)|\w+\*")
NO_ACCOUNTING = "Slurm accounting storage is disabled"


class MissingCommand(EngineUnavailable):
    """The machine has no such command, so asking again is of no use."""


@dataclass(frozen=True)
class SlurmReply:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """The end of what it said, its lines with "; " between them; of a command that gave up, its first error and the last."""
        output = (self.err.strip() or self.out.strip() or f"exit code {self.code}")[-1000:]
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        gave_up = len(lines) > 1 and FATAL.match(lines[-1])
        return one_line("; ".join([lines[0], lines[-1]] if gave_up else lines), 500)


def run(*argv: str, timeout_s: float = ANSWER_S) -> SlurmReply:
    """Run a command to its end. Raises MissingCommand, and EngineUnavailable if it does not answer."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env=environment_of(os.environ),
        )
    except FileNotFoundError as error:
        message = f"there is no {argv[0]} on this machine. Run the gate where Slurm's commands are installed."
        raise MissingCommand(message) from error
    except subprocess.TimeoutExpired as error:
        text = one_line((error.stderr or b"").decode(errors="replace").strip(), 500)
        message = f"{argv[0]} did not answer within {timeout_s:g} s{f': {text}' if text else ''}."
        raise EngineUnavailable(message) from error
    except OSError as error:
        raise EngineUnavailable(f"{argv[0]} cannot be started: {error.strerror or error}.") from error
    return SlurmReply(
        done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


def environment_of(own: Mapping[str, str]) -> dict[str, str]:
    """The variables for Slurm's commands."""
    return {name: own[name] for name in PASSED if name in own}


def jobs_named(name: str) -> tuple[SlurmJob, ...]:
    """Every job of that name and of our own user that slurmctld knows, ended ones included (slurm.conf, MinJobAge), and those in
    hidden partitions. Raises EngineUnavailable.
    """
    which = ("--noheader", "--all", "--states=all", f"--name={name}", own_user())
    return _parsed(run("squeue", *which, f"--format={SQUEUE_FORMAT}"))


def accounted(job_id: int) -> tuple[SlurmJob, ...]:
    """What the accounting says of a job that slurmctld has forgotten; () where there is no accounting, or it has no such job.

    Raises EngineUnavailable, also where slurmdbd does not answer: it will know how the job ended.
    """
    arguments = ("--noheader", "--parsable2", "--allocations", f"--jobs={job_id}", f"--format={SACCT_FORMAT}")
    done = run("sacct", *arguments, own_user())
    if done.code and NO_ACCOUNTING not in done.err:
        raise EngineUnavailable(f"the accounting does not answer: {done.text}")
    return () if done.code else _parsed(done)


def node_reasons(nodes: str) -> tuple[str, ...]:
    """Why the nodes of a list are drained or down, in Slurm's words; () where none is. Raises EngineUnavailable."""
    out = _printed(run("sinfo", "--noheader", "--all", f"--nodes={nodes}", "--format=%E"))
    return tuple(line.strip() for line in out.splitlines() if line.strip() not in ("", "none"))


def lost_nodes(nodes: str) -> tuple[tuple[str, str], ...]:
    """The result holds the nodes of a list that are down or do not answer, each with Slurm's state and reason. Raises
    EngineUnavailable.
    """
    out = _printed(run("sinfo", "--noheader", "--all", "--Node", f"--nodes={nodes}", "--format=%N|%T|%E"))
    records = {tuple(map(str.strip, line.split("|", 2))) for line in out.splitlines() if line.count("|") >= 2}
    lost = ((node, state, "" if reason == "none" else reason) for node, state, reason in sorted(records))
    return tuple(
        (node, one_line(": ".join(filter(None, (state, reason))), 100))
        for node, state, reason in lost
        if LOST.match(state)
    )


def end_jobs(job_ids: Iterable[int]) -> SlurmReply:
    """Ask slurmctld to end these jobs of our own user. Raises EngineUnavailable."""
    return run("scancel", own_user(), *map(str, job_ids))


def own_user() -> str:
    """The option that leaves other users' jobs out: names of jobs are not unique, and an operator may end any job."""
    return f"--user={os.geteuid()}"


def _printed(done: SlurmReply) -> str:
    if done.code:
        raise EngineUnavailable(f"slurmctld does not answer: {done.text}")
    return done.out


def _parsed(done: SlurmReply) -> tuple[SlurmJob, ...]:
    try:
        return rows_of(_printed(done))
    except UnreadableRow as error:
        raise EngineUnavailable(str(error)) from error
