"""The world ends with its tests, and a later one gets another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIXTURES = """
import pytest
from tests.world_end import pytest_world_ends_with_its_tests

LOG = []

@pytest.fixture(scope="session")
def world():
    LOG.append("begins")
    yield LOG
    LOG.append("ends")

@pytest.fixture(scope="session")
def world_worker(world):
    LOG.append("worker begins")
    yield
    LOG.append("worker ends")

@pytest.fixture
def log():
    return LOG
"""
OF_THE_WORLD = """# from tests.world import World
def test_one(world, world_worker): pass
def test_two(log): assert log == ["begins", "worker begins"]
"""
OTHERS = """
def test_others(log): assert log == ["begins", "worker begins", "worker ends", "ends"]
"""
AGAIN = """# from tests.world import World
def test_again(world): assert world[4:] == ["begins"]
"""


def test_world_ends_before_tests_of_others_and_begins_again(tmp_path: Path) -> None:
    """With what stands on it, once; a test between them in one of its files ends nothing."""
    files = {
        "conftest": FIXTURES,
        "test_a": OF_THE_WORLD,
        "test_b": OF_THE_WORLD.replace("one", "more"),
        "test_c": OTHERS,
        "test_d": AGAIN,
    }
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path))

    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert 0 == done.returncode and "6 passed" in done.stdout, done.stdout
