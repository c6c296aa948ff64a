"""`make lint` collects the tests, so that one process compiles them, only where one of them is not compiled (.ci/compiled.py)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "compiled.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("compiled", SCRIPT)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_file_is_compiled_until_it_is_edited(tmp_path: Path, script: ModuleType) -> None:
    """By pytest itself, so that a pytest that compiles in another way is noticed."""
    path = tmp_path / "test_one.py"
    path.write_text("def test_one(): assert True\n")
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(path))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = script.compiled(path)
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    after = script.compiled(path)
    path.write_text("def test_one(): assert 1\n")

    assert 0 == done.returncode, done.stdout
    assert (False, True, False) == (before, after, script.compiled(path))
