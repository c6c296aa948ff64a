"""Finds out before a job starts whether its nodes have PyTorch, which rank checks and torchrun need, and the training's script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from checks.process.environment import CODE
from tasks.launchers.base import Plan, PreflightCheck, PreflightResult, Request
from tasks.launchers.local.job_folder import NodeCommand
from tasks.launchers.local.nodes import node_environment
from tasks.launchers.torch_need import FOR_CHECKS, FOR_TRAINING, has_rank_checks, starts_torchrun
from tasks.launchers.training_script import missing_script

# It looks for the package and does not import it, which takes seconds.
LOOK = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('torch') else 9)"
ABSENT = 9
LOOK_S = 20.0


def look(plans: tuple[Plan, ...], python: str) -> tuple[PreflightCheck, ...]:
    """What is wrong or unknown about the interpreter of the nodes; nothing where all is well. It ends after LOOK_S for each question.

    The training is asked about last, with its own environment, and only if the rank checks have what they need.
    """
    checks = next((plan for plan in plans if has_rank_checks(plan.job)), None)
    if checks is not None and (wrong := _look(FOR_CHECKS, python, checks.processes[0])):
        return (wrong,)
    training = next((plan for plan in plans if starts_torchrun(plan.job)), None)
    if training is not None and (wrong := _look(FOR_TRAINING, python, _without_code(training.processes[0]))):
        return (wrong,)
    trained = next((plan for plan in plans if plan.job.work.trains), None)
    wrong = None if trained is None else _script(trained.job.script, trained.processes[0])
    return () if wrong is None else (wrong,)


def _script(script: str, node: Request) -> PreflightCheck | None:
    """What is wrong with the file that the training starts; None if it is there. A name without a folder is looked for on the PATH."""
    if not script or "{" in script:  # a word that only the node fills in
        return None
    if "/" not in script and not script.endswith(".py"):
        path = node.environment.get("PATH") or os.environ.get("PATH")
        return None if shutil.which(script, path=path) else missing_script(script, "no folder of PATH has it")
    where = Path(node.working_directory, script)
    if where.is_file():
        return None
    relative = "" if where == Path(script) else "; a relative path begins in the folder of the job"
    return missing_script(script, f"there is no file {where}{relative}")


def _look(what: str, python: str, node: Request) -> PreflightCheck | None:
    command = NodeCommand(node.node, node.argv, node.environment, node.working_directory)
    try:
        done = subprocess.run(
            (python, "-c", LOOK),
            cwd="/",
            env=node_environment(os.environ, command, {}, ""),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LOOK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _unseen(what, f"{python} did not answer within {LOOK_S:g} s")
    except OSError as error:
        return _unseen(what, f"{python} could not be started: {error.strerror or error}")
    if done.returncode == ABSENT:
        return _absent(what, python)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return _unseen(what, f"{python} ended with exit code {done.returncode}: {last[:200]}")
    return None


def _without_code(node: Request) -> Request:
    """The training's process: what the checks add to the environment does not reach it."""
    return replace(node, environment={key: value for key, value in node.environment.items() if key != CODE})


def _absent(what: str, python: str) -> PreflightCheck:
    # Another interpreter may be too old for Prelaunch itself; the nodes need only PyTorch there.
    install = (
        "pip install 'prelaunch[torch]'" if python == sys.executable else f"{python} -m pip install torch"
    )
    return PreflightCheck(
        what,
        PreflightResult.WRONG,
        f"{python}, which runs the nodes, has no module torch",
        f"Install it: {install}",
    )


def _unseen(what: str, said: str) -> PreflightCheck:
    return PreflightCheck(what, PreflightResult.UNSEEN, said)
