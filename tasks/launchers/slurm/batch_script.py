"""JobSpec -> the batch script of a job and the files beside it. Pure: it reads neither disk, nor network, nor environment.

The job's folder, on the file system that the nodes share:

    job.sbatch       what is submitted
    in/              bundle.json, pass.json, environment.sh, the code, and the key of the exchange
    out/             what the nodes write: <attempt>/nodes/<node>.json ...
    logs/, nodes/    a log per node; a folder of the agent per node
    submitted.json   the number that sbatch returned
    claim            the number of the one job that may use the folder, written when it starts
    begun            empty; the files of this start are newer
    ended.json       how the script ended
    final.json       the job's last state, once the launcher has seen it
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from checks.exchange import secret_key
from tasks.launchers import job_rules
from tasks.launchers.base import FAILED_NODE_GRACE_S, JobSpec, LaunchRejected, Placement, Plan, Request, Work
from tasks.launchers.node_code import code_archive, start_script
from tasks.launchers.slurm.options import FOLDER, SlurmOptions

JOB_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
NODE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"
# What would change srun, a shell on the way to the training, or the gate's agent; the last five are bash's own, and read only.
RESERVED = ("SLURM_", "SBATCH_", "SRUN_", "PRELAUNCH_")
RESERVED_NAMES = ("BASH_ENV", "ENV", "UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS")
SCRIPT, ARCHIVE, START, ENVIRONMENT = "job.sbatch", "prelaunch.tar.gz", "start.sh", "environment.sh"
OWN_FILES = (ARCHIVE, START, ENVIRONMENT, secret_key.FILE)
# The script ends what is late; Slurm's own limit is behind it, and counts whole minutes.
BACKSTOP_S = 60.0
# Twice the default of slurm.conf's SlurmdTimeout, after which a node that does not answer is lost.
LOST_S = 600.0
COMMENT = re.compile(r"[^A-Za-z0-9:=.,-]")


def make_plan(job: JobSpec, root: Path, options: SlurmOptions, lines: tuple[str, ...] = ()) -> Plan:
    """What is written to the job's folder, and the sbatch that starts it. Raises LaunchRejected.

    `lines` are the #SBATCH lines of a site's own file.
    """
    _require_possible(job)
    if not re.fullmatch(FOLDER, str(root)):
        raise LaunchRejected(
            f"{job.name}: sbatch cannot be given files below {str(root)!r:.200}. Name another folder in [cluster.options], "
            "without blanks, quotes, and the characters , : # ; $ ` % and backslash."
        )
    folder = root / "jobs" / job.name
    script = script_of(job, folder, options, lines)
    files = {
        **{f"in/{name}": data for name, data in job.files.items()},
        f"in/{ARCHIVE}": code_archive(),
        f"in/{START}": start_script(),
        f"in/{ENVIRONMENT}": _environment(job),
        SCRIPT: script.encode(),
    }
    uploads = {str(folder / name): data for name, data in files.items()}
    argv = ("sbatch", "--parsable", str(folder / SCRIPT))
    return Plan(job, (Request("sbatch", job.name, "", argv, {}, str(folder), script),), uploads)


def script_of(job: JobSpec, folder: Path, options: SlurmOptions, lines: tuple[str, ...] = ()) -> str:
    """The batch script."""
    head = "\n".join(f"#SBATCH {option}" for option in (*_sbatch(job, folder, options), *lines))
    minutes = {"join_s": options.joins_s, "grace_s": options.grace_s, "max_runtime_s": job.max_runtime_s}
    values = {
        "job": shlex.quote(str(folder)),
        "nodes": str(job.nodes),
        **{name: str(math.ceil(seconds)) for name, seconds in minutes.items()},
        "failed_grace_s": f"{_failed_grace_s(job, options):.0f}",
        "python": shlex.quote(options.python),
        "interface": shlex.quote(options.interface),
        "srun_options": f"({shlex.join(_srun(job, folder, options))})",
        "agent": f"({shlex.join(agent_words(job, folder))})",
    }
    return "\n".join(("#!/bin/bash", head, *(f"{name}={value}" for name, value in values.items()), _body()))


def agent_words(job: JobSpec, folder: Path) -> tuple[str, ...]:
    """The arguments of the agent on each node."""
    bundle = ("--bundle", str(folder / "in" / "bundle.json"))
    arguments = job_rules.agent_arguments(job, bundle, (str(folder / "in" / job_rules.PASSED),))
    if job.work is Work.CHECK:
        return arguments
    command = job.command if job.work is Work.COMMAND else job.training
    return (
        *arguments,
        "--",
        *job_rules.filled(command, {"{job}": str(folder / "in"), "{out}": str(folder / "out")}),
    )


def _sbatch(job: JobSpec, folder: Path, options: SlurmOptions) -> Iterator[str]:
    seconds = job.max_runtime_s + options.grace_s + BACKSTOP_S
    pins = Placement(options.placement) is Placement.PINNED and job.work is Work.CONFIRM
    pinned = [node.name for node in job_rules.passed_nodes(job)] if pins else []
    comment = ",".join(COMMENT.sub("-", f"{key}={value}") for key, value in job.tags.items())
    values = {
        "job-name": job.name,
        "nodes": str(job.nodes),
        "ntasks-per-node": "1",
        "time": str(math.ceil(seconds / 60)),
        # Two jobs of one name do not run side by side. A variable of whoever submits reaches no job.
        "dependency": "singleton",
        "export": "NONE",
        "open-mode": "append",
        "output": str(folder / "slurm.log"),
        "chdir": str(folder),
        "comment": comment,
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "reservation": options.reservation,
        "constraint": options.constraint,
        "exclude": ",".join(filter(None, (options.exclude, *job.exclude))),
        "gres": options.gres,
        "gpus-per-node": str(options.gpus_per_node or ""),
        "mem": "0" if options.exclusive else "",
        "nodelist": ",".join(pinned),
    }
    yield from (f"--{name}={value}" for name, value in values.items() if value)
    # Training on the nodes that passed is of no use on others, and a second start would wait for one that is gone.
    again = job.work in (Work.CHECK, Work.GATE)
    # One of them starts it again: with auto-resume HyperPod does, as the site has set it up.
    if not _resumes(job, options):
        yield "--requeue" if again and options.requeue else "--no-requeue"
    if options.exclusive:
        yield "--exclusive"


def _resumes(job: JobSpec, options: SlurmOptions) -> bool:
    return options.auto_resume and job.work is Work.GATE


def _failed_grace_s(job: JobSpec, options: SlurmOptions) -> float:
    """How long the other nodes may run once the training has failed on one; 0: for as long as they like.

    With auto-resume it is HyperPod that ends and starts a step of which a node failed. Where Slurm may start the job again, it needs
    the time to find out that a node is lost, whose peers fail at once.
    """
    if not job.work.trains or _resumes(job, options):
        return 0.0
    again = options.requeue and job.work is Work.GATE
    return FAILED_NODE_GRACE_S + (LOST_S if again else 0.0)


def _srun(job: JobSpec, folder: Path, options: SlurmOptions) -> tuple[str, ...]:
    image = (job.image if job.work.trains else "") or options.container_image
    resume = ("--auto-resume=1",) if _resumes(job, options) else ()
    if not image:
        return resume
    mounts = ",".join((f"{folder}:{folder}", *options.container_mounts))
    environment = (f"--container-env={','.join(options.container_env)}",) if options.container_env else ()
    return (*resume, f"--container-image={image}", f"--container-mounts={mounts}", *environment)


def _environment(job: JobSpec) -> bytes:
    """The training's variables, in a file that only its owner reads: slurmctld keeps the script, and shows it to administrators."""
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in sorted(job.environment.items()))
    return "".join(lines).encode()


@cache
def _body() -> str:
    return Path(__file__).with_name("job.sh").read_text()


def _require_possible(job: JobSpec) -> None:
    job_rules.require_name(job, JOB_NAME, "Use lower case and dashes.")
    job_rules.require_end(job)
    job_rules.require_no_request(job, "Slurm's options are in [cluster.options].")
    for node in job.exclude:
        if not re.fullmatch(NODE, node):
            message = f"{job.name}: {node!r:.80} cannot be the name of a node that it must not get."
            raise LaunchRejected(message)
    job_rules.require_files(job, OWN_FILES)
    job_rules.require_variables(job, RESERVED, RESERVED_NAMES, "Slurm, a shell or the gate's agent")
