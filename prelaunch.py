"""The command `prelaunch`, and the flows by the names that deployments use: prelaunch.gate, prelaunch.commission, prelaunch.reap,
prelaunch.remedy.

Many projects have packages called flows, tasks or checks. This module has a name of its own, and it takes Prelaunch's packages
from the folder in which it lies itself, whatever the current folder and PYTHONPATH hold.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

FLOWS = ("gate", "commission", "reap", "remedy")


def _own_packages() -> None:
    path = Path(__file__).resolve().parent / "checks" / "process" / "own_packages.py"
    spec = importlib.util.spec_from_file_location("prelaunch_own_packages", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported. Install Prelaunch again.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.claim(str(path.parents[2]))


_own_packages()


def main() -> int:
    """Run the command line."""
    from flows.cli import main as command_line

    return command_line.main()


def __getattr__(name: str) -> Any:
    """A flow by its name; it is imported when a deployment asks for it."""
    if name not in FLOWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"flows.{name}"), name)


if __name__ == "__main__":
    sys.exit(main())
