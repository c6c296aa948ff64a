"""The tests of this folder on Slurm 24.11 of Debian 13, where this machine has another one. debootstrap fetches it, into build/."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.slurm_cluster import OTHER_ROOT, unavailable

HERE = Path(__file__).resolve()
LIST = "packages"
FILES = HERE.parents[2] / "build" / "debian-13-slurm"
PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurmdbd", "iproute2", "python3", "libssl3t64", "libffi8", "openmpi-bin",
    "libpmix2t64",
)  # fmt: skip

pytestmark = [
    pytest.mark.long,
    pytest.mark.root,
    pytest.mark.needs("debootstrap"),
    pytest.mark.timeout(3000),
    pytest.mark.skipif(OTHER_ROOT in os.environ, reason="this is the other Slurm"),
]


def unpack(folder: Path) -> None:
    """The files of the packages; nothing is configured, and nothing is ever a root folder."""
    words = ("--download-only", "--variant=minbase", f"--include={','.join(PACKAGES)}")
    argv = ("debootstrap", *words, "trixie", str(folder))
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        shutil.rmtree(folder)
        pytest.skip(f"debootstrap cannot fetch Debian 13 here: {done.stdout[-300:]}{done.stderr[-300:]}")
    files = folder.with_name(f"{folder.name}.files")
    for package in sorted((folder / "var/cache/apt/archives").glob("*.deb")):
        subprocess.run(("dpkg-deb", "--extract", package, files), check=True)
    shutil.rmtree(folder)
    for kept in (files / "usr").iterdir():
        if kept.name not in ("bin", "lib", "lib64", "sbin"):
            shutil.rmtree(kept)
    (files / LIST).write_text(",".join(PACKAGES))
    if FILES.exists():
        shutil.rmtree(FILES)
    files.replace(FILES)


def fetched() -> bool:
    """Whether an earlier run has left the files of just these packages."""
    return (FILES / LIST).exists() and (FILES / LIST).read_text() == ",".join(PACKAGES)


def test_the_engine_tests_pass_on_slurm_24_11(tmp_path: Path) -> None:
    """All of them, long ones included, in a process of their own."""
    if why := unavailable():
        pytest.skip(why)
    if not fetched():
        FILES.parent.mkdir(exist_ok=True)
        unpack(FILES.with_name(f"{FILES.name}.{os.getpid()}"))
    log = tmp_path / "log"
    places = (f"--basetemp={tmp_path / 'tests'}", f"--ignore={HERE.parent / 'kubernetes'}")
    words = ("-q", "-rfE", "-o", f"cache_dir={tmp_path / 'cache'}", *places, "-m", "long or not long")
    with open(log, "wb") as file:
        done = subprocess.run(
            (sys.executable, "-m", "pytest", *words, str(HERE.parent)), cwd=HERE.parents[2], check=False, timeout=2400,
            env={**os.environ, OTHER_ROOT: str(FILES)}, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
    said = log.read_text()

    assert done.returncode == 0, said[-6000:]
    assert " passed" in said.splitlines()[-1] and "failed" not in said.splitlines()[-1]
