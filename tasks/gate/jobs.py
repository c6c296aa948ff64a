"""The two jobs of a gate as a launcher takes them, and their names; and what is left of the jobs of a lock."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from checks import bundle as bundles
from checks.bundle import Pass
from checks.documents.certificates import NO_CERTIFICATES, Certificates
from checks.model_details import Images
from checks.runner.deadline import limited
from tasks.gate.context import GateContext, launcher_of
from tasks.gate.lease.lease import CHECK, ENDING_S, TRAIN, Lease
from tasks.gate_file.model import Mode
from tasks.launchers.base import EngineUnavailable, JobSpec, JobState, JobStatus, LaunchError, Placement, Work
from tasks.launchers.preflight import training_script
from tasks.reports.node_reports import NodeReports

CHECK_COMMAND = ("{python}", "-m", "checks", "run", "--bundle", "{job}/bundle.json", "--out", "{out}")
GATE_COMMAND = ("{python}", "-m", "checks", "gate", "--bundle", "{job}/bundle.json", "--out", "{out}")
CONFIRM = ("--confirm", "{job}/pass.json")
TORCHRUN = (
    "{python}", "-m", "torch.distributed.run",
    "--nnodes", "{nodes}", "--node-rank", "{node_rank}", "--nproc-per-node", "{ranks_per_node}",
    "--master-addr", "{master_addr}", "--master-port", "{master_port}", "--max-restarts", "0",
)  # fmt: skip

# One mpirun on the first node, which starts the ranks everywhere.
MPI = (
    "{python}", "-m", "checks.runner.mpi.launch",
    "--nodes", "{nodes}", "--node-rank", "{node_rank}", "--ranks-per-node", "{ranks_per_node}",
    "--master-addr", "{master_addr}", "--key-fd", "{key_fd}", "--",
)  # fmt: skip
# An answer that a person gives in the last second still has to reach nodes that look every few seconds.
ANSWER_S = 60.0
STARTERS: Mapping[str, tuple[str, ...]] = {"torchrun": TORCHRUN, "mpi": MPI, "none": ()}


@dataclass(frozen=True)
class JobEnd:
    """The end of a job, or of one start of it. `late` says why the gate gave it up; it is "" if the job ended by itself.

    `ran` says that it was seen to run, and `may_run` that the gate could not end it; `decoded` has its nodes' reports as far as they
    were decoded on the way.
    """

    job: str
    status: JobStatus
    late: str = ""
    ran: bool = False
    may_run: bool = False
    decoded: NodeReports = field(default_factory=NodeReports, compare=False, repr=False)


def new_gate_id(name: str, unix_s: float) -> str:
    """ "local-20261121-083000-1f3a": the gate file's name, UTC, four random digits; at most 40 characters."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(unix_s))
    return f"{name}-{stamp}-{secrets.token_hex(2)}"


def check_job(
    context: GateContext, gate_id: str, name: str, certificates: Certificates = NO_CERTIFICATES
) -> JobSpec:
    """The health check: every node runs all checks, except those for which it finds that a certificate stands, and writes its report;
    its exit code is no verdict.
    """
    bundle = dataclasses.replace(context.bundle(gate_id), certificates=certificates)
    minutes, files = context.gate.checks.max_runtime_minutes, {"bundle.json": bundles.dump(bundle)}
    job = _job(context, name, minutes, files, Work.CHECK, *CHECK_COMMAND)
    return dataclasses.replace(job, deadline_s=context.gate.checks.whole_deadline_s)


def train_job(context: GateContext, gate_id: str, name: str, proven: Pass, predecessor: str = "") -> JobSpec:
    """The training: every node confirms that it is the machine that passed, then becomes the command.

    `predecessor` is the check job whose machines it is to get, "" if that job is not this gate's own.
    """
    files = {"bundle.json": bundles.dump(context.bundle(gate_id)), "pass.json": bundles.dump(proven)}
    job = _training(context, name, context.gate.training.max_runtime_minutes, files, Work.CONFIRM, *CONFIRM)
    return dataclasses.replace(job, predecessor=predecessor)


def gated_job(context: GateContext, gate_id: str, name: str, ask_s: float) -> JobSpec:
    """Checks and training in one job (IN_JOB): the nodes themselves decide, and become the command."""
    files = {"bundle.json": bundles.dump(context.bundle(gate_id))}
    minutes = context.most_check_minutes + ask_s / 60 + context.gate.training.max_runtime_minutes
    asks = ("--ask-s", f"{ask_s:g}") if ask_s else ()
    job = _training(context, name, minutes, files, Work.GATE, *asks)
    return dataclasses.replace(job, ask_s=ask_s)


