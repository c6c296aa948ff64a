"""What squeue, sacct and the batch script report about a job, as our job states and kinds of failure: literal tables. Pure.

The words are those of squeue(1), "JOB STATE CODES", and of src/common/slurm_protocol_defs.c, of Slurm 22.05 and 24.11. Formats (-o)
are read and not JSON, which differs between the two. None of the states proves that hardware is broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from checks.documents.hostlist import HostListError, expand
from tasks.launchers.base import JobState, Trouble
from tasks.text.inert import one_line

# What is asked of squeue and sacct, so that `rows_of` can read it.
SQUEUE_FORMAT = "%A|%T|%N|%r"
SACCT_FORMAT = "JobIDRaw,State,NodeList,Reason"
# Slurm's words, with the state in the terms of all launchers and what went wrong.
SLURM_STATES: tuple[tuple[JobState, Trouble, str], ...] = (
    (JobState.PENDING, Trouble.NONE, "PENDING CONFIGURING POWER_UP_NODE EXPEDITING REQUEUED REQUEUE_FED"),
    (JobState.PENDING, Trouble.NONE, "REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT SUSPENDED"),
    (JobState.RUNNING, Trouble.NONE, "RUNNING COMPLETING RESIZING SIGNALING STAGE_OUT STOPPED UPDATE_DB"),
    (JobState.SUCCEEDED, Trouble.NONE, "COMPLETED"),
    (JobState.FAILED, Trouble.ENDED, "FAILED OUT_OF_MEMORY"),
    (JobState.FAILED, Trouble.MAX_RUNTIME, "TIMEOUT DEADLINE"),
    (JobState.FAILED, Trouble.SERVICE, "NODE_FAIL BOOT_FAIL LAUNCH_FAILED RECONFIG_FAIL"),
    (JobState.CANCELLED, Trouble.STOPPED, "CANCELLED PREEMPTED REVOKED"),
)
STATES = {name: state for state, _, names in SLURM_STATES for name in names.split()}
TROUBLES = {
    name: trouble
    for _, trouble, names in SLURM_STATES
    if trouble is not Trouble.NONE
    for name in names.split()
}
# What the words themselves do not say.
EXPLANATIONS: Mapping[str, str] = {
    "TIMEOUT": "it reached its max runtime",
    "DEADLINE": "it reached its deadline",
    "OUT_OF_MEMORY": "it used more memory than it had asked for",
    "NODE_FAIL": "Slurm lost a node of it",
    "PREEMPTED": "another job took its nodes",
}
# Why a job waits for something that no waiting brings: it is wrong as it stands, or above a limit of one job (squeue(1), "JOB REASON
# CODES"). A limit of an association or QOS as a whole may be used up by other jobs, which end: GROUP_LIMIT.
NEVER_RUNS: Mapping[str, Trouble] = {
    **dict.fromkeys(("PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints"), Trouble.CONFIGURATION),
    **dict.fromkeys(("InvalidQOS", "InvalidAccount", "QOSNotAllowed"), Trouble.CONFIGURATION),
    **dict.fromkeys(("ReservationDeleted", "DependencyNeverSatisfied"), Trouble.CONFIGURATION),
    **dict.fromkeys(("QOSTimeLimit", "AssocMaxWallDurationPerJobLimit"), Trouble.QUOTA),
    "QOSMaxWallDurationPerJobLimit": Trouble.QUOTA,
}
PER_JOB_LIMIT = re.compile(r"(Assoc|QOS)(Max|Min)\w*PerJob(Limit)?|QOSMin\w+|\w*Max\w*MinutesPerJob\w*")
GROUP_LIMIT = re.compile(r"(Assoc|QOS)(Grp|Max)\w+")
# A job that Slurm holds after it could not start it: a prolog failed, or a node did not take it. It waits for an
# administrator, for ever (src/slurmctld/job_mgr.c; scontrol(1), "release").
HELD: frozenset[str] = frozenset(("launch failed requeued held", "JobHoldMaxRequeue"))
# Where the job may not be started again (--no-requeue), slurmctld ends it instead, in the state of an operator's scancel; it is known
# from the reason that the node has then (src/slurmctld/node_mgr.c, validate_node_specs).
PROLOG = "Prolog error"
NO_REASON = ("", "None")
NO_NODES = ("", "(null)")


# What job.sh prints first, so that what follows in the log is of this start.
START_MARK = "prelaunch: start "
# srun's own words (src/srun/libsrun/launch.c, src/api/step_launch.c; seen with Slurm 22.05): it could not start a task, which has its
# number in the order of the nodes, or a task has ended, with the name of its node.
NOT_LAUNCHED = re.compile(r"^srun: error: tasks? ([\d,-]+) launch failed: (.*)$", re.MULTILINE)
TASK_ENDED = re.compile(
    r"^srun: error: (\S+): tasks? [\d,-]+: (Exited with exit code (\d+)|[A-Z].*)$", re.MULTILINE
)
SIGNAL_WORDS: Mapping[str, int] = {"Killed": -9, "Segmentation fault": -11, "Bus error": -7, "Aborted": -6}


class UnreadableRow(Exception):
    """A line of squeue or sacct is not of the form that was asked for."""


@dataclass(frozen=True)
class SlurmJob:
    """One job as squeue shows it: its number, its state, its nodes as Slurm's list, and why it waits."""

    job_id: int
    state: str
    nodes: str = ""
    reason: str = ""

    @property
    def held(self) -> bool:
        """Whether Slurm holds it because it could not be started."""
        return self.reason in HELD and STATES.get(self.state) is JobState.PENDING

    @property
    def job_state(self) -> JobState:
        """The state in the terms of all launchers; UNKNOWN for a word that is not known here."""
        return STATES.get(self.state, JobState.UNKNOWN)

    @property
    def trouble(self) -> Trouble:
        """What went wrong; NONE for a job that ended well or still runs. One that waits for a limit has QUOTA."""
        if STATES.get(self.state) is JobState.PENDING:
            return self.never_runs or (Trouble.QUOTA if GROUP_LIMIT.fullmatch(self._code) else Trouble.NONE)
        return TROUBLES.get(self.state, Trouble.NONE)

    @property
    def never_runs(self) -> Trouble | None:
        """Why it will wait for ever, None if it may start."""
        if STATES.get(self.state) is not JobState.PENDING:
            return None
        return NEVER_RUNS.get(self._code, Trouble.QUOTA if PER_JOB_LIMIT.fullmatch(self._code) else None)

    @property
    def _code(self) -> str:
        return self.reason.partition(",")[0].replace(" ", "")

    @property
    def was_cancelled_with_nodes(self) -> bool:
        """Whether it was ended after Slurm had given it nodes."""
        return self.state == "CANCELLED" and self.nodes not in NO_NODES

    @property
    def detail(self) -> str:
        """The row for people."""
        phrases = [f"job {self.job_id} is {self.state}", EXPLANATIONS.get(self.state, "")]
        phrases += [self.reason] if self.reason not in NO_REASON else []
        return ": ".join(filter(None, phrases))


