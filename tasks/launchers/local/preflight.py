"""Finds out before a job starts whether its nodes have PyTorch, which rank checks and torchrun need, and the training's script; for
containers, whether the engine has the image and can start one as the nodes would be.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
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
    asked = _asker(options, submitter)
    images = dict.fromkeys(options.settings_for(plan.job).image for plan in plans if options.container_image)
    for image in images:
        if wrong := _image(str(options.container_engine), image):
            return (wrong,)
    checks = next((plan for plan in plans if has_rank_checks(plan.job)), None)
    if checks is not None and (wrong := _torch(FOR_CHECKS, asked, checks)):
        return (wrong,)
    training = next((plan for plan in plans if starts_torchrun(plan.job)), None)
    if training is not None and (wrong := _torch(FOR_TRAINING, asked, training)):
        return (wrong,)
    trained = next((plan for plan in plans if plan.job.work.trains), None)
    wrong = None if trained is None else _script(trained, asked)
    return () if wrong is None else (wrong,)


@dataclass(frozen=True)
class _Asked:
    """How a question in Python is put to a node: the words before `-c`, what answers, and how long that may take."""

    words: Callable[[Plan], tuple[str, ...]]
    who: Callable[[Plan], str]
    contained: bool
    seconds: float


def _asker(options: LocalOptions, submitter: Submitter) -> _Asked:
    python = options.interpreter
    if not options.container_image:
        return _Asked(lambda _: (python,), lambda _: python, False, LOOK_S)

    def words(plan: Plan) -> tuple[str, ...]:
        settings = options.settings_for(plan.job)
        first = container.started(settings, submitter, declared_gpus(plan.job))
        label = ("--label", container.label_of(_looking()), "--network", "none")
        return (*first, *label, *container.own_words(settings), settings.image, python)

    return _Asked(
        words, lambda plan: f"{python} of the image {options.settings_for(plan.job).image}", True, CONTAINER_S
    )


def _looking() -> str:
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
    if not _answers(engine):
        message = f"{engine} does not answer here: {said}"
        return PreflightCheck(
            "container_engine", PreflightResult.WRONG, message, f"Start it, or make `{engine} version` work"
        )
    message = f"{engine} has no image {image} that it can use here: {said}"
    return PreflightCheck(
        subject, PreflightResult.WRONG, message, f"Pull it ({engine} pull {image}), or build it"
    )


def _answers(engine: str) -> bool:
    """Whether the engine works at all: the client of docker is often there without its daemon."""
    try:
        return _run((engine, "version"), None, LOOK_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _script(plan: Plan, asked: _Asked) -> PreflightCheck | None:
    """What is wrong with the file that the training starts; None if it is there. A name without a folder is looked for on the PATH."""
    script, node = plan.job.script, plan.processes[0]
    if not script or "{" in script:  # a word that only the node fills in
        return None
    by_name = "/" not in script and not script.endswith(".py")
    where = Path(node.working_directory, script)
    if asked.contained and (by_name or where == Path(script)):
        return _script_in_container(plan, asked)
    if by_name:
        path = node.environment.get("PATH") or os.environ.get("PATH")
        return None if shutil.which(script, path=path) else missing_script(script, "no folder of PATH has it")
    if where.is_file():
        return None
    relative = "" if where == Path(script) else "; a relative path begins in the folder of the job"
    return missing_script(script, f"there is no file {where}{relative}")


def _script_in_container(plan: Plan, asked: _Asked) -> PreflightCheck | None:
    script = plan.job.script
    found = _look("the training's script", asked, plan, FIND, script)
    if isinstance(found, PreflightCheck):
        return found
    if found:
        return None
    image = asked.who(plan).rpartition(" ")[2]
    return missing_script(
        script, f"the image {image} has no such file, and no volume of container_mounts brings it"
    )


def _torch(what: str, asked: _Asked, plan: Plan) -> PreflightCheck | None:
    found = _look(what, asked, plan, LOOK)
    if isinstance(found, PreflightCheck):
        return found
    return None if found else _absent(what, asked, plan)


def _look(what: str, asked: _Asked, plan: Plan, code: str, *words: str) -> bool | PreflightCheck:
    """Whether a node has what the code looks for; a line where that cannot be seen, or where the engine refuses the container."""
    node = _without_code(plan.processes[0])
    command = NodeCommand(node.node, node.argv, node.environment, node.working_directory)
    argv = (*asked.words(plan), "-c", code, *words)
    try:
        done = _run(argv, node_environment(os.environ, command, {}, ""), asked.seconds)
    except subprocess.TimeoutExpired:
        if asked.contained:
            container.remove(argv[0], _looking())
        return _unseen(what, f"{asked.who(plan)} did not answer within {asked.seconds:g} s")
    except OSError as error:
        return _unseen(what, f"{asked.who(plan)} could not be started: {error.strerror or error}")
    if done.returncode in (0, ABSENT):
        return done.returncode == 0
    said = done.stderr.decode(errors="replace")
    if asked.contained and done.returncode in REFUSED:
        message = f"{argv[0]} cannot start a container as the nodes would be: {' '.join(said.split())[:300]}"
        return PreflightCheck(
            "container", PreflightResult.WRONG, message, _start_remedy(declared_gpus(plan.job), argv[0])
        )
    how = f"{asked.who(plan)} ended with exit code {done.returncode}: {said.strip().rpartition(chr(10))[2][:300]}"
    if asked.contained:  # the container started, so that what is wrong is inside
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


def _absent(what: str, asked: _Asked, plan: Plan) -> PreflightCheck:
    python = asked.who(plan)
    # Another interpreter may be too old for Prelaunch itself; the nodes need only PyTorch there.
    install = (
        "pip install 'prelaunch[torch]'" if python == sys.executable else f"{python} -m pip install torch"
    )
    if asked.contained:
        install = "take an image that has PyTorch, or name its interpreter with `python`"
    return PreflightCheck(
        what,
        PreflightResult.WRONG,
        f"{python}, which runs the nodes, has no module torch",
        install.capitalize() if asked.contained else f"Install it: {install}",
    )


def _unseen(what: str, said: str) -> PreflightCheck:
    return PreflightCheck(what, PreflightResult.UNSEEN, said)
