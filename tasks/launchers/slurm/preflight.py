"""What a plan needs of Slurm, before anything is submitted: a controller, a partition, nodes, a shared folder, and the plugins."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import sleep

from tasks.launchers.base import EngineUnavailable, LaunchRejected, Plan, PreflightCheck, PreflightResult
from tasks.launchers.preflight import (
    FOR_CHECKS,
    FOR_TRAINING,
    has_rank_checks,
    missing_script,
    no_capacity,
    ok,
    run_checks,
    starts_torchrun,
    unanswered,
    unseen,
    wrong,
)
from tasks.launchers.slurm import commands, partition
from tasks.launchers.slurm.commands import SlurmReply
from tasks.launchers.slurm.options import SlurmOptions
from tasks.launchers.slurm.submit import NOT_AVAILABLE

# A node is looked at only if one is free at once: preflight must not wait in a queue.
FREE_S, SEEN_S = 10, 30.0
# slurm_strerror() of Slurm 22.05 and 24.11 where a job has to wait (ESLURM_NODES_BUSY).
WAITS = re.compile(r"Requested nodes are busy")
# Slurm's text where no nodes of the cluster have what is asked for (ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE). 24.11 says it also for
# some seconds after a node was returned to service, while sinfo shows it as idle: so it is asked again.
NO_SUCH_NODES = re.compile(r"Requested node configuration is not available")
TRIES, PAUSE_S = 5, 3.0
HYPERPOD = Path("/opt/sagemaker_cluster")
# As sbatch does it for a job with --export=NONE: no variable from here, those of the user's profile on the node.
LOGIN = 'export HOME=~; exec /bin/bash -lc \'exec "$0" "$@"\' "$0" "$@"'
AS_A_JOB = ("--export=NONE", "/bin/bash", "-c", LOGIN)
# The arguments are a file, the training's script or "", the beginning of an interface's name or "", and interpreters in the order in
# which a node looks for them (start.sh). /proc/net/dev is that of the node's own network namespace, /sys/class/net may not be.
ON_A_NODE = """\
echo "node ${SLURMD_NODENAME:-$HOSTNAME}"
if test -e "$1"; then echo "seen True"; else echo "seen False"; fi
if test -w "$1"; then echo "writes True"; else echo "writes False"; fi
if test -z "$2" || test -f "$2"; then echo "script True"; else echo "script False"; fi
if test -z "$3" || grep -q "^ *$3" /proc/net/dev; then echo "interface True"; else echo "interface False"; fi
shift 3
for python in "$@"; do
    if type -P "$python" >/dev/null; then
        echo "python $python"
        exec "$python" -c '
import importlib.util, sys
print("version", *sys.version_info[:2])
print("torch", importlib.util.find_spec("torch") is not None)
'
    fi
