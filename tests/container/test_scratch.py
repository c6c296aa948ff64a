"""The private folders of agents: what a killed process left is removed by the next agent, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from container.agent.files import scratch
from tasks.launchers.node_code import code_archive, start_script

OLD = time.time() - 3600
AGENT = "from container.agent.files import scratch; print(scratch.make(), flush=True); input()"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def age(folder: Path) -> Path:
    """As if it had been made an hour ago."""
    os.utime(folder, (OLD, OLD))
    return folder


def test_scratch_cleanup_removes_the_folder_of_a_dead_agent_only(temporary: Path) -> None:
    """While it lives its folder stays, however old it is."""
    child = subprocess.Popen(
        (sys.executable, "-c", AGENT), env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    with child:
        folder = age(Path(child.stdout.readline().strip()))
        scratch.remove_abandoned()
        alive = folder.is_dir()
        child.kill()
        child.communicate()
    scratch.remove_abandoned()

    assert (alive, folder.exists()) == (True, False)


def test_the_unpacked_code_is_held_as_long_as_its_agent_lives(temporary: Path) -> None:
    """start.sh unpacks it, and the process that it becomes holds it."""
    (temporary / "prelaunch.tar.gz").write_bytes(code_archive())
    (temporary / "start.sh").write_bytes(start_script())
    os.mkfifo(temporary / "bundle")  # nobody writes it, so that the agent waits
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"PATH": path, "TMPDIR": str(temporary), "PRELAUNCH_ROOT": str(temporary / "root")}
    words = ("/bin/sh", str(temporary / "start.sh"), "check", "--bundle", str(temporary / "bundle"))
    with subprocess.Popen(words, env=given, start_new_session=True, stderr=subprocess.DEVNULL) as child:
        until = time.monotonic() + 60
        while not list(temporary.glob("prelaunch-agent.*")) and time.monotonic() < until:
            time.sleep(0.02)
        folders = [age(one) for one in temporary.glob("prelaunch-*.*") if one.is_dir()]
        scratch.remove_abandoned()
        alive = [one.is_dir() for one in folders]
        os.killpg(child.pid, signal.SIGKILL)
    scratch.remove_abandoned()

    assert sorted(one.name.partition(".")[0] for one in folders) == ["prelaunch-agent", "prelaunch-code"]
    assert (alive, [one.exists() for one in folders]) == ([True, True], [False, False])


def test_scratch_cleanup_keeps_new_folders_files_and_link_targets(temporary: Path) -> None:
    """What was made a moment ago, another version's folder, a file, and what a link leads to."""
    (temporary / "else").mkdir()
    (temporary / "else" / "mine").touch()
    kept = [temporary / f"prelaunch-agent{end}" for end in (".new", "-old", ".file")]
    kept[0].mkdir()
    kept[1].mkdir()
    kept[2].touch()
    age(kept[1])
    (temporary / "prelaunch-agent.link").symlink_to(temporary / "else")
    os.utime(temporary / "prelaunch-agent.link", (OLD, OLD), follow_symlinks=False)
    os.utime(kept[2], (OLD, OLD))
    scratch.remove_abandoned()

    assert all(one.exists() for one in kept) and (temporary / "else" / "mine").exists()


def test_a_folder_that_ends_with_its_agent_leaves_nothing(temporary: Path) -> None:
    """And is held until then."""
    folder = age(scratch.make())
    scratch.remove_abandoned()
    held = folder.is_dir()
    scratch.remove(folder)

    assert (held, list(temporary.iterdir())) == (True, [])
