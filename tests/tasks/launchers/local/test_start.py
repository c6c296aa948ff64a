"""A local job starts once, whole, or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.answer import ANSWER
from checks.exchange import secret_key
from tasks.launchers.base import JobSpec, JobState, LaunchError, LaunchRejected, Plan, Work
from tasks.launchers.local import start_stop
from tasks.launchers.local.job_folder import JobFolder
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.network import lacks_rights
from tasks.launchers.local.plan import LocalOptions
from tests.tasks.launchers.contract import until, until_final

ROOT = Path(__file__).resolve().parents[4]
SECONDS = 60.0
TELL = "import os, sys, time; open(os.path.join(sys.argv[1], os.environ['PRELAUNCH_ATTEMPT']), 'w').close(); "
# What each of two processes runs: both wait for the same moment, then submit the same job.
RACER = """
import sys, time
from pathlib import Path
from tasks.launchers.base import JobSpec
from tasks.launchers.local.launcher import LocalLauncher
root, moment = Path(sys.argv[1]), float(sys.argv[2])
launcher = LocalLauncher(root)
plan = launcher.plan(JobSpec("race-1", ("sleep", "300"), 1, 1, 60.0, {}, {}))
while time.time() < moment: pass
print(launcher.submit(plan).adopted)
"""


def job(code: str = "pass", name: str = "start-1", **environment: str) -> JobSpec:
    """A job of one node."""
    command = ("{python}", "-S", "-c", code, "{out}")
    return JobSpec(name, command, 1, 1, 60.0, {"bundle.json": b"x" * 1000}, environment)


def shepherds(root: Path) -> list[int]:
    """The processes that look after jobs below `root`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "tasks.launchers.local.shepherd" in words and any(word.startswith(str(root)) for word in words):
            found.append(int(path.parent.name))
    return found


def keys(launcher: LocalLauncher, name: str) -> list[Path]:
    """The files of the exchange's key that a job has now."""
    return sorted((launcher.root / "jobs" / name / "nodes").glob(f"*/{secret_key.FILE}"))


@pytest.fixture
def warm() -> None:
    """No fork: here each shepherd is started from nothing."""