done
"""
UNSEEN = "Until then nothing is known of the partition, its nodes, the folder and Python."
ASK_ELSEWHERE = f"Run this where scontrol ping answers, such as on a login node, or start slurmctld. {UNSEEN}"
PYTHONS = ("python3", "python", "/opt/conda/bin/python3")


def check(plans: tuple[Plan, ...], options: SlurmOptions, root: Path) -> tuple[PreflightCheck, ...]:
    """Everything that can be known now; nothing of it stays. Raises nothing, and ends by a deadline."""
    try:
        done = commands.run("scontrol", "ping", timeout_s=SEEN_S)
    except commands.MissingCommand as error:
        return (wrong("Slurm's commands", str(error), f"Run the gate on a login node. {UNSEEN}"),)
    except EngineUnavailable as error:
        return (_silent(str(error)),)
    if done.code:
        return (_silent(f"it does not answer: {done.text}"),)
    lines = [ok("slurmctld", done.text)]
    checks = (
        lambda: _requests(plans, options),
        lambda: _nodes(plans, options) if _can_start(lines) else iter(()),
        lambda: _shared(plans, options, root) if _can_start(lines) else iter(()),
        lambda: _plugins(plans, options),
    )
    return run_checks(lines, checks, lambda error: unanswered("Slurm", str(error), ASK_ELSEWHERE))


def _silent(message: str) -> PreflightCheck:
    """Why scontrol ping had no good answer: there is no Slurm, or it may answer later."""
    if commands.NO_CONFIGURATION.search(message):
        remedy = f"Run the gate on a login node, or correct slurm.conf (SLURM_CONF). {UNSEEN}"
        return wrong("Slurm's configuration", message, remedy)
    return unanswered("slurmctld", message, ASK_ELSEWHERE)


def require_supported(plan: Plan, options: SlurmOptions) -> None:
    """Raise LaunchRejected where srun lacks what the plan asks of it: the job would fail on its nodes."""
    for check in _plugins((plan,), options):
        if check.result is PreflightResult.WRONG:
            raise LaunchRejected(f"{plan.job.name}: {check.text}")


def _can_start(lines: list[PreflightCheck]) -> bool:
    """Whether Slurm takes the job at all: what follows from a refusal is not reported beside it."""
    return all(check.result in (PreflightResult.OK, PreflightResult.UNSEEN) for check in lines)


def _requests(plans: tuple[Plan, ...], options: SlurmOptions) -> Iterator[PreflightCheck]:
    """Whether slurmctld would take the batch scripts, and would ever start them. Nothing is submitted (sbatch(1), --test-only)."""
    listed = partition.partitions_of(commands.run("scontrol", "show", "partition", "--oneliner", "--all").out)
    for plan in plans:
        job, script = plan.job, plan.processes[0].script
        subject = f"request {job.name}"
        with tempfile.NamedTemporaryFile("w", prefix="prelaunch-", suffix=".sbatch") as file:
            file.write(script)
            file.flush()
            # What slurmctld says of the script.
            done = commands.run("sbatch", "--test-only", file.name)
            for _ in range(TRIES - 1):
                if not done.code or not NO_SUCH_NODES.search(done.err) or _shortage(plan, options):
                    break
                sleep(PAUSE_S)
                done = commands.run("sbatch", "--test-only", file.name)
        waits = bool(done.code and WAITS.search(done.err))
        if waits or not done.code:
            obstacles = partition.obstacles(job.name, job.nodes, script, done.text, listed, bool(options.qos))
            text = f"it waits until nodes are free ({done.text})" if waits else done.text
            yield from tuple(obstacles) or (ok(subject, text),)
        elif NOT_AVAILABLE.search(done.err):
            yield no_capacity("the partition", done.text, partition.WAIT)
        elif short := _shortage(plan, options):
            remedy = (
                "Wait until more of them are (sinfo -R says why they are not), or name other nodes in [cluster.options]. "
                f"sbatch refuses the request now: {done.text}"
            )
            yield no_capacity("nodes in service", short, remedy)
        else:
            remedy = "Correct [cluster.options], or what [cluster.declared] says of the nodes (sinfo shows the partitions)."
            yield wrong(subject, f"Slurm refuses it: {done.text}", remedy)


def _shortage(plan: Plan, options: SlurmOptions) -> str:
    """Why a job that Slurm refuses now would be taken later: nodes that it needs are out of service; "" where they are not."""
    where = ("--all", "--partition", options.partition) if options.partition else ()
    done = commands.run("sinfo", "--noheader", "--Node", "--format=%N %T", *where)
    return "" if done.code else partition.shortage(done.out, plan.job.nodes)


def _nodes(plans: tuple[Plan, ...], options: SlurmOptions) -> Iterator[PreflightCheck]:
    """How many nodes are free; the job waits for the others."""
    where = ("--all", "--partition", options.partition) if options.partition else ()
    done = commands.run("sinfo", "--noheader", "--states=idle", "--format=%n", *where)
    if done.code:
        yield unseen("free nodes", done.text)
        return
    needed, free = max(plan.job.nodes for plan in plans), len(set(done.out.split()))
    waits = "" if free >= needed else ": the job waits until more are"
    yield ok("free nodes", f"{free} are idle, {needed} are needed{waits}")


def _shared(plans: tuple[Plan, ...], options: SlurmOptions, root: Path) -> Iterator[PreflightCheck]:
    """Whether a node sees a file that is written here, and has a Python for the checks."""
    names = ("partition", "account", "qos", "reservation", "constraint", "exclude")
    filters = (f"--{name}={value}" for name in names if (value := getattr(options, name)))
    srun = ("srun", f"--immediate={FREE_S}", "--nodes=1", "--ntasks=1", "--time=1", "--chdir=/", *filters)
    pythons = (options.python,) if options.python else PYTHONS
    script = _script(plans, options)
    try:
        # What is not there yet is made below the folder that is, on the same file system.
        base = next(folder for folder in (root, *root.parents) if folder.is_dir())
        with tempfile.NamedTemporaryFile(prefix=".prelaunch-seen-", dir=base) as mark:
            asks = ("look", mark.name, script, options.interface, *pythons)
            as_a_job = ("--job-name=prelaunch-preflight", *AS_A_JOB, "/bin/bash", "-c", ON_A_NODE)
            done = commands.run(*srun, *as_a_job, *asks, timeout_s=SEEN_S)
    except OSError as error:
        yield wrong(
            "the shared folder", f"{root} cannot be written: {error.strerror}", "Name another folder."
        )
        return
    answers = dict(line.split(" ", 1) for line in done.out.splitlines() if " " in line)
    if "seen" not in answers:
        busy = "no node is free at once, so none was asked; the job itself waits in the queue until nodes are free"
        unasked = f"no node could be asked: {done.text}"
        yield unseen("the shared folder", busy if WAITS.search(done.err) else unasked)
        return
    later = "" if base == root else f"; {root} is not there yet, and will be made"
    yield from _node_lines(answers, root, script, options, f"sees {base}{later}")
    if not options.container_image:  # the container has its own
        yield _python(plans, options, answers, done)


def _node_lines(
    answers: Mapping[str, str], root: Path, script: str, options: SlurmOptions, sees: str
) -> Iterator[PreflightCheck]:
    """What a node said of the shared folder, the training's script and the network interface."""
    node = answers.get("node", "a node")
    lacks = "does not see" if answers["seen"] != "True" else "cannot write to"
    if answers["seen"] == answers.get("writes") == "True":
        yield ok("the shared folder", f"node {node} {sees}")
    else:
        yield wrong(
            "the shared folder",
            f"node {node} {lacks} {root}",
            "Set folder in [cluster.options] to a path on a file system that the nodes share and may write to.",
        )
    if answers.get("script") == "False":
        yield missing_script(script, f"node {node} has no such file")
    if answers.get("interface") == "False":
        yield wrong(
            "interface",
            f"node {node} has no network interface {options.interface}",
            "Set interface in [cluster.options] to one that `ip link` shows on the nodes, or leave it out.",
        )


