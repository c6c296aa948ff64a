"""Finds out before a job starts whether its nodes have PyTorch, which the rank checks need, and so does a training under torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from checks.process.environment import CODE
from tasks.launchers.base import Plan, PreflightCheck, PreflightResult, Request
from tasks.launchers.local.job_folder import NodeCommand
from tasks.launchers.local.nodes import node_environment
from tasks.launchers.torch_need import FOR_CHECKS, FOR_TRAINING, has_rank_checks, starts_torchrun

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
    return ()


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