@dataclass(frozen=True)
class TaskEnd:
    """How the task of a node ended, in srun's words. `launched`: it was started. `code` is None where it is not known."""

    message: str
    launched: bool
    code: int | None = None


def task_ends(log: str, nodes: str) -> dict[str, TaskEnd]:
    """The nodes of the list `nodes` whose task did not start or has ended badly in the last start that the script's log is about."""
    own = log.rpartition(START_MARK)[2]
    try:
        names = expand(nodes)
        ends = {
            names[int(number)]: TaskEnd(f"its task was not started ({message.strip()})", launched=False)
            for numbers, message in NOT_LAUNCHED.findall(own)
            for number in expand(f"[{numbers}]")
            if int(number) < len(names)
        }
        for hosts, message, code in TASK_ENDED.findall(own):
            end = TaskEnd(one_line(message, 100), True, int(code) if code else SIGNAL_WORDS.get(message))
            ends |= {name: end for name in expand(hosts) if name in names and name not in ends}
    except (HostListError, ValueError):
        return {}
    return ends


def rows_of(text: str) -> tuple[SlurmJob, ...]:
    """The rows of `squeue -o SQUEUE_FORMAT` or `sacct -P -o SACCT_FORMAT`. Raises UnreadableRow."""
    return tuple(_parsed(line) for line in text.splitlines() if line.strip())


def row_for(jobs: Iterable[SlurmJob], job_id: int | None) -> SlurmJob | None:
    """The row of that job; without a number that of the first job that bears the name."""
    matches = sorted((job for job in jobs if job_id in (None, job.job_id)), key=lambda job: job.job_id)
    return matches[0] if matches else None


def submitted_row(jobs: Iterable[SlurmJob], job_id: int | None) -> SlurmJob | None:
    """The row of that job; without a number that of a job that may be ours, first of one that has not ended.

    A job of ours writes its number down when it starts, so one that ended well is an older one of the same name.
    """
    if job_id is not None:
        return row_for(jobs, job_id)
    possible = [job for job in jobs if job.job_state is not JobState.SUCCEEDED]
    return row_for((job for job in possible if not job.job_state.final), None) or row_for(possible, None)


def _parsed(line: str) -> SlurmJob:
    fields = line.split("|", 3)
    if len(fields) != 4 or not fields[0].isdecimal() or not fields[1].strip():
        raise UnreadableRow(f"this is no row of the jobs that were asked for: {line!r:.200}")
    # sacct writes "CANCELLED by 1000".
    return SlurmJob(
        int(fields[0]), fields[1].split()[0], fields[2].strip(), fields[3].strip().replace("_", " ")
    )
