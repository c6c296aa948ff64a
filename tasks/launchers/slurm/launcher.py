"""Jobs of Slurm: one batch script per job, whose step starts the gate's agent on every node.

What is known of a job is in its folder, which the nodes share with this machine, and in slurmctld.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from checks.documents.hostlist import expand
from checks.model import KernelLog
from tasks.launchers.attempt_folder import Attempts, has_started
from tasks.launchers.base import (
    Delays,
    JobHandle,
    JobSpec,
    JobState,
    JobStatus,
    LaunchError,
    LaunchRejected,
    Placement,
    Plan,
    PreflightCheck,
    Trouble,
)
from tasks.launchers.job_files import FolderLauncher, file_errors, file_remedy
from tasks.launchers.job_rules import no_job
from tasks.launchers.slurm import commands, preflight
from tasks.launchers.slurm import submit as submission
from tasks.launchers.slurm.batch_script import JOB_NAME, NODE, make_plan
from tasks.launchers.slurm.job_folder import NOBODY, ScriptEnd, SharedJobFolder
from tasks.launchers.slurm.job_states import PROLOG, SlurmJob, TaskEnd, row_for, submitted_row, task_ends
from tasks.launchers.slurm.options import SlurmOptions
from tasks.text.inert import one_line

Options = SlurmOptions
# Slurm runs a job as the user who submitted it, to whom most distributions refuse the log (kernel.dmesg_restrict is 1 in Debian and
# Ubuntu; /var/log/kern.log belongs to the group adm). Where a node's log can be read all the same, it is judged.
KERNEL_LOG = KernelLog.WITHHELD
# Neither slurmctld nor the accounting has the job: our own word, which no STATES has.
FORGOTTEN = "FORGOTTEN"
NODE_FAIL = "NODE_FAIL"
BY_ITSELF = ("FAILED", FORGOTTEN)
# An NFS client may look at a folder as it was 30 s ago (nfs(5), acdirmin).
SETTLE_S = 30.0
# Beyond the time that a command has to end: KillWait, epilogs, and a node that does not answer.
CANCEL_S = 120.0
# A job that is held has no node, so nothing has to end.
HELD_S = 20.0
# slurmctld ends a job whose prolog failed, and drains the node at the next word of its slurmd, a moment later.
DRAINED_S = 3.0


def launcher(options: SlurmOptions, root: Path) -> SlurmLauncher:
    """Make the launcher, for the registry. Raises LaunchRejected if the file of #SBATCH lines cannot be read."""
    return SlurmLauncher(root, options)


