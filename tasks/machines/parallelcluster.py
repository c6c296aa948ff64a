"""Whether a Slurm cluster is one of AWS ParallelCluster, whose daemon clustermgtd replaces nodes by itself, and by which version.

Sources: aws/aws-parallelcluster, issues 7465 and 7470; its cookbook writes "aws-parallelcluster-cookbook-VERSION" to a file.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER, NONE, UNKNOWN = Path("opt/parallelcluster"), "none", "unknown"
# The versions that replace the nodes of a MAINT reservation over and over.
LOOPING = ((3, 8, 0), (3, 15, 1))


def version_of(option: str, root: Path) -> str:
    """The version of AWS ParallelCluster; "unknown" if only its folder is there, "" where there is none."""
    if option:
        return "" if option == NONE else option
    folder = root / FOLDER
    if not folder.is_dir():
        return ""
    try:
        match = re.search(r"\d+\.\d+\.\d+", (folder / ".bootstrapped").read_text())
    except OSError:
        return UNKNOWN
    return match[0] if match else UNKNOWN


def loops(version: str) -> bool:
    """Whether that version may be one that replaces the nodes of a reservation over and over."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version))
    return bool(version) and (not numbers or LOOPING[0] <= numbers <= LOOPING[1])
