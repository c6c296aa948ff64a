"""What a plan needs of Slurm, before anything is submitted: a controller, a partition, nodes, a shared folder, and the plugins."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from tasks.launchers.base import (
    EngineUnavailable,
    LaunchRejected,
    Plan,
    PreflightCheck,
    PreflightResult,
)
from tasks.launchers.slurm import commands
from tasks.launchers.slurm.options import SlurmOptions

LOOK_S = 60.0
# A node is looked at only if one is free at once: preflight must not wait in a queue.
FREE_S, SEEN_S = 10, 30.0
HYPERPOD = Path("/opt/sagemaker_cluster")
# As sbatch does it for a job with --export=NONE: no variable from here, those of the user's profile on the node.
LOGIN = 'export HOME=~; exec /bin/bash -lc \'exec "$0" "$@"\' "$0" "$@"'
AS_A_JOB = ("--export=NONE", "/bin/bash", "-c", LOGIN)
ON_A_NODE = """\
import importlib.util, os, sys
print("python", *sys.version_info[:2])
print("torch", importlib.util.find_spec("torch") is not None)
print("seen", os.path.exists(sys.argv[1]))
"""


def look(plans: tuple[Plan, ...], options: SlurmOptions, root: Path) -> tuple[PreflightCheck, ...]:
    """Everything that can be known now; nothing of it stays. Raises nothing, and ends by a deadline."""
    deadline = time.monotonic() + LOOK_S
    try:
        said = commands.run("scontrol", "ping", timeout_s=SEEN_S)
    except EngineUnavailable as error:
        return (_wrong("Slurm's commands", str(error), "Run the gate on a login node."),)
    if said.code:
        return (_unseen("slurmctld", f"it does not answer: {said.words}"),)
    made = [PreflightCheck("slurmctld", PreflightResult.OK, said.words)]
    looks: tuple[Callable[[], Iterator[PreflightCheck]], ...] = (
        lambda: _requests(plans, root),
        lambda: _nodes(plans, options),
        lambda: _shared(options, root),
        lambda: _plugins(plans, options),
        _reboots,
    )
    for one in looks:
        if time.monotonic() > deadline:
            return (*made, _unseen("preflight", f"it was stopped after {LOOK_S:g} s"))
        try:
            made += one()
        except EngineUnavailable as error:
            made.append(_unseen("Slurm", str(error)))
    return tuple(made)


def require_supported(plan: Plan, options: SlurmOptions) -> None:
    """Raise LaunchRejected where srun lacks what the plan asks of it: the job would fail on its nodes."""
    for check in _plugins((plan,), options):
        if check.result is PreflightResult.WRONG:
            raise LaunchRejected(f"{plan.job.name}: {check.text}")


def _requests(plans: tuple[Plan, ...], root: Path) -> Iterator[PreflightCheck]:
    """Whether slurmctld would take the batch scripts. Nothing is submitted (sbatch(1), --test-only)."""
    for plan in plans:
        subject = f"request {plan.job.name}"
        script = root / "staging" / f"preflight-{uuid.uuid4().hex}.sbatch"
        try:
            script.parent.mkdir(parents=True, exist_ok=True)
            # Its folder is not there yet, and no option of sbatch depends on it.
            script.write_text(plan.processes[0].script)
            said = commands.run("sbatch", "--test-only", str(script))
        except OSError as error:
            yield _wrong(
                "the shared folder", f"{root} cannot be written: {error.strerror}", "Name another folder."
            )
            return
        finally:
            script.unlink(missing_ok=True)
        if said.code:
            yield _wrong(subject, f"Slurm refuses it: {said.words}", "Correct [cluster.options].")
        else:
            yield PreflightCheck(subject, PreflightResult.OK, said.words)


def _nodes(plans: tuple[Plan, ...], options: SlurmOptions) -> Iterator[PreflightCheck]:
    """How many nodes are free; the job waits for the others."""
    where = ("--partition", options.partition) if options.partition else ()
    said = commands.run("sinfo", "--noheader", "--states=idle", "--format=%n", *where)
    if said.code:
        yield _unseen("free nodes", said.words)
        return
    needed, free = max(plan.job.nodes for plan in plans), len(set(said.out.split()))
    waits = "" if free >= needed else ": the job waits until more are"
    yield PreflightCheck("free nodes", PreflightResult.OK, f"{free} are idle, {needed} are needed{waits}")


def _shared(options: SlurmOptions, root: Path) -> Iterator[PreflightCheck]:
    """Whether a node sees a file that is written here, and has a Python for the checks."""
    mark = root / "staging" / f"seen-{uuid.uuid4().hex}"
    place = tuple(
        f"--{name}={value}"
        for name, value in (
            ("partition", options.partition),
            ("account", options.account),
            ("qos", options.qos),
            ("reservation", options.reservation),
            ("constraint", options.constraint),
            ("exclude", options.exclude),
        )
        if value
    )
    words = ("srun", f"--immediate={FREE_S}", "--nodes=1", "--ntasks=1", "--time=1", "--chdir=/", *place)
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_bytes(b"")
        python = options.python or "python3"
        asks = (*AS_A_JOB, python, "-c", ON_A_NODE, str(mark))
        said = commands.run(*words, "--job-name=prelaunch-preflight", *asks, timeout_s=SEEN_S)
    except OSError as error:
        yield _wrong(
            "the shared folder", f"{root} cannot be written: {error.strerror}", "Name another folder."
        )
        return
    finally:
        mark.unlink(missing_ok=True)
    told = dict(line.split(" ", 1) for line in said.out.splitlines() if " " in line)
    if said.code or "seen" not in told:
        yield _unseen("the shared folder", f"no node could be asked: {said.words}")
        return
    if told["seen"] == "True":
        yield PreflightCheck("the shared folder", PreflightResult.OK, f"a node sees {root}")
    else:
        yield _wrong(
            "the shared folder",
            f"a node does not see {root}",
            "Set folder in [cluster.options] to a path on a file system that the nodes share.",
        )
    yield from _python(options, told)


def _python(options: SlurmOptions, told: dict[str, str]) -> Iterator[PreflightCheck]:
    if options.container_image:
        return  # the container has its own
    version = tuple(int(part) for part in told.get("python", "0 0").split())
    words = ".".join(map(str, version))
    if version < (3, 10):
        yield _wrong(
            "Python", f"it is {words} on a node, and the checks need 3.10", "Set python in [cluster.options]."
        )
    elif told.get("torch") != "True":
        said = f"Python {words} on a node has no module torch, which rank checks and torchrun need"
        yield _unseen("PyTorch", f"{said}. Set python in [cluster.options] to the training's own")
    else:
        yield PreflightCheck("Python", PreflightResult.OK, f"{words} on a node, with torch")


def _plugins(plans: tuple[Plan, ...], options: SlurmOptions) -> Iterator[PreflightCheck]:
    """Whether srun knows the options of pyxis and of HyperPod that are asked for."""
    image = options.container_image or any(plan.job.image for plan in plans)
    if image:
        yield _option(
            "pyxis", "--container-image", "Install pyxis, or leave container_image and [training] image out."
        )
    if options.auto_resume:
        remedy = "Leave auto_resume out: requeue starts the job again after a node was lost."
        if not HYPERPOD.is_dir():
            yield _wrong("auto_resume", f"this is no HyperPod cluster: there is no {HYPERPOD}", remedy)
        else:
            yield _option("auto_resume", "--auto-resume", remedy)


def _option(subject: str, option: str, remedy: str) -> PreflightCheck:
    said = commands.run("srun", "--help")
    if option in said.out:
        return PreflightCheck(subject, PreflightResult.OK, f"srun has {option}")
    return _wrong(subject, f"srun has no {option} here", remedy)


def _reboots() -> Iterator[PreflightCheck]:
    """For information: without RebootProgram, the remedy that reboots a node does nothing."""
    said = commands.run("scontrol", "show", "config")
    lines = (line.split("=", 1) for line in said.out.splitlines() if "=" in line)
    found = {key.strip(): value.strip() for key, value in lines}.get("RebootProgram", "(null)")
    words = "scontrol reboot does nothing here" if found == "(null)" else f"scontrol reboot runs {found}"
    yield PreflightCheck("RebootProgram", PreflightResult.OK, words)


def _wrong(subject: str, message: str, remedy: str) -> PreflightCheck:
    return PreflightCheck(subject, PreflightResult.WRONG, message, remedy)


def _unseen(subject: str, message: str) -> PreflightCheck:
    return PreflightCheck(subject, PreflightResult.UNSEEN, message)
