"""Every command in the README runs as it is written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line.strip()]
# `make test` runs this test; `make gate` is the third command after an install, and long of itself.
MAKE = ("make gate", "make test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout as a user has it: this one's files, in a folder of its own."""
    made = tmp_path_factory.mktemp("readme")
    for name in ("deployments", "checks", "tasks", "flows", "tests"):
        (made / name).symlink_to(ROOT / name)
    (made / ".venv").symlink_to(sys.prefix)
    return made


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in that folder, split at spaces."""
    return subprocess.run(
        command.split(), cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )


def test_the_readme_holds_the_two_commands() -> None:
    """They come first."""
    assert list(MAKE) == COMMANDS[:2]


@pytest.mark.timeout(300)  # a whole gate beside two other workers
@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in MAKE])
def test_a_command_of_the_readme(command: str, folder: Path) -> None:
    """It exits with 0, or as the comment behind it says, and prints something."""
    if not Path(sys.executable).with_name("prelaunch").exists():
        pytest.skip("the distribution is not installed: make setup")
    command, _, told = command.partition("  # exits ")
    done = run(command, folder)

    assert (int(told or 0), True) == (done.returncode, bool(done.stdout.strip() or "--html" in command)), (
        done.stderr
    )
    if " gate " in command and "--format json" in command:
        assert "launched" == json.loads(done.stdout)["decision"]


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_make_gate(tmp_path: Path) -> None:
    """In a fresh clone it installs, checks, and trains."""
    clone = tmp_path / "clone"
    subprocess.run(("git", "clone", "-q", str(ROOT), str(clone)), check=True)
    done = subprocess.run(
        ("make", "gate"), cwd=clone, capture_output=True, text=True, timeout=900, check=False
    )
    shutil.rmtree(clone)

    assert (0, True) == (done.returncode, done.stdout.startswith("GO ")), done.stderr