def test_two_submits_at_once_start_one_shepherd(tmp_path: Path) -> None:
    """One process starts the job, the other adopts it; a guard and a shepherd are all there is."""
    launcher = LocalLauncher(tmp_path, LocalOptions(grace_s=0.3))
    moment = str(time.time() + 0.7)
    argv = (sys.executable, "-c", RACER, str(tmp_path), moment)
    racers = [subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(racer.communicate(timeout=SECONDS)[0].strip() for racer in racers)
    running = shepherds(tmp_path)
    launcher.cancel("race-1")

    assert (said, len(running), shepherds(tmp_path)) == (["False", "True"], 2, [])


def staged(launcher: LocalLauncher, plan: Plan) -> None:
    """What a submit leaves that died before the start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start_stop, "start", lambda *_, **__: None)
        launcher.submit(plan)


def test_a_submit_that_died_before_the_start_is_completed(launcher: LocalLauncher) -> None:
    """Until then the job is UNKNOWN; the next submit starts it, and a third adopts it. A staged folder that another left is no job."""
    plan = launcher.plan(job())
    (left := launcher.root / "staging" / "start-1" / "nodes").mkdir(parents=True)
    assert launcher.state("start-1").state is JobState.UNKNOWN
    staged(launcher, plan)
    before = launcher.state("start-1").state

    assert (before, left.exists(), launcher.submit(plan).adopted) == (JobState.UNKNOWN, False, True)
    assert until_final(launcher, "start-1", SECONDS).state is JobState.SUCCEEDED
    assert launcher.submit(plan).adopted


def test_a_submit_that_died_after_the_start_is_not_repeated(launcher: LocalLauncher) -> None:
    """The shepherd that it left holds the job's lock from its first moment: a second one gives way."""
    launcher.submit(launcher.plan(job(TELL + "time.sleep(300)")))
    folder, aside = JobFolder(launcher.root / "jobs" / "start-1"), launcher.root / "aside"
    (folder.path / "shepherd.json").rename(aside)
    code = start_stop._spawn(folder, {}).wait(SECONDS)
    aside.rename(folder.path / "shepherd.json")

    assert (code, launcher.state("start-1").state) == (75, JobState.RUNNING)
    assert len(shepherds(launcher.root)) == 2


def test_a_job_that_was_cancelled_before_it_started_never_starts(launcher: LocalLauncher) -> None:
    """A late submit adopts the cancelled job."""
    plan = launcher.plan(job(TELL))
    staged(launcher, plan)
    launcher.cancel("start-1")

    assert (launcher.submit(plan).adopted, launcher.state("start-1").state) == (True, JobState.CANCELLED)
    assert list((launcher.root / "jobs" / "start-1" / "out").iterdir()) == []


def test_local_answer_is_where_the_nodes_look(launcher: LocalLauncher) -> None:
    """For nodes of this attempt that hold in a job until a person decides."""
    staged(launcher, launcher.plan(job()))
    (folder := launcher.root / "jobs" / "start-1" / "out" / ("a" * 32)).mkdir()
    launcher.answer("start-1", folder.name, b"yes")
    assert (folder / ANSWER).read_bytes() == b"yes"


def test_another_launchers_plan_is_rejected(launcher: LocalLauncher, tmp_path: Path) -> None:
    """What is run is what was printed."""
    plan = LocalLauncher(tmp_path / "elsewhere").plan(job())
    with pytest.raises(LaunchRejected, match="Plan it again"):
        launcher.submit(plan)


def test_secrets_reach_the_node_and_no_file(launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the submitter's nor the job's; the node has both."""
    monkeypatch.setenv("SUBMITTERS_API_KEY", "hunter-1")
    code = (
        "import os, sys\n"
        "found = os.environ['SUBMITTERS_API_KEY'], os.environ['JOBS_TOKEN']\n"
        "sys.exit(0 if found == ('hunter' + '-1', 'hunter' + '-2') else 9)"
    )
    launcher.submit(launcher.plan(job(code, JOBS_TOKEN="hunter-2")))
    state = until_final(launcher, "start-1", SECONDS).state
    written = b"".join(path.read_bytes() for path in launcher.root.rglob("*") if path.is_file())

    assert (state, b"hunter-" in written, b"JOBS_TOKEN" in written) == (JobState.SUCCEEDED, False, True)
    assert [] == keys(launcher, "start-1")


def test_a_nodes_environment_is_cleaned(launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other job's ranks, no other gate's names; what the job asks for is there, and `-m checks` works."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "PREFECT_API_URL", "PRELAUNCH_NODE"):
        monkeypatch.setenv(name, "foreign")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("PYTHONPATH", "/from/the/submitter")
    monkeypatch.setenv("PRELAUNCH_STATE", "/of/this/machine")
    code = (
        "import checks, os\n"
        "foreign = [name for name, value in os.environ.items() if value == 'foreign']\n"
        "print(foreign, os.environ['OMP_NUM_THREADS'], os.environ['PRELAUNCH_STATE'], os.environ['PYTHONPATH'])"
    )
    launcher.submit(launcher.plan(replace(job(code, PYTHONPATH="/from/the/job"), work=Work.CHECK)))
    state = until_final(launcher, "start-1", SECONDS).state
    folder = launcher.root / "jobs" / "start-1" / "code"
    path = f"{folder}:/from/the/job:/from/the/submitter"

    assert state is JobState.SUCCEEDED
    assert launcher.logs("start-1", "node-0") == f"[] 3 /of/this/machine {path}\n"
    assert ["checks"] == [path.name for path in folder.iterdir()]


def test_a_root_that_is_a_file_is_a_launch_error(tmp_path: Path) -> None:
    """With the folder and the remedy in the message."""
    (tmp_path / "work").write_text("")
    launcher = LocalLauncher(tmp_path / "work")
    with pytest.raises(LaunchError, match=r"work cannot be written .* Name a folder"):
        launcher.submit(launcher.plan(job()))


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own (root)."""
    (folder := tmp_path / "mount").mkdir()
    if why := lacks_rights():
        pytest.skip(why)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)), check=True)
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


