"""The Python modules that checks need are told by the catalogue, and a build that lacks one fails."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from checks import catalog, image_requirements
from checks.check import MODULES, PROGRAMS, Check
from checks.probes.gpu import inventory as found
from checks.probes.gpu import state, under_load

CHECKS = Path(image_requirements.__file__).parent
LOADERS = ("import_module", "image_requirements.load")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The file's code."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imported(path: Path) -> set[str]:
    """What the file imports at any depth, neither ours nor of the standard library."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(LOADERS):
            found |= {
                arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            }
    tops = {name.partition(".")[0] for name in found}
    return {name for name in tops if name not in sys.stdlib_module_names and name != "checks"}


def test_every_module_that_the_checks_import_is_one_that_the_catalogue_can_name() -> None:
    """A new one has to get its word, or no build would look for it."""
    assert set(MODULES.values()) == set().union(*map(imported, CHECKS.rglob("*.py")))


def test_a_check_whose_file_imports_a_module_says_that_it_needs_it() -> None:
    """`needs` is what the build goes by."""
    wrong = {
        check.name: (module, check.needs)
        for check in catalog.CATALOG
        for module in imported(Path(inspect.getfile(check.body)))
        if module not in check.modules
    }

    assert {} == wrong


# Of every Linux, or of the driver, which the container gets from its host.
OF_THE_SYSTEM = {"grep", "journalctl", "nvidia-smi", "timeout"}
RUNNERS = ("tool.find", "tool.run", "find", "run")


def started(path: Path) -> set[str]:
    """The programs that the file starts or looks for by a name that stands in it."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in RUNNERS:
            first = node.args[0].elts[0] if isinstance(node.args[0], ast.Tuple) else node.args[0]
            if isinstance(first, ast.Constant) and re.fullmatch("[a-z][a-z0-9_-]+", str(first.value)):
                found.add(str(first.value))
    return found


@cache
def named(path: Path) -> set[str]:
    """The programs of the catalogue that the file has as whole words of its code."""
    declared = {
        id(keyword.value)
        for node in nodes(path)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "needs"
    }
    words = {
        str(node.value) for node in nodes(path) if isinstance(node, ast.Constant) and id(node) not in declared
    }
    return words & set(PROGRAMS.values())


def of_family(check: Check) -> set[str]:
    """The programs that the check's own file names or lists in PROGRAMS, and the files of its package that it imports."""
    path = Path(inspect.getfile(check.body))
    text = path.read_text(encoding="utf-8")
    beside = [one for one in path.parent.glob("*.py") if f"{one.stem}" in text and path.parent != CHECKS]
    listed = set(getattr(inspect.getmodule(check.body), "PROGRAMS", ())) & set(PROGRAMS.values())
    return listed.union(*map(named, {path, *beside}))


def test_every_program_that_the_checks_run_is_one_that_the_catalogue_can_name() -> None:
    """A new one has to get its word, or nobody would be told that an image lacks it."""
    found = set().union(*map(started, CHECKS.rglob("*.py")))

    assert {"dcgmi", "fi_info", "neuron-ls"} <= found
    assert set() == found - set(PROGRAMS.values()) - OF_THE_SYSTEM


def test_a_check_names_the_programs_that_it_runs() -> None:
    """`needs` is what people are told about an image of their own; dcgmi asks the host engine for everything."""
    wrong = {
        check.name: (check.programs, of_family(check))
        for check in catalog.CATALOG
        if set(check.programs) - {"nv-hostengine"} - of_family(check)
        or ("dcgmi" in check.programs) != ("nv-hostengine" in check.programs)
        or named(Path(inspect.getfile(check.body))) - set(check.programs)
    }

    assert {} == wrong
    assert set(PROGRAMS.values()) == {name for check in catalog.CATALOG for name in check.programs}


def test_image_requirements_leave_out_modules_that_are_delivered() -> None:
    """nvidia-ml-py is in the input channel; PyTorch is not."""
    by_name = {check.name: image_requirements.tools(check) for check in catalog.CATALOG}

    assert ("dcgmi", "nv-hostengine") == by_name["dcgm.diag"]
    assert (("torch",), ()) == (by_name["gpu.clocks"], by_name["gpu.ecc"])
    assert (("all_reduce_perf",), ("torch",)) == (by_name["nccl.tests"], by_name["nccl.all_reduce"])


def test_the_catalogue_names_the_modules() -> None:
    """By the first word of an entry: what stands behind it is for people."""
    assert ("pynvml", "torch") == image_requirements.needed(catalog.CATALOG)
    assert (("pynvml",), ("pynvml",)) == (state.fabric.modules, found.inventory.modules)
    assert {"pynvml", "torch"} == set(under_load.clocks.modules)


def modules(**environment: str) -> subprocess.CompletedProcess[str]:
    """`python3 -m checks modules`, as the Dockerfile runs it, with a Python that has no site-packages."""
    words = (sys.executable, "-S", "-m", "checks", "modules")
    return subprocess.run(words, cwd=CHECKS.parent, env=environment, capture_output=True, text=True)


def test_a_module_that_is_missing_fails_the_build_and_is_named() -> None:
    """Each of them."""
    done = modules()

    assert 2 == done.returncode
    assert "pynvml: ModuleNotFoundError" in done.stderr and "torch: ModuleNotFoundError" in done.stderr


def test_a_module_that_breaks_while_it_is_imported_fails_the_build(tmp_path: Path) -> None:
    """As torch does whose libraries do not fit."""
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.13: cannot open shared object file')\n")
    (tmp_path / "pynvml.py").write_text("nvmlDeviceGetRepairStatus = None\n")
    done = modules(PYTHONPATH=str(tmp_path))

    assert (2, True) == (done.returncode, "libcudart.so.13" in done.stderr)
    assert str(tmp_path / "pynvml.py") in done.stdout


def test_the_images_own_module_is_used_where_it_is_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours is for images without one, or with one of years ago."""
    own = ModuleType("pynvml")
    own.nvmlDeviceGetRepairStatus = lambda handle: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", own)

    assert own is image_requirements.load("pynvml")