# The options of launchers that name the image in which checks run, and the training where it has none of its own.
IMAGE_OPTIONS = ("image", "container_image")


def images_of(context: GateContext) -> Images | None:
    """The images that the gate asks its launcher for; None if it names none. That of a model_trainer is not known here."""
    options, training = context.gate.cluster.options, context.gate.training
    own = next((str(options[key]) for key in IMAGE_OPTIONS if options.get(key)), "")
    trains = "" if training.model_trainer else training.image or own
    checks = trains if context.launcher.placement is Placement.IN_JOB else own
    return Images(checks, trains) if checks or trains else None


def answer_wait_s(context: GateContext, minutes: int) -> float:
    """How many seconds the nodes of a job that decides by itself wait for a person's answer; 0 if nobody is asked."""
    return minutes * 60 + ANSWER_S if minutes and context.asks else 0.0


def planned_jobs(context: GateContext, ask_s: float = 0.0) -> tuple[JobSpec, ...]:
    """The jobs as a plan shows them: the gate's id and the machines that will have passed are not known yet."""
    gate_id = f"{context.gate.name}-plan"
    check, train = f"{gate_id}-{CHECK}-1", f"{gate_id}-{TRAIN}-1"
    if context.launcher.placement is Placement.IN_JOB:
        jobs = [gated_job(context, gate_id, train, ask_s)]
    else:
        proven = Pass(1, gate_id, hashlib.sha256(b"").hexdigest(), "", ())
        jobs = [check_job(context, gate_id, check), train_job(context, gate_id, train, proven, check)]
    return tuple(dataclasses.replace(job, tags=job_tags(context, gate_id)) for job in jobs)


def job_tags(context: GateContext, gate_id: str, flow_run_id: str = "") -> dict[str, str]:
    """What the engine's console shows: which gate, which cluster, which flow run."""
    tags = {"prelaunch:gate": gate_id, "prelaunch:cluster": context.gate.cluster.name}
    return {**tags, "prelaunch:flow-run": flow_run_id} if flow_run_id else tags


def _training(
    context: GateContext, name: str, minutes: float, files: Mapping[str, bytes], work: Work, *options: str
) -> JobSpec:
    training, here = context.gate.training, str(context.here)
    command = tuple(argument.replace("{here}", here) for argument in training.command)
    started_by = (*STARTERS[training.distributed], *command) if command else ()
    observe = context.gate.policy.mode is Mode.OBSERVE
    flags = (*options, *(("--observe",) if observe else ()))
    return dataclasses.replace(
        _job(context, name, minutes, files, work, *GATE_COMMAND, *flags, "--", *started_by),
        environment={key: value.replace("{here}", here) for key, value in training.environment.items()},
        training=started_by,
        script=training_script(training.distributed, command),
        observe=observe,
        image=training.image,
        request=training.request,
        trainer=training.model_trainer,
    )


def _job(
    context: GateContext, name: str, minutes: float, files: Mapping[str, bytes], work: Work, *command: str
) -> JobSpec:
    declared = context.declared
    return JobSpec(
        name=name,
        command=command,
        nodes=declared.nodes,
        ranks_per_node=declared.ranks_per_node,
        max_runtime_s=minutes * 60,
        files=files,
        environment={},
        work=work,
        instance_type=declared.instance_type,
    )


def running_jobs(lease: Lease) -> tuple[str, ...]:
    """Which jobs of a lock still run, asked of the launcher that it names.

    Raises EngineUnavailable if it does not answer: a job that is not seen may run.
    """
    launcher = launcher_of(lease.engine)
    going = (JobState.PENDING, JobState.RUNNING)
    statuses = {job: launcher.state(job) for job in lease.jobs}
    for job, status in statuses.items():
        if is_unanswered(status):
            raise EngineUnavailable(
                f"cluster {lease.cluster}: {lease} is gone, and whether its job {job} runs is not known: "
                f"{status.detail}. Nothing was started: try again."
            )
    return tuple(job for job, status in statuses.items() if status.state in going)


def is_unanswered(status: JobStatus) -> bool:
    """Whether the engine did not say what became of the job, not even that there is none."""
    return status.state is JobState.UNKNOWN and not status.absent


def cancel_jobs(lease: Lease) -> None:
    """End every job of a lock, and let its machines go. Each is tried; a LaunchError names all that failed."""
    launcher, failures = launcher_of(lease.engine), []
    for job in lease.jobs:
        try:
            limited(ENDING_S, partial(launcher.cancel, job))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other job is ended all the same
            failures.append(
                f"{job} may still run: {error}" if isinstance(error, TimeoutError) else f"{error}"
            )
    if failures:
        raise LaunchError(" ".join(failures))
