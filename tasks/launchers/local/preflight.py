"""Finds out before a job starts whether its nodes have PyTorch, which rank checks and torchrun need, and the training's script; for
containers, whether the engine has the image and can start one as the nodes would be.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from checks.process.environment import CODE
from tasks.launchers.base import Plan, PreflightCheck, PreflightResult, Request
from tasks.launchers.local import container
from tasks.launchers.local.container import ContainerEngine, Submitter
from tasks.launchers.local.job_folder import NodeCommand
from tasks.launchers.local.nodes import node_environment
from tasks.launchers.local.plan import LocalOptions, declared_gpus
from tasks.launchers.torch_need import FOR_CHECKS, FOR_TRAINING, has_rank_checks, starts_torchrun
from tasks.launchers.training_script import missing_script

# It looks for the package and does not import it, which takes seconds.
LOOK = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('torch') else 9)"
ABSENT = 9
LOOK_S = 20.0
CONTAINER_S = 60.0  # judgement: the first container of an image of 20 GB
# What the training starts, by its path or its name, seen from within.
FIND = """\
import os, shutil, sys
name = sys.argv[1]
sys.exit(0 if os.path.isfile(name) or "/" not in name and shutil.which(name) else 9)
"""
# docker-run(1) and podman-run(1): the engine itself failed, the command cannot be invoked, the command cannot be found.
REFUSED = (125, 126, 127)


def look(plans: tuple[Plan, ...], options: LocalOptions, submitter: Submitter) -> tuple[PreflightCheck, ...]:
    """What is wrong or unknown about the interpreter of the nodes; nothing where all is well. It ends after LOOK_S for each question,
    or after CONTAINER_S where a container has to be started for it.

    The training is asked about last, with its own environment, and only if the rank checks have what they need.
    """
    python = NodePython(options, submitter)
    images = dict.fromkeys(options.settings_for(plan.job).image for plan in plans if options.container_image)
    for image in images:
        if wrong := _image(str(options.container_engine), image):
            return (wrong,)
    checks = next((plan for plan in plans if has_rank_checks(plan.job)), None)
    if checks is not None and (wrong := _torch(FOR_CHECKS, python, checks)):
        return (wrong,)
    training = next((plan for plan in plans if starts_torchrun(plan.job)), None)
    if training is not None and (wrong := _torch(FOR_TRAINING, python, training)):
        return (wrong,)
    trained = next((plan for plan in plans if plan.job.work.trains), None)
    wrong = None if trained is None else _script(trained, python)
    return () if wrong is None else (wrong,)


@dataclass(frozen=True)
class NodePython:
    """The interpreter of the nodes: this machine's, or one in a container that is started as a node's would be."""

    options: LocalOptions
    submitter: Submitter

    @property
    def contained(self) -> bool:
        """Whether it is in a container."""
        return bool(self.options.container_image)

    @property
    def seconds(self) -> float:
        """How long an answer may take."""
        return CONTAINER_S if self.contained else LOOK_S

    def image(self, plan: Plan) -> str:
        """The image of the job's containers."""
        return self.options.settings_for(plan.job).image

    def name(self, plan: Plan) -> str:
        """For people."""
        return self.options.interpreter + (f" of the image {self.image(plan)}" if self.contained else "")

    def words(self, plan: Plan) -> tuple[str, ...]:
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


def _image(engine: str, image: str) -> PreflightCheck | None:
    """What is wrong with the engine or the image; None if the image is there. It is never pulled."""
    subject = "container_image"
    if shutil.which(engine) is None:
        return PreflightCheck(
            "container_engine",
            PreflightResult.WRONG,
            f"there is no {engine} on the PATH",
            f"Install {engine}, or name the other engine",
        )
    try:
        done = _run((engine, "image", "inspect", "--format", "{{.Id}}", image), None, LOOK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _unseen(subject, f"{engine} did not answer: {error}")
    if done.returncode == 0:
        return None
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:300].rstrip(".?")
    if not _engine_works(engine):
        message = f"{engine} does not answer here: {said}"
        return PreflightCheck(
            "container_engine", PreflightResult.WRONG, message, f"Start it, or make `{engine} version` work"
        )
    message = f"{engine} has no image {image} that it can use here: {said}"
    return PreflightCheck(
        subject, PreflightResult.WRONG, message, f"Pull it ({engine} pull {image}), or build it"
    )


