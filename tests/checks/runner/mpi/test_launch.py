"""mpirun over the hosts of one job: each host's own environment, one exit code everywhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from checks.documents.report import dump_plain
from checks.process.free_ports import free_port
from checks.roster import Member, Roster
from checks.runner.mpi.launch import MpiHost, environment, mpirun
from tests.exchanges import access
from tests.programs import executable
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[4]
real = pytest.mark.needs("mpirun")
SAY = """
import json, os
own = {"rank": int(os.environ["OMPI_COMM_WORLD_RANK"]), "node": os.environ["PRELAUNCH_NODE"], "own": os.environ["OWN"]}
size = os.environ["OMPI_COMM_WORLD_SIZE"]
open(os.path.join(os.environ["SAID"], f"{own['rank']}.json"), "w").write(json.dumps({**own, "size": size}))
"""


def roster(nodes: int = 2, domain: str = "") -> Roster:
    """Hosts on addresses of their own, behind loopback."""
    members = (Member(f"node-{index}{domain}", f"127.0.0.{index + 1}", free_port()) for index in range(nodes))
    return Roster(tuple(members), free_port(), "lo")


@contextmanager
def hosts(
    folder: Path, found: Roster, words: Sequence[str], path: Mapping[int, str] | None = None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One checks.runner.mpi.launch a host; none of them outlives the test."""
    (folder / "roster.json").write_bytes(dump_plain(found))
    started = []
    try:
        for index, member in enumerate(found.members):
            given = {
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PRELAUNCH_ROSTER": str(folder / "roster.json"),
                "PRELAUNCH_NODE": member.name,
                "PRELAUNCH_ATTEMPT": "a-token",
                "OWN": f"of {member.name}, 'quoted' and \"all\"\n",
                "SAID": str(folder),
                "PATH": (path or {}).get(index, os.environ["PATH"]),
            }
            reading, writing = os.pipe()
            os.write(writing, bytes(32))
            os.close(writing)
            counts = ("--nodes", str(len(found.members)), "--node-rank", str(index), "--ranks-per-node", "2")
            command = ("--master-addr", "127.0.0.1", "--key-fd", str(reading), "--", *words)
            argv = (sys.executable, "-m", "checks.runner.mpi.launch", *counts, *command)
            with open(folder / f"log-{index}", "wb") as log:
                made = subprocess.Popen(
                    argv, cwd=ROOT, env=given, stdout=log, stderr=log, pass_fds=(reading,)
                )
            os.close(reading)
            started.append(made)
        yield started
    finally:
        for process in started:
            process.terminate()
        for index, process in enumerate(started):
            process.wait(60)
            print(f"--- host {index}: {process.returncode}\n{(folder / f'log-{index}').read_text()}")


def codes(
    folder: Path, found: Roster, words: Sequence[str], path: Mapping[int, str] | None = None
) -> list[int]:
    """How the launch of each host ends."""
    with hosts(folder, found, words, path) as started:
        return [process.wait(60) for process in started]


def without_ssh(folder: Path) -> dict[int, str]:
    """A PATH for two hosts on which there is Open MPI and a shell, and no ssh: mpirun looks for one, even on one host."""
    (bin_folder := folder / "programs").mkdir()
    for name in ("mpirun", "orted", "sh", "cat", "mv", "sleep"):
        (bin_folder / name).symlink_to(shutil.which(name) or name)
    return dict.fromkeys((0, 1), str(bin_folder))


@real
def test_ranks_run_on_every_host_with_its_own_environment(tmp_path: Path) -> None:
    """In the roster's order, with names of which mpirun knows the first part alone; what differs between hosts is not the first one's
    everywhere.
    """
    cluster = roster(domain=".gpu.test")
    assert [0, 0] == codes(tmp_path, cluster, (sys.executable, "-c", SAY), without_ssh(tmp_path))
    said = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("?.json"))]

    assert [member.name for member in cluster.members for _ in range(2)] == [one["node"] for one in said]
    assert {("4", f"of {one['node']}, 'quoted' and \"all\"\n") for one in said} == {
        (one["size"], one["own"]) for one in said
    }


