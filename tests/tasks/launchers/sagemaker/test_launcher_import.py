"""What the launcher costs whoever imports it."""

from __future__ import annotations

import subprocess
import sys

ASK = """
import importlib, sys, time
begun = time.process_time()
importlib.import_module(sys.argv[1])
spent = time.process_time() - begun
print(spent, *(name for name in ("boto3", "sagemaker", "prefect", "torch", "numpy") if name in sys.modules))
"""


def imported(name: str) -> tuple[float, list[str]]:
    """The CPU seconds of importing a module in a fresh process, the fewer of two, and which large packages came with it."""
    runs = [
        subprocess.run([sys.executable, "-c", ASK, name], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    words = [run.stdout.split() for run in runs]
    return min(float(row[0]) for row in words), words[0][1:]


def test_importing_the_launcher_costs_no_more_than_boto3_would() -> None:
    """Less, in fact: boto3 is imported with the first call, the SDK never."""
    seconds, came = imported("tasks.launchers.sagemaker.launcher")

    assert came == []
    assert seconds <= imported("boto3.session")[0]
