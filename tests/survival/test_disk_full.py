"""A disk that fills up while the report is written."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.model import Cause
from tasks.launchers.base import Launcher
from tasks.launchers.local.network import lacks_rights
from tests.survival.histories import fill
from tests.survival.world import World, run
from tests.waiting import until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if why := lacks_rights():
        pytest.skip(why)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)), check=True)
    yield folder
    subprocess.run(("umount", "-l", str(folder)), check=True)


@pytest.mark.root
def test_a_full_disk_is_cannot_tell(small_disk: Path) -> None:
    """The disk is filled after the first word of the report, which stays at what could be written; nothing hangs, nothing passes."""

    def meanwhile(launcher: Launcher, name: str) -> None:
        until(lambda: list(small_disk.glob("work/jobs/*/out/*/nodes/*.json")), every_s=0.005)
        fill(small_disk / "filler")

    ended = run(World(1, 1, few=True), small_disk, meanwhile, fetched=small_disk.parent / "fetched")

    assert (3, []) == (ended.exit_code, ended.fails(Cause.HARDWARE))
