"""What the checks need from an image: other programs, and Python modules outside the standard library. Some modules are delivered
with the checks.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Protocol

# Folders of modules that are delivered with the checks: next to where the checks were unpacked, or in our image. A training job
# never has them on its path.
FOLDERS = tuple(dict.fromkeys((Path(__file__).parents[1] / "lib", Path("/opt/prelaunch/lib"))))
# The newest function that a check calls: with an older module values that the driver has could not be read.
NEWEST = {"pynvml": "nvmlDeviceGetRepairStatus"}
# Modules that come with the checks, in our image and in an input channel (tasks/launchers/node_code.py).
BROUGHT = frozenset({"pynvml"})


class Needs(Protocol):
    """What a check declares that it needs (checks.check.Check)."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs on the PATH."""

    @property
    def modules(self) -> tuple[str, ...]:
        """The Python modules that it imports."""


def tools(check: Needs) -> tuple[str, ...]:
    """What the image itself must have for this check, besides Python: programs on its PATH, and modules that are not delivered with
    the checks.
    """
    return tuple(sorted({*check.programs, *check.modules} - BROUGHT))


def needed(checks: Iterable[Needs]) -> tuple[str, ...]:
    """The modules that these checks import, sorted."""
    return tuple(sorted({module for check in checks for module in check.modules}))


def load(name: str) -> ModuleType:
    """The image's own module if it is new enough, else the copy that was delivered with the checks. Raises ImportError."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        delivered = _delivered(name)
        if delivered is None:
            raise
        return delivered
    return (_delivered(name) or module) if name in NEWEST and not hasattr(module, NEWEST[name]) else module


@lru_cache(maxsize=8)
def _delivered(name: str) -> ModuleType | None:
    """The delivered copy, under a name of its own: pynvml modifies the module that has its name, which may be the image's."""
    path = next((folder / f"{name}.py" for folder in FOLDERS if (folder / f"{name}.py").is_file()), None)
    spec = importlib.util.spec_from_file_location(f"prelaunch_{name}", path) if path else None
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
