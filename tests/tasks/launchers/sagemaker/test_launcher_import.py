"""What the launcher costs whoever imports it."""

from __future__ import annotations

import subprocess
import sys

LARGE = ("boto3", "botocore", "sagemaker", "prefect", "torch", "numpy")
SCRIPT = f"""
import sys, tasks.launchers.sagemaker.launcher, tasks.launchers.sagemaker.job_request
print(*(name for name in {LARGE!r} if name in sys.modules))
"""


def test_importing_the_launcher_brings_no_large_package() -> None:
    """boto3 is imported with the first call, botocore's model of the request with the first plan, the SDK never."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""
