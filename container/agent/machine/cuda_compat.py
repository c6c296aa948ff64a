"""Puts CUDA's compatibility libraries first if the host's driver is older, with the script that images of AWS carry.

AWS's own entrypoints run it (aws/deep-learning-containers, pytorch/training/docker/build_artifacts/start_cuda_compat.sh). Ours
replaces them, in our image and in any other image into which the code channel brings it, so it has to do the same.
"""

from __future__ import annotations

import os
from pathlib import Path

from checks.process import tool

SCRIPT = Path("/usr/local/bin/start_cuda_compat.sh")
VARIABLE = "LD_LIBRARY_PATH"
DEADLINE_S = 30.0  # it asks nvidia-smi, which hangs on some broken drivers
# The script exports the variable, so it has to be sourced, and by bash: it stands on bash's echo. What it prints is no answer.
SOURCED = f'. "$1" >&2; printf %s "${{{VARIABLE}-}}"'


def prepare(script: Path | None = None, deadline_s: float = DEADLINE_S) -> str:
    """Set LD_LIBRARY_PATH of this process, and so of all that it starts, as the image's script says.

    Returns what was done, or why nothing was; "" for an image without the script. Raises nothing: whether CUDA works is
    for the checks to see.
    """
    script = script or SCRIPT
    if not script.is_file():
        return ""
    try:
        done = tool.run(("bash", "-c", SOURCED, "bash", str(script)), deadline_s)
    except (tool.ToolMissing, tool.ToolError) as error:
        return f"{script} could not be sourced: {error}"
    if done.code is None:
        return f"{script} did not end within {deadline_s:g} s; {VARIABLE} stays as it was"
    if done.code:
        return f"{script} ended with exit code {done.code}; {VARIABLE} stays as it was"
    if done.stdout in ("", os.environ.get(VARIABLE)):
        return f"{script} changed nothing"
    os.environ[VARIABLE] = done.stdout
    return f"{script} set {VARIABLE} to {done.stdout}"
