#!/usr/bin/env python3
"""`make release` writes one version into dist/: wheel, prelaunch.pyz, notes, SBOM (CycloneDX) and their checksums. Runs in .venv.

It refuses, and writes nothing, where a file names another version, CHANGELOG.md does not begin with this one, the tag is not on this
commit, or the checkout has changes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# Where a version of Prelaunch may stand: a requirement, the name of a wheel, the tag of an image, and two assignments.
NAMED = re.compile(
    r"\bprelaunch(?:-worker)?(?:\[[a-z,]+\])?(?:==|:|-)(\d+\.\d[\d.]*)|^release=(\S+)|^ENGINE = \"(.+)\"",
    re.M,
)
NOT_SHIPPED = {"docs", "test", "dev"}


def project(root: Path) -> dict[str, Any]:
    """The table [project] of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return table


def mismatches(root: Path) -> Iterator[str]:
    """A line for each place that names another version than pyproject.toml."""
    version = project(root)["version"]
    files = [root / "README.md", root / "checks/version.py"]
    for folder in ("container", "deployments", "docs"):
        files += sorted(path for path in (root / folder).rglob("*") if path.is_file())
    for path in files:
        for match in NAMED.finditer(path.read_text(errors="ignore")):
            if version not in match.groups():
                yield f"{path.relative_to(root)} names {match[0]!r}, and pyproject.toml {version}"


def notes(root: Path) -> str:
    """The text that CHANGELOG.md has for this version, "" if its newest section is another's."""
    section = (root / "CHANGELOG.md").read_text().split("\n## ")[1]
    title, _, text = section.partition("\n")
    return text.strip() if re.fullmatch(rf"{project(root)['version']} \(\d{{4}}-\d\d-\d\d\)", title) else ""


def obstacles(root: Path) -> Iterator[str]:
    """A line for each reason why this commit cannot be released."""
    tag = f"v{project(root)['version']}"
    yield from mismatches(root)
    if not notes(root):
        yield f"CHANGELOG.md does not begin with `## {tag[1:]} (YYYY-MM-DD)` and a text"
    if tag not in _output(root, "git", "tag", "--points-at", "HEAD").split():
        yield f"the tag {tag} is not on this commit"
    if changes := _output(root, "git", "status", "--porcelain"):
        yield f"the checkout has changes:\n{changes}"


def _output(root: Path, *command: str) -> str:
    """What a command prints; its errors go to stderr. Raises CalledProcessError."""
    return subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout


def _install(root: Path, environment: Path, *wanted: str) -> None:
    """Installs into a virtual environment, which is made where there is none. Raises CalledProcessError."""
    if not environment.exists():
        _output(root, sys.executable, "-m", "venv", "--without-pip", str(environment))
    pip = (sys.executable, "-m", "pip", "--python", str(environment), "install", "--quiet")
    _output(root, *pip, "--constraint", "constraints.txt", *wanted)


def release(root: Path) -> None:
    """Writes the files of dist/. Raises CalledProcessError."""
    python, dist = sys.executable, root / "dist"
    table = project(root)
    version, extras = table["version"], table["optional-dependencies"]
    for folder in (dist, root / "build" / "release", root / "build" / "release-tool"):
        shutil.rmtree(folder, ignore_errors=True)
    _output(root, "make", "wheel")
    _output(root, python, "-m", "prelaunch", "node", "pack", "--out", f"dist/prelaunch-{version}.pyz")
    (dist / f"prelaunch-{version}-notes.md").write_text(notes(root) + "\n")
    (wheel,) = dist.glob("*.whl")

    # The SBOM lists what an installation of this wheel has, and nothing of .venv's tools.
    shipped = ",".join(sorted(set(extras) - NOT_SHIPPED))
    environment, tool = root / "build" / "release", root / "build" / "release-tool"
    _install(root, environment, "torch")
    _install(root, environment, f"{wheel}[{shipped}]")
    _install(root, tool, "--requirement", ".ci/release.txt")
    sbom = "-m cyclonedx_py environment --pyproject pyproject.toml --output-reproducible --output-file"
    _output(
        root, str(tool / "bin/python"), *sbom.split(), f"dist/prelaunch-{version}.cdx.json", str(environment)
    )

    files = sorted(dist.iterdir())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (dist / "SHA256SUMS").write_text("".join(lines))
    print("".join(lines), end="")


if __name__ == "__main__":
    if reasons := list(obstacles(ROOT)):
        print("release: nothing was written:", *reasons, sep="\n  ", file=sys.stderr)
        sys.exit(1)
    release(ROOT)
