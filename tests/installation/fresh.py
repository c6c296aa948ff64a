"""The wheel, and a fresh environment in which it is installed: without this tree, and without a network."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.checks.worlds import session_folder

ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
FOLDERS = ("checks", "container", "deployments", "flows", "tasks")
FILES = ("prelaunch.py", "pyproject.toml", "README.md", "LICENSE")


def sources(folder: Path, *more: str) -> Path:
    """A copy of what the wheel is built from, and of more files, in a new folder."""
    folder.mkdir(parents=True)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*FILES, *more):
        shutil.copy(ROOT / name, folder)
    return folder


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the sources, so that nothing that an earlier build left gets into it."""
    words = ("wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(folder))
    _run((*PIP, *words, str(sources(folder / "sources"))), folder)
    (wheel,) = folder.glob("prelaunch-*.whl")
    return wheel


def install_wheel(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel; returns the folder of its programs.

    Its dependencies are those of the environment of the tests. A folder that a .pth file names is searched after the
    environment's own, and the .pth files in it are not read, so that an editable installation there has no effect here.
    """
    _run((sys.executable, "-m", "venv", "--without-pip", str(folder)), folder.parent)
    python = folder / "bin" / "python"
    words = ("install", "--no-deps", "--no-index", "--no-compile", str(wheel))
    _run((*PIP, "--python", str(python), *words), folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python.parent


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment in which the wheel is installed; it serves all workers of a test session."""
    root = session_folder(tmp_path_factory.getbasetemp())
    with open(root / "wheel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        programs = root / "wheel" / "environment" / "bin"
        if not programs.exists():
            (root / "wheel").mkdir()
            install_wheel(build_wheel(root / "wheel"), root / "wheel" / "environment")
    return programs


def _run(argv: tuple[str, ...], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
