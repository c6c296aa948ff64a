"""Finds out before a job starts whether its nodes have PyTorch, which rank checks and torchrun need, and the training's script; for
containers, whether the engine has the image and can start one as the nodes would be. Also whether GPUs that are declared may be here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from checks.process.environment import CODE
from tasks.launchers.base import Plan, PreflightCheck, PreflightResult
from tasks.launchers.local import container
from tasks.launchers.local.container import Submitter
from tasks.launchers.local.nodes import node_environment
from tasks.launchers.local.plan import LocalOptions, declared_gpus
from tasks.launchers.preflight import (
    FOR_CHECKS,
    FOR_TRAINING,
    has_rank_checks,
    missing_script,
    starts_torchrun,
    unseen,
    wrong,
)

# It looks for the package and does not import it, which takes seconds.
FIND_TORCH = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('torch') else 9)"
ABSENT = 9
LOOK_S = 20.0
CONTAINER_S = 60.0  # judgement: the first container of an image of 20 GB
# What the training starts, by its path or its name, seen from within.
FIND = """\
import os, shutil, sys
name = sys.argv[1]
sys.exit(0 if os.path.isfile(name) or "/" not in name and shutil.which(name) else 9)
"""
# Of NVIDIA's driver on Linux, and of the one in WSL.
GPU_FILES = ("/proc/driver/nvidia/gpus", "/dev/nvidia0", "/dev/dxg")
# docker-run(1) and podman-run(1): the engine itself failed, the command cannot be invoked, the command cannot be found.
REFUSED = (125, 126, 127)


def check(plans: tuple[Plan, ...], options: LocalOptions, submitter: Submitter) -> tuple[PreflightCheck, ...]:
    """A warning about GPUs, and the first thing that is wrong or unknown about the nodes. It ends after LOOK_S for each question,
    or after CONTAINER_S where a container has to be started for it.

    The training is asked about last, with its own environment, and only if the rank checks have what they need.
    """
    return (*_missing_gpus(plans), *islice(_problems(plans, NodePython(options, submitter)), 1))


def _missing_gpus(plans: tuple[Plan, ...]) -> Iterator[PreflightCheck]:
    """A warning where GPUs are declared and this machine has not one, which a typed-in example or the wrong launcher explains."""
    declared = max((declared_gpus(plan.job) for plan in plans), default=0)
    if declared and not any(map(os.path.exists, GPU_FILES)):
        message = f"{declared} GPUs a node are declared, and this machine has none ({', '.join(GPU_FILES)} do not exist)"
        remedy = (
            "Name the launcher of the machines that are meant, or correct instance_type and gpus_per_node"
        )
        yield PreflightCheck("GPUs", PreflightResult.WARNING, message, remedy)


def _problems(plans: tuple[Plan, ...], python: NodePython) -> Iterator[PreflightCheck]:
    if python.contained:
        for image in dict.fromkeys(map(python.image, plans)):
            yield from _image(str(python.options.container_engine), image)
    for subject, needs in ((FOR_CHECKS, has_rank_checks), (FOR_TRAINING, starts_torchrun)):
        plan = next((plan for plan in plans if needs(plan.job)), None)
        if plan is not None:
            yield from _torch(subject, python, plan)
    trained = next((plan for plan in plans if plan.job.work.trains), None)
    if trained is not None:
        yield from _script(trained, python)


@dataclass(frozen=True)
class NodePython:
    """The interpreter of the nodes: this machine's, or one in a container that is started as a node's would be."""

    options: LocalOptions
    submitter: Submitter

    @property
    def contained(self) -> bool:
        """Whether it is in a container."""
        return bool(self.options.container_image)

    def image(self, plan: Plan) -> str:
        """The image of the job's containers."""
        return self.options.settings_for(plan.job).image

    def name(self, plan: Plan) -> str:
        """For people."""
        return self.options.interpreter + (f" of the image {self.image(plan)}" if self.contained else "")

    def command(self, plan: Plan) -> tuple[str, ...]:
        """The command, up to the interpreter's own words."""
        if not self.contained:
            return (self.options.interpreter,)
        settings = self.options.settings_for(plan.job)
        first = container.run_words(settings, self.submitter, declared_gpus(plan.job))
        label = ("--label", container.label_of(_preflight_label()), "--network", "none")
        return (*first, *label, *container.operator_words(settings), settings.image, self.options.interpreter)


