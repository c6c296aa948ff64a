"""`make release`: what it refuses. The whole command needs a tag and a network, and is run by hand."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "release.py"
SPEC = importlib.util.spec_from_file_location("release", SCRIPT)
assert SPEC and SPEC.loader
release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release)
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@localhost")


def test_every_file_names_this_version() -> None:
    """Images, pipelines, pages and the engine name the version of pyproject.toml."""
    assert [] == list(release.mismatches(ROOT))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A commit with the version's tag, and the files that name versions."""
    for name in (
        "README.md",
        "CHANGELOG.md",
        "pyproject.toml",
        "checks/version.py",
        "deployments/ci/install.sh",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    tag = f"v{release.project(ROOT)['version']}"
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one"), ("tag", tag)):
        subprocess.run((*GIT, *words), cwd=tmp_path, check=True)
    return tmp_path


def test_a_tagged_commit_can_be_released(checkout: Path) -> None:
    """Its notes are the newest section of the CHANGELOG."""
    assert [] == list(release.obstacles(checkout))
    assert release.notes(checkout).splitlines()[0] in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    ("name", "former", "changed", "reason"),
    [
        ("checks/version.py", 'ENGINE = "', 'ENGINE = "9', "checks/version.py names"),
        ("deployments/ci/install.sh", "\nrelease=", "\nrelease=9", "deployments/ci/install.sh names"),
        ("README.md", "# Prelaunch\n", "# Prelaunch\n`prelaunch[torch]==9.9.9`\n", "README.md names"),
        ("pyproject.toml", '\nversion = "', '\nversion = "9', "is not on this commit"),
        ("CHANGELOG.md", "\n## ", "\n## Unreleased\n\n## ", "CHANGELOG.md does not begin"),
        ("CHANGELOG.md", "", "a line\n", "the checkout has changes"),
    ],
)
def test_a_contradiction_is_refused(
    checkout: Path, name: str, former: str, changed: str, reason: str
) -> None:
    """Each place that names another version, a missing text, tag or commit has its line."""
    (checkout / name).write_text((checkout / name).read_text().replace(former, changed, 1))

    assert any(reason in line for line in release.obstacles(checkout))
