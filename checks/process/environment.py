"""What the checks add to the environment that the engine gave a node, and what the training gets back: the engine's own.

The training finds the engine's environment, variable for variable, and of Prelaunch's variables only those that
docs/gate-file.md lists: a folder on PYTHONPATH would put Prelaunch's packages before the training's own, and a setting for the
checks, such as one thread a rank, would slow it down.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

# The folder with the package `checks`, which stands first on PYTHONPATH while the checks run.
CODE = "PRELAUNCH_CODE"
# The names of the variables that the engine did not set, and that the checks need; separated by commas.
ADDED = "PRELAUNCH_ADDED"
NODELIST = "PRELAUNCH_NODELIST"
# What the engines call the number of nodes (one task runs on each), the node's place among them, and their names.
ENGINE_NAMES = {
    "count": "SLURM_NNODES SLURM_JOB_NUM_NODES SLURM_STEP_NUM_NODES SLURM_NTASKS SLURM_NPROCS "
    "SLURM_STEP_NUM_TASKS SM_HOST_COUNT PET_NNODES",
    "rank": "SLURM_NODEID SLURM_PROCID SM_CURRENT_HOST_RANK PET_NODE_RANK",
    "list": "SLURM_NODELIST SLURM_JOB_NODELIST SLURM_STEP_NODELIST",
    "json": "SM_HOSTS",
    "first": "SM_MASTER_ADDR",
}
# They serve the checks alone: what a pool's token or a key is, which interpreter runs the checks, and where they work.
WITHHELD = (
    "PRELAUNCH_EXCHANGE_KEY",
    "PRELAUNCH_POOL_TOKEN",
    "PRELAUNCH_PYTHON",
    "PRELAUNCH_SCRATCH",
    "PRELAUNCH_WORKING_FOLDER",
)


def for_checks(engine: Mapping[str, str], code: str, defaults: Mapping[str, str]) -> dict[str, str]:
    """The engine's environment with `code` first on PYTHONPATH and with those of `defaults` that it lacks."""
    path = engine.get("PYTHONPATH")
    if path is None:
        path = code
    elif path.split(os.pathsep)[0] != code:
        path = f"{code}{os.pathsep}{path}"
    lacking = {name: value for name, value in defaults.items() if name not in engine}
    added = {ADDED: ",".join(sorted(lacking))} if lacking else {}
    return {**engine, **lacking, **added, "PYTHONPATH": path, CODE: code}


def for_training(checks: Mapping[str, str]) -> dict[str, str]:
    """The environment of the checks without what `for_checks` added, and without the variables of the checks alone."""
    added = checks.get(ADDED, "").split(",")
    left = {name: value for name, value in checks.items() if name not in (*added, *WITHHELD, ADDED, CODE)}
    code, path = checks.get(CODE, ""), checks.get("PYTHONPATH", "")
    first, separator, rest = path.partition(os.pathsep)
    if code and first == code:
        if separator:
            left["PYTHONPATH"] = rest
        else:
            del left["PYTHONPATH"]
    return left


def of_chosen(engine: Mapping[str, str], names: Sequence[str], own: str) -> dict[str, str]:
    """The engine's variables that say how many nodes the job has, which, and which one this is, for a training on some of them. Those
    that the engine did not set are left out. Sources: srun(1), "OUTPUT ENVIRONMENT VARIABLES"; the drivers of SageMaker's ModelTrainer
    (SM_*); torch.distributed.argparse_util (PET_*).
    """
    whole = ",".join(names)
    values = {"count": str(len(names)), "rank": str(names.index(own)), "list": whole}
    values |= {"json": json.dumps(list(names)), "first": names[0]}
    table = ((name, values[key]) for key, each in ENGINE_NAMES.items() for name in each.split())
    return {name: value for name, value in table if name in engine} | {NODELIST: whole}


def home_folder() -> Path | None:
    """The user's home folder is returned. It is None for a user without one (no HOME and no entry in passwd, as in a container with
    --user 12345).
    """
    try:
        return Path.home()
    except RuntimeError:
        return None
