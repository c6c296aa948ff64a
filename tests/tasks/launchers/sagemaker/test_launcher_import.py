"""What the launcher costs whoever imports it."""

from __future__ import annotations

import subprocess
import sys

ASK = """
import sys, time
begun = time.perf_counter()
import tasks.launchers.sagemaker.launcher
spent = time.perf_counter() - begun
print(spent, *(name for name in ("boto3", "sagemaker", "prefect", "torch", "numpy") if name in sys.modules))
"""
MOST_S = 0.4


def test_importing_the_launcher_costs_no_more_than_boto3_would() -> None:
    """Less, in fact: boto3 is imported with the first call, the SDK never."""
    runs = [
        subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    words = [run.stdout.split() for run in runs]

    assert (min(float(row[0]) for row in words) <= MOST_S, [row[1:] for row in words]) == (True, [[], []])