@pytest.mark.root
def test_a_read_only_root_is_a_launch_error(mount: Path) -> None:
    """Nothing was started; to ask for the state is fine."""
    subprocess.run(("mount", "-o", "remount,ro", str(mount)), check=True)
    launcher = LocalLauncher(mount)
    with pytest.raises(LaunchError, match=r"Read-only file system.*Name a folder"):
        launcher.submit(launcher.plan(job()))

    assert (launcher.state("start-1").state, shepherds(mount)) == (JobState.UNKNOWN, [])


@pytest.mark.root
@pytest.mark.parametrize("free_bytes", [0, 16384])
def test_a_full_disk_is_a_launch_error_or_a_failed_job(mount: Path, free_bytes: int) -> None:
    """Wherever it becomes full: no half job runs, and no success is said without a report of it."""
    launcher = LocalLauncher(mount / "work")
    (mount / "work" / "locks").mkdir(parents=True)
    (mount / "work" / "locks" / "start-1").touch()
    fill(mount, free_bytes)
    try:
        launcher.submit(launcher.plan(job("print('x' * 100000)")))
    except LaunchError as error:
        assert "no space is left" in str(error) or "full" in str(error)
        assert (launcher.state("start-1").state, shepherds(mount)) == (JobState.UNKNOWN, [])
    else:
        assert until_final(launcher, "start-1", SECONDS).state is JobState.FAILED
        assert shepherds(mount) == []


@pytest.mark.root
def test_a_job_ends_though_the_disk_became_full(mount: Path) -> None:
    """It can still be cancelled; a state that could not be written is FAILED, never success."""
    launcher = LocalLauncher(mount / "work", LocalOptions(grace_s=0.3))
    launcher.submit(launcher.plan(job(TELL + "time.sleep(300)")))
    until(launcher, "start-1", SECONDS, lambda status: status.state is JobState.RUNNING)
    fill(mount, 0)
    launcher.cancel("start-1")

    assert (launcher.state("start-1").state.final, shepherds(mount)) == (True, [])


def fill(folder: Path, free_bytes: int) -> None:
    """Leave `free_bytes` (whole pages) on the file system of `folder`."""
    room = os.statvfs(folder)
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            file.write(b"x" * (room.f_bavail * room.f_frsize - free_bytes))
            while not free_bytes:
                file.write(b"x" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC


def test_each_job_has_a_key_that_its_nodes_share(launcher: LocalLauncher) -> None:
    """In a file of each node that the owner alone reads, and in nothing else; an adopted job keeps it."""
    waiting = "import time; time.sleep(60)"
    first = launcher.plan(replace(job(waiting), nodes=2))
    launcher.submit(first)
    launcher.submit(launcher.plan(job(waiting, "start-2")))
    mine = keys(launcher, "start-1")
    made = {path.read_bytes() for path in mine}
    assert launcher.submit(first).adopted

    assert (2, 1, {0o600}) == (len(mine), len(made), {path.stat().st_mode & 0o777 for path in mine})
    assert made == {path.read_bytes() for path in keys(launcher, "start-1")}
    (key,) = made
    assert [key] != [path.read_bytes() for path in keys(launcher, "start-2")]
    # A file that is replaced just now is no error of grep's.
    found = subprocess.run(["grep", "-rlF", key.strip(), launcher.root], stdout=subprocess.PIPE, text=True)
    assert {secret_key.FILE} == {Path(line).name for line in found.stdout.splitlines()}
    assert key.decode().strip() not in str(first)