def _preflight_label() -> str:
    """The label of containers that this process starts only to look."""
    return f"preflight-{os.getpid()}"


def _image(engine: str, image: str) -> Iterator[PreflightCheck]:
    """What is wrong with the engine or the image. It is never pulled."""
    if shutil.which(engine) is None:
        yield wrong(
            "container_engine",
            f"there is no {engine} on the PATH",
            f"Install {engine}, or name the other engine",
        )
        return
    try:
        done = container.called((engine, "image", "inspect", "--format", "{{.Id}}", image), LOOK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield unseen("container_image", f"{engine} did not answer: {error}")
        return
    if done.returncode:
        message = f"{engine} has no image {image} that it can use here: {_last_line(done).rstrip('.?')}"
        remedy = f"Pull it ({engine} pull {image}), or build it; `{engine} version` must answer"
        yield wrong("container_image", message, remedy)


def _script(plan: Plan, python: NodePython) -> Iterator[PreflightCheck]:
    """What is wrong with the file that the training starts. A name without a folder is looked for on the PATH."""
    script, node = plan.job.script, plan.processes[0]
    if not script or "{" in script:  # a word that only the node fills in
        return
    by_name = "/" not in script and not script.endswith(".py")
    where = Path(node.working_directory, script)
    if python.contained and (by_name or where == Path(script)):
        text = f"the image {python.image(plan)} has no such file, and no volume of container_mounts brings it"
        yield from _probe("the training's script", python, plan, missing_script(script, text), FIND, script)
    elif by_name:
        if shutil.which(script, path=node.environment.get("PATH") or os.environ.get("PATH")) is None:
            yield missing_script(script, "no folder of PATH has it")
    elif not where.is_file():
        relative = "a relative path begins in the folder of the job, which has no such file"
        yield missing_script(script, "there is no such file" if where == Path(script) else relative)


def _torch(subject: str, python: NodePython, plan: Plan) -> Iterator[PreflightCheck]:
    name = python.name(plan)
    # Another interpreter may be too old for Prelaunch itself; the nodes need only PyTorch there.
    package = "pip install 'prelaunch[torch]'" if name == sys.executable else f"{name} -m pip install torch"
    remedy = f"Install it: {package}"
    if python.contained:
        remedy = "Take an image that has PyTorch, or name its interpreter with `python`"
    absent = wrong(subject, f"{name}, which runs the nodes, has no module torch", remedy)
    yield from _probe(subject, python, plan, absent, FIND_TORCH)


def _probe(
    subject: str, python: NodePython, plan: Plan, absent: PreflightCheck, code: str, *arguments: str
) -> Iterator[PreflightCheck]:
    """The line `absent` where a node lacks what the code looks for; another one where that cannot be seen, or where the engine
    refuses the container.
    """
    node = plan.processes[0]
    # What the checks add to the environment does not reach the training.
    variables = {key: value for key, value in node.environment.items() if key != CODE}
    command = replace(node, environment=variables)
    argv = (*python.command(plan), "-c", code, *arguments)
    seconds = CONTAINER_S if python.contained else LOOK_S
    try:
        done = container.called(argv, seconds, node_environment(os.environ, command, {}, ""))
    except subprocess.TimeoutExpired:
        if python.contained:
            container.remove(argv[0], _preflight_label())
        yield unseen(subject, f"{python.name(plan)} did not answer within {seconds:g} s")
        return
    except OSError as error:
        yield unseen(subject, f"{python.name(plan)} could not be started: {error.strerror or error}")
        return
    how = f"{python.name(plan)} ended with exit code {done.returncode}: {_last_line(done)}"
    if done.returncode == ABSENT:
        yield absent
    elif done.returncode and not python.contained:
        yield unseen(subject, how)
    elif done.returncode in REFUSED:
        message = " ".join(done.stderr.split())[:300]
        yield wrong(
            "container",
            f"{argv[0]} cannot start a container as the nodes would be: {message}",
            "Correct container_arguments and container_mounts. GPUs need the NVIDIA Container Toolkit, set up for this engine",
        )
    elif done.returncode:  # the container started, so that what is wrong is inside
        yield wrong("python", how, "Correct `python` and container_mounts: it does not start there")


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip().rpartition("\n")[2][:300]
