"""A folder like that of many projects: it has packages of its own that are called as Prelaunch's are."""

from __future__ import annotations

import os
from pathlib import Path

NAMES = ("flows", "tasks", "checks", "tests", "container", "deployments")
TRAP = """
import os
with open({marker!r}, "a") as file:
    file.write(__name__ + "\\n")
raise RuntimeError(f"{{__name__}} of somebody's project was imported")
"""
# A module numpy that is missing, as torch understands it.
NO_NUMPY = 'raise ModuleNotFoundError("numpy cannot be imported here", name="numpy")\n'


def hostile_folder(folder: Path) -> Path:
    """The folder, made: whichever of its packages is imported says so in a file beside it, and fails."""
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(TRAP.format(marker=str(marker(folder))))
    return folder


def imported(folder: Path) -> list[str]:
    """The packages of the folder that were imported."""
    found = marker(folder)
    return found.read_text().split() if found.exists() else []


def marker(folder: Path) -> Path:
    """The file that a package writes to when it is imported."""
    return folder.with_name(f"{folder.name}.imported")


def environment(python_path: str | None, **more: str) -> dict[str, str]:
    """A person's environment with this PYTHONPATH, or with none."""
    foreign = ("PREFECT_", "PRELAUNCH_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    kept["PRELAUNCH_STATE"] = os.environ["PRELAUNCH_STATE"]
    return {**kept, **({} if python_path is None else {"PYTHONPATH": python_path}), **more}