class SlurmLauncher(FolderLauncher):
    """Jobs below `folder` of the options, or below `root`."""

    silence_s = 600.0

    def __init__(self, root: Path, options: SlurmOptions | None = None) -> None:
        self.options = options or SlurmOptions()
        self.root = Path(self.options.folder or root).absolute()
        self.placement = Placement(self.options.placement)
        self.poll_s = self.options.poll_seconds
        self.excludes_failed = self.options.exclude_failed
        self.start_s = self.options.start_minutes * 60
        # The prolog, and the roll call of the agents; then what an NFS client may not see yet.
        self.delays = Delays(begins_s=self.options.joins_s + 60.0, reports_s=SETTLE_S, ends_s=60.0)
        self._lines = sbatch_lines(self.options.sbatch_file)
        self._over_since: dict[str, float] = {}
        self._ended_since: dict[str, float] = {}

    def without(self, nodes: Sequence[str]) -> str:
        return f"cluster.options.exclude={','.join(filter(None, (self.options.exclude, *nodes)))}"

    def plan(self, job: JobSpec) -> Plan:
        return make_plan(job, self.root, self.options, self._lines)

    def submit(self, plan: Plan) -> JobHandle:
        self._require_own(plan)
        preflight.require_supported(plan, self.options)
        return submission.submit(plan, self._folder(plan.job.name))

    def state(self, name: str) -> JobStatus:
        if not re.fullmatch(JOB_NAME, name):
            return no_job(f"no job is named {name!r:.80}")
        folder, agents = self._folder(name), Attempts()
        try:
            agents = folder.attempts()
            final = folder.final()
            return _status(final, agents) if final is not None else self._ask(name, folder, agents)
        except (LaunchError, OSError) as error:  # a mount that fails for a moment says nothing about the job
            return agents.status(JobState.UNKNOWN, str(error))

    def logs(self, name: str, node: str, last_bytes: int = 65536) -> str:
        if not re.fullmatch(JOB_NAME, name) or not re.fullmatch(NODE, node):
            return ""
        folder = self._folder(name)
        with file_errors(f"{name}: the log of {node} cannot be read", folder.path):
            return folder.log(node, last_bytes)

    def cancel(self, name: str) -> None:
        if not re.fullmatch(JOB_NAME, name):
            return
        folder = self._folder(name)
        self.state(name)  # a job that ended well stays so
        with file_errors(f"{name} cannot be cancelled", folder.path):
            self._end(name, folder)
            if folder.exists() and folder.final() is None:
                folder.write_final(folder.attempts().status(JobState.CANCELLED, "cancelled", Trouble.STOPPED))

    def preflight(self, plans: tuple[Plan, ...]) -> tuple[PreflightCheck, ...]:
        return preflight.check(plans, self.options, self.root)

    def _out(self, name: str) -> Path | None:
        return self._folder(name).out if re.fullmatch(JOB_NAME, name) else None

    def _end(self, name: str, folder: SharedJobFolder, within_s: float = 0.0) -> None:
        """End every job of that name. Raises LaunchError, OSError."""
        submission.cancel(name, folder, within_s or self.options.grace_s + CANCEL_S, min(self.poll_s, 1.0))

    def _folder(self, name: str) -> SharedJobFolder:
        return SharedJobFolder(self.root, name)

    def _ask(self, name: str, folder: SharedJobFolder, agents: Attempts) -> JobStatus:
        """What slurmctld says, and where it has forgotten the job what the script and the accounting say. Raises LaunchError."""
        jobs = commands.jobs_named(name)
        job_id = folder.job_id()  # after squeue: a job that ends in between has written its number
        job = submitted_row(jobs, job_id)
        if job is None and job_id is None:
            return _unsubmitted(name, folder)
        if job is None and folder.ended() is None:
            job = row_for(commands.accounted(job_id or 0), job_id) or SlurmJob(job_id or 0, FORGOTTEN)
        if job is not None and job.held:
            # Released by somebody, it would start long after the gate was over.
            self._end(name, folder, HELD_S)
            return self._final(name, folder, agents, _not_started(job, agents))
        if job is not None and (never := job.never_runs):
            self._end(name, folder, HELD_S)
            final = agents.status(JobState.FAILED, f"{job.detail}, for which it would wait for ever", never)
            return self._final(name, folder, agents, final)
        if job is not None and job.state == "RUNNING" and (lost := self._absent(name, job, folder, agents)):
            # Nothing else would end it: the other nodes wait for these.
            self._end(name, folder)
            return self._final(name, folder, agents, _without(lost, job, folder.attempts()))
        if job is not None and job.was_cancelled_with_nodes and not folder.claim():
            reasons = commands.node_reasons(job.nodes)
            if any(reason.startswith(PROLOG) for reason in reasons):
                return self._final(name, folder, agents, _not_started(job, agents, f" ({PROLOG})"))
            now = time.monotonic()
            if now - self._over_since.setdefault(name, now) < DRAINED_S:
                return agents.status(JobState.RUNNING, f"{job.detail}, and its script has not run")
        if job is not None and not job.job_state.final and job.state != FORGOTTEN:
            self._over_since.pop(name, None)
            text = "; ".join((job.detail, *_waits(folder, agents)))
            return agents.status(job.job_state, text, job.trouble)
        ended = folder.ended()
        if self._settling(name, job, ended, folder, agents):
            text = "the job has ended, and not everything that its nodes wrote is here yet"
            if job is not None and job.state == FORGOTTEN:
                text = "slurmctld does not list the job, and its script has recorded no end yet"
            return agents.status(JobState.RUNNING, text)
        return self._final(name, folder, agents, with_lost(_end_of(job, ended, agents, folder), job))

    def _absent(
        self, name: str, job: SlurmJob, folder: SharedJobFolder, agents: Attempts
    ) -> dict[str, TaskEnd]:
        """The nodes on which nothing of the gate runs: srun could not start their task, or it has ended and no agent left a record.

        A record may be on its way here; one that is still missing after SETTLE_S was never written. Of a job that has begun to train
        srun's words are those of the training.
        """
        if has_started(folder.out, agents.current):
            return {}
        ends = task_ends(folder.script_words(), job.nodes)
        lost = {node: end for node, end in ends.items() if node not in agents.hosts}
        if lost and all(end.launched for end in lost.values()):
            since = self._ended_since.setdefault(name, time.monotonic())
            return lost if time.monotonic() - since >= SETTLE_S else {}
        self._ended_since.pop(name, None)
        return lost

    def _settling(
        self,
        name: str,
        job: SlurmJob | None,
        ended: ScriptEnd | None,
        folder: SharedJobFolder,
        agents: Attempts,
    ) -> bool:
        """Whether files of a job that ended by itself, or that nobody lists, may still be on their way here. A training may also be
        listed again, by a slurmctld that gets its state back.
        """
        by_itself = job is None or job.job_state is JobState.SUCCEEDED or job.state in BY_ITSELF
        whole = agents.hosts and len(agents.exit_codes) == len(agents.hosts)
        if ended is not None and (whole or ended.overdue):
            return False
        since = self._over_since.setdefault(name, time.monotonic())
        forgotten = job is not None and job.state == FORGOTTEN and has_started(folder.out, agents.current)
        return by_itself and time.monotonic() - since < (self.silence_s if forgotten else SETTLE_S)

    def _final(self, name: str, folder: SharedJobFolder, agents: Attempts, final: JobStatus) -> JobStatus:
        try:
            folder.write_final(final)
        except OSError as error:
            final = replace(final, detail=f"{final.detail}; {file_remedy(error, folder.path)}")
        self._over_since.pop(name, None)
        return _status(final, agents)


