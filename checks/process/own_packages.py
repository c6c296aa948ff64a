"""Takes Prelaunch's packages from one folder, whatever the current folder and PYTHONPATH hold. It stands on nothing of ours.

Many projects have packages called checks, flows or tasks, and `python -m` searches the current folder first. So our own child
processes are started by the path of this file: python OWN_PACKAGES MODULE ARGUMENTS runs the module as `python -m` does. This
also works with Python 3.10, which has no option -P.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

PACKAGES = ("checks", "container", "flows", "tasks")
# The path of this file as it was imported: on a node the folder of `checks` is a link in a folder that holds nothing else.
SCRIPT = os.path.abspath(__file__)


def module(name: str, *arguments: str) -> tuple[str, ...]:
    """The words behind the interpreter that run a module of ours, or of PyTorch."""
    return (SCRIPT, name, *arguments)


def claim(folder: str) -> None:
    """Import those of our packages that lie in `folder`; all their modules come from there as well."""
    for name in PACKAGES:
        if _is_there(name, folder):
            continue
        spec = PathFinder.find_spec(name, [folder])
        if spec is None or spec.loader is None or spec.origin is None:
            continue
        for other in [key for key in sys.modules if key.partition(".")[0] == name]:
            del sys.modules[other]
        package = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(package)


def _is_there(name: str, folder: str) -> bool:
    paths = getattr(sys.modules.get(name), "__path__", ())
    return [*map(os.path.realpath, paths)] == [os.path.realpath(os.path.join(folder, name))]


def main() -> None:
    """Run the module that argv names."""
    here = os.path.dirname(SCRIPT)
    # Python puts a script's folder first. It holds modules with common names, such as environment and tree.
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(here):
        del sys.path[0]
    if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
        sys.path.append(os.getcwd())  # for a site's own checks; last, so that it hides nothing
    claim(os.path.dirname(os.path.dirname(here)))
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