def _engine_works(engine: str) -> bool:
    """Whether the engine works at all: the client of docker is often there without its daemon."""
    try:
        return _run((engine, "version"), None, LOOK_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _script(plan: Plan, python: NodePython) -> PreflightCheck | None:
    """What is wrong with the file that the training starts; None if it is there. A name without a folder is looked for on the PATH."""
    script, node = plan.job.script, plan.processes[0]
    if not script or "{" in script:  # a word that only the node fills in
        return None
    by_name = "/" not in script and not script.endswith(".py")
    where = Path(node.working_directory, script)
    if python.contained and (by_name or where == Path(script)):
        return _script_in_container(plan, python)
    if by_name:
        path = node.environment.get("PATH") or os.environ.get("PATH")
        return None if shutil.which(script, path=path) else missing_script(script, "no folder of PATH has it")
    if where.is_file():
        return None
    if where == Path(script):
        return missing_script(script, "there is no such file")
    here = f". The one of this folder is {Path(script).absolute()}" if Path(script).is_file() else ""
    return missing_script(
        script, f"a relative path begins in the folder of the job, which has no such file{here}"
    )


def _script_in_container(plan: Plan, python: NodePython) -> PreflightCheck | None:
    script = plan.job.script
    found = _look("the training's script", python, plan, FIND, script)
    if isinstance(found, PreflightCheck):
        return found
    if found:
        return None
    return missing_script(
        script,
        f"the image {python.image(plan)} has no such file, and no volume of container_mounts brings it",
    )


def _torch(what: str, python: NodePython, plan: Plan) -> PreflightCheck | None:
    found = _look(what, python, plan, LOOK)
    if isinstance(found, PreflightCheck):
        return found
    return None if found else _absent(what, python, plan)


def _look(what: str, python: NodePython, plan: Plan, code: str, *words: str) -> bool | PreflightCheck:
    """Whether a node has what the code looks for; a line where that cannot be seen, or where the engine refuses the container."""
    node = _without_code(plan.processes[0])
    command = NodeCommand(node.node, node.argv, node.environment, node.working_directory)
    argv = (*python.words(plan), "-c", code, *words)
    try:
        done = _run(argv, node_environment(os.environ, command, {}, ""), python.seconds)
    except subprocess.TimeoutExpired:
        if python.contained:
            container.remove(argv[0], _preflight_label())
        return _unseen(what, f"{python.name(plan)} did not answer within {python.seconds:g} s")
    except OSError as error:
        return _unseen(what, f"{python.name(plan)} could not be started: {error.strerror or error}")
    if done.returncode in (0, ABSENT):
        return done.returncode == 0
    said = done.stderr.decode(errors="replace")
    if python.contained and done.returncode in REFUSED:
        message = f"{argv[0]} cannot start a container as the nodes would be: {' '.join(said.split())[:300]}"
        return PreflightCheck(
            "container", PreflightResult.WRONG, message, _start_remedy(declared_gpus(plan.job), argv[0])
        )
    how = f"{python.name(plan)} ended with exit code {done.returncode}: {said.strip().rpartition(chr(10))[2][:300]}"
    if python.contained:  # the container started, so that what is wrong is inside
        return PreflightCheck(
            "python",
            PreflightResult.WRONG,
            how,
            "Correct `python` and container_mounts: it does not start there",
        )
    return _unseen(what, how)


def _start_remedy(gpus: int, engine: str) -> str:
    if not gpus:
        return "Correct container_arguments and container_mounts, or what the engine names"
    toolkit = (
        "nvidia-ctk runtime configure" if engine == ContainerEngine.DOCKER else "nvidia-ctk cdi generate"
    )
    return f"{gpus} GPUs a node are declared: install the NVIDIA Container Toolkit and run {toolkit}, or declare what is there"


def _run(
    argv: tuple[str, ...], environment: Mapping[str, str] | None, seconds: float
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        argv,
        cwd="/",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=False,
    )


def _without_code(node: Request) -> Request:
    """The training's process: what the checks add to the environment does not reach it."""
    return replace(node, environment={key: value for key, value in node.environment.items() if key != CODE})


def _absent(what: str, python: NodePython, plan: Plan) -> PreflightCheck:
    name = python.name(plan)
    # Another interpreter may be too old for Prelaunch itself; the nodes need only PyTorch there.
    install = "pip install 'prelaunch[torch]'" if name == sys.executable else f"{name} -m pip install torch"
    if python.contained:
        install = "take an image that has PyTorch, or name its interpreter with `python`"
    return PreflightCheck(
        what,
        PreflightResult.WRONG,
        f"{name}, which runs the nodes, has no module torch",
        install.capitalize() if python.contained else f"Install it: {install}",
    )


def _unseen(what: str, said: str) -> PreflightCheck:
    return PreflightCheck(what, PreflightResult.UNSEEN, said)