def sbatch_lines(path: str) -> tuple[str, ...]:
    """The #SBATCH lines of a site's own file, without that word. Raises LaunchRejected."""
    if not path:
        return ()
    try:
        text = Path(path).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchRejected(f"sbatch_file {path} cannot be read: {error}. Correct its path.") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    options = [line.removeprefix("#SBATCH").strip() for line in lines if line.startswith("#SBATCH")]
    other = [line for line in lines if not line.startswith("#")]
    if other:
        raise LaunchRejected(
            f"sbatch_file {path}: {other[0]!r:.80} is no #SBATCH line. Commands belong to [training] command."
        )
    return tuple(options)


def _unsubmitted(name: str, folder: SharedJobFolder) -> JobStatus:
    if not folder.exists():
        return no_job(f"there is no job {name} in Slurm, and no folder {folder.path}")
    if folder.claim() == NOBODY:
        return JobStatus(JobState.CANCELLED, "cancelled before it was submitted", "", {}, Trouble.STOPPED)
    return no_job(f"{name} was prepared and never submitted. Submit it again.")


def _not_started(job: SlurmJob, agents: Attempts, cause: str = "") -> JobStatus:
    text = f"{job.detail}{cause}. Look at the prolog, and at the reason of its nodes: sinfo -R"
    return agents.status(JobState.FAILED, text, Trouble.SERVICE)


