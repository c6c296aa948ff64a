"""Finds out before a job starts whether its nodes can run the rank checks, which need PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys

from checks import bundle as bundles
from checks.check import CatalogError
from checks.model import Scope
from checks.value_types import DecodeError
from tasks.launchers.base import Plan, PreflightCheck, PreflightResult, Work
from tasks.launchers.local.job_folder import NodeCommand
from tasks.launchers.local.nodes import node_environment

WHAT = "PyTorch for the rank checks"
# It looks for the package and does not import it, which takes seconds.
LOOK = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('torch') else 9)"
ABSENT = 9
LOOK_S = 20.0


def look(plans: tuple[Plan, ...], python: str) -> tuple[PreflightCheck, ...]:
    """What is wrong or unknown about the interpreter of the nodes; nothing where all is well. It ends after LOOK_S."""
    plan = next((plan for plan in plans if _has_rank_checks(plan)), None)
    if plan is None:
        return ()
    node = plan.processes[0]
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
        return (_unseen(f"{python} did not answer within {LOOK_S:g} s"),)
    except OSError as error:
        return (_unseen(f"{python} could not be started: {error.strerror or error}"),)
    if done.returncode == ABSENT:
        return (_absent(python),)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return (_unseen(f"{python} ended with exit code {done.returncode}: {last[:200]}"),)
    return ()


def _has_rank_checks(plan: Plan) -> bool:
    if plan.job.work not in (Work.CHECK, Work.GATE):
        return False
    try:
        bundle = bundles.load(plan.job.files["bundle.json"])
        _, planned = bundles.plan_of(bundle)
    except (KeyError, DecodeError, CatalogError):
        return False  # the node says what is wrong with it
    return any(
        row.scope is Scope.RANK and row.skip is None and row.check not in bundle.skip for row in planned
    )


def _absent(python: str) -> PreflightCheck:
    # Another interpreter may be too old for Prelaunch itself; the nodes need only PyTorch there.
    install = (
        "pip install 'prelaunch[torch]'" if python == sys.executable else f"{python} -m pip install torch"
    )
    return PreflightCheck(
        WHAT,
        PreflightResult.WRONG,
        f"{python}, which runs the nodes, has no module torch",
        f"Install it: {install}",
    )


def _unseen(said: str) -> PreflightCheck:
    return PreflightCheck(WHAT, PreflightResult.UNSEEN, said)