@real
def test_a_stopped_job_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM to all hosts at once, as SageMaker sends it; not the signal before it, which Slurm sends to a training."""
    script = f"touch {tmp_path}/ready-$OMPI_COMM_WORLD_RANK; exec sleep 600"
    with hosts(tmp_path, roster(), ("sh", "-c", script)) as started:
        until(lambda: len(list(tmp_path.glob("ready-*"))) == 4)
        for number in (signal.SIGUSR1, signal.SIGTERM):
            for process in started:
                process.send_signal(number)
        ended = {process.wait(60) for process in started}

    assert not {0, -signal.SIGUSR1} & ended
    assert not subprocess.run(("pgrep", "-f", str(tmp_path)), stdout=subprocess.PIPE).stdout


@real
def test_mpi_launch_on_one_host_needs_no_key(tmp_path: Path) -> None:
    """Nothing listens."""
    assert [0] == codes(tmp_path, roster(1), (sys.executable, "-c", SAY), without_ssh(tmp_path))
    assert 2 == len(list(tmp_path.glob("?.json")))


def pretended(folder: Path) -> str:
    """A PATH on which Open MPI is a fake: nobody is connected, and mpirun ends with 5."""
    for name, script in {"mpirun": "exit 5", "orted": "exit 0"}.items():
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        executable(path, f"#!/bin/sh\n{script}\n")
    return f"{folder / 'bin'}:{os.environ['PATH']}"


def test_hosts_meet_under_the_key_that_they_were_handed(tmp_path: Path) -> None:
    """mpirun's exit code travels between them; nothing but the descriptor brings the key."""
    assert [5, 5] == codes(tmp_path, roster(), ("true",), dict.fromkeys((0, 1), pretended(tmp_path)))


def by_hand(**environment: str) -> tuple[int, str]:
    """How the first of two hosts ends that somebody started, not a gate, and what it says."""
    counts = ("--nodes", "2", "--node-rank", "0", "--ranks-per-node", "1")
    argv = (sys.executable, "-m", "checks.runner.mpi.launch", *counts, "--", "true")
    ended = subprocess.run(argv, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    return ended.returncode, ended.stderr


def test_hosts_without_a_key_do_not_meet(tmp_path: Path) -> None:
    """Nobody handed them one."""
    (tmp_path / "roster.json").write_bytes(dump_plain(roster()))
    code, said = by_hand(PRELAUNCH_ROSTER=str(tmp_path / "roster.json"))

    assert (2, True) == (code, "Start this command through `python -m checks gate`" in said)


def test_an_image_without_the_tools_is_refused_everywhere(tmp_path: Path) -> None:
    """Before anything starts, with what to add."""
    assert [2, 2] == codes(tmp_path, roster(), ("true",), {0: "/nowhere", 1: "/nowhere"})
    assert "this image has no mpirun" in (tmp_path / "log-0").read_text()
    assert "Add Open MPI" in (tmp_path / "log-0").read_text()


@real
def test_a_worker_that_lacks_them_is_named(tmp_path: Path) -> None:
    """The first host's log says whose image it is."""
    assert [2, 2] == codes(tmp_path, roster(), ("true",), {1: "/nowhere"})
    assert "node-1: this image has no orted" in (tmp_path / "log-0").read_text()


def test_without_a_roster_nothing_is_guessed() -> None:
    """Which hosts there are is said by nothing else."""
    code, said = by_hand()

    assert (2, True) == (code, "PRELAUNCH_ROSTER" in said)


def test_the_argv_names_hosts_ranks_and_the_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """What mpirun is called with."""
    monkeypatch.setattr("checks.runner.mpi.launch.shutil.which", lambda name: f"/opt/bin/{name}")
    monkeypatch.setattr("checks.runner.mpi.launch.os.getuid", lambda: 0)
    members = (Member("algo-1", "10.0.0.1", 1), Member("algo-2", "10.0.0.2", 1))
    place = MpiHost(Roster(members, 2, "eth0"), 0, 8, access())

    assert (
        "/opt/bin/mpirun", "--allow-run-as-root",
        "--host", f"{os.uname().nodename}:8,algo-2:8", "-np", "16", "--bind-to", "none",
        "--mca", "plm", "^slurm", "--mca", "ras", "^slurm",
        "--mca", "plm_rsh_agent", "sh /k/agent", "--mca", "plm_rsh_no_tree_spawn", "1",
        "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0",
        "python3", "train.py",
    ) == mpirun(place, ("python3", "train.py"), Path("/k/agent"))  # fmt: skip


def test_the_rendezvous_is_known_to_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the job's environment says another one."""
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setenv("MASTER_PORT", "1234")
    made = environment(MpiHost(roster(), 1, 1, access()))

    assert ("127.0.0.1", "1234") == (made["MASTER_ADDR"], made["MASTER_PORT"])