def _end_of(
    job: SlurmJob | None, ended: ScriptEnd | None, agents: Attempts, folder: SharedJobFolder
) -> JobStatus:
    """The last state: Slurm's, but where the script ended by itself, the script's."""
    by_itself = job is None or job.job_state is JobState.SUCCEEDED or job.state in BY_ITSELF
    if ended is None or not by_itself:
        if job is None or job.state == FORGOTTEN:
            text = "Slurm no longer knows the job, and its script recorded no end"
            return agents.status(JobState.FAILED, text, Trouble.ENDED)
        return agents.status(job.job_state, _with_words(job.detail, agents, folder), job.trouble)
    if ended.overdue:
        return agents.status(JobState.FAILED, "it reached its max runtime", Trouble.MAX_RUNTIME)
    if ended.exit_code == 0:
        return agents.status(JobState.SUCCEEDED, f"job {ended.job_id} ended well")
    if ended.failed:
        codes = dict(agents.exit_codes)
        text = "; ".join(f"{node} ended with {codes.get(node, 'an error')}" for node in ended.failed[:8])
        others = tuple(sorted(agents.hosts - {*ended.failed}))
        later = f"the other nodes still ran {folder.failed_grace_s()} s later and were ended"
        return replace(agents.status(JobState.FAILED, f"{text}; {later}", Trouble.ENDED), ended=others)
    text = "; ".join((f"job {ended.job_id} ended with exit code {ended.exit_code}", *_failed(agents)))
    return agents.status(JobState.FAILED, _with_words(text, agents, folder), Trouble.ENDED)


def with_lost(final: JobStatus, job: SlurmJob | None) -> JobStatus:
    """The end of a job of which Slurm lost a node, with the nodes that are down or do not answer. Raises EngineUnavailable."""
    if job is None or job.state != NODE_FAIL:
        return final
    lost = commands.lost_nodes(job.nodes)
    if not lost:
        return final
    nodes = "; ".join(f"{node} is {state}" for node, state in lost[:8])
    return replace(final, detail=f"{final.detail}: {nodes}", lost=dict(lost))


def _without(lost: Mapping[str, TaskEnd], job: SlurmJob, agents: Attempts) -> JobStatus:
    """The end of a job of which some nodes never began; the others are ended because of them."""
    nodes = "; ".join(f"{node}: {end.message}" for node, end in sorted(lost.items())[:8])
    others = tuple(node for node in expand(job.nodes) if node not in lost)
    codes = {node: end.code for node, end in lost.items() if end.code is not None}
    later = "no agent ran there, so the job was ended"
    reasons = {node: end.message for node, end in lost.items() if end.code is None}
    final = agents.status(JobState.FAILED, f"{nodes}; {later}", Trouble.ENDED)
    return replace(final, exit_codes={**final.exit_codes, **codes}, ended=others, lost=reasons)


def _waits(folder: SharedJobFolder, agents: Attempts) -> list[str]:
    """On which nodes a training has failed, and how long the script waits for the others; nothing of a job that only checks."""
    failed = _failed(agents)
    if not failed or not has_started(folder.out, agents.current):
        return []
    grace_s = folder.failed_grace_s()
    return [
        *failed,
        *([f"the other nodes have {grace_s} s from then on to end by themselves"] if grace_s else []),
    ]


def _failed(agents: Attempts) -> list[str]:
    return [f"{node} ended with {code}" for node, code in agents.exit_codes if code][:8]


def _with_words(text: str, agents: Attempts, folder: SharedJobFolder) -> str:
    """Where no agent has left a record, what the batch script printed last tells why."""
    last = "" if agents.hosts else one_line(folder.last_words())
    return f"{text}: {last}" if last else text


def _status(final: JobStatus, agents: Attempts) -> JobStatus:
    """The end with what the agents of the nodes have recorded by now."""
    codes = {**dict(agents.exit_codes), **final.exit_codes}
    return replace(final, attempt=agents.current, exit_codes=codes, earlier=agents.earlier)