def _script(plans: tuple[Plan, ...], options: SlurmOptions) -> str:
    """The path of the training's script, where it is one of the nodes themselves; "" in a container, and for a relative path."""
    scripts = [plan.job.script for plan in plans if plan.job.work.trains and not plan.job.image]
    script = "" if options.container_image else next(iter(scripts), "")
    return script if script.startswith("/") and "{" not in script else ""


def _python(
    plans: tuple[Plan, ...], options: SlurmOptions, answers: Mapping[str, str], done: SlurmReply
) -> PreflightCheck:
    """Whether the node's interpreter is there, is new enough, and has PyTorch where that is needed."""
    python, node = answers.get("python", ""), answers.get("node", "a node")
    if not python:
        missing = f"the interpreter {options.python}" if options.python else "no Python"
        return wrong(
            "Python",
            f"{missing} was {'not ' if options.python else ''}found on node {node}",
            "Set python in [cluster.options] to an interpreter that the nodes have.",
        )
    try:
        version = tuple(int(number) for number in answers["version"].split())
    except (KeyError, ValueError):
        return unseen("Python", f"{python} on node {node} did not answer: {done.text}")
    description = f"{python} on node {node} is Python {'.'.join(map(str, version))}"
    if version < (3, 10):
        return wrong("Python", f"{description}, and the checks need 3.10", "Set python in [cluster.options].")
    if answers.get("torch") == "True":
        return ok("Python", f"{description}, with torch")
    for subject, needed in ((FOR_CHECKS, has_rank_checks), (FOR_TRAINING, starts_torchrun)):
        if any(needed(plan.job) and not plan.job.image for plan in plans):
            return wrong(
                subject,
                f"{description} without the module torch",
                f"Install it there: {python} -m pip install torch; or set python in [cluster.options] to an interpreter that has it.",
            )
    return ok("Python", description)


def _plugins(plans: tuple[Plan, ...], options: SlurmOptions) -> Iterator[PreflightCheck]:
    """Whether srun knows the options of pyxis and of HyperPod that are asked for."""
    if options.container_image or any(plan.job.image for plan in plans):
        yield _option(
            "pyxis", "--container-image", "Install pyxis, or leave container_image and [training] image out."
        )
    if options.auto_resume:
        remedy = "Leave auto_resume out: requeue starts the job again after a node was lost."
        if not HYPERPOD.is_dir():
            yield wrong("auto_resume", f"this is no HyperPod cluster: there is no {HYPERPOD}", remedy)
        else:
            yield _option("auto_resume", "--auto-resume", remedy)


def _option(subject: str, option: str, remedy: str) -> PreflightCheck:
    if option in commands.run("srun", "--help").out:
        return ok(subject, f"srun has {option}")
    return wrong(subject, f"it is not installed: srun has no {option} here", remedy)
