"""However it ends, the stand-in takes everything with it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.sagemaker.bench import stand_in
from tests.fakes.sagemaker.images import ROOT

SCRIPT = """
import sys, time
from pathlib import Path
from tests.fakes.sagemaker.bench import stand_in
with stand_in(Path(sys.argv[1]), {"ml.m5.large": 2}) as cloud:
    cloud.create("job", "sh", "-c", f"sleep {sys.argv[2]} & sleep {sys.argv[2]}", instances=2)
    cloud.reach("job", "Training")
    cloud.until(lambda: {"n": len(cloud.running())}, lambda seen: seen["n"] == 2, 10)
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("victim", ["test", "server"])
def test_a_kill_ends_everything(tmp_path: Path, victim: str) -> None:
    """SIGKILL to the test's process, or to the server's."""
    seconds = _seconds()
    argv = (sys.executable, "-c", SCRIPT, str(tmp_path), seconds)
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"up\n" == process.stdout.readline()
        os.kill(process.pid if victim == "test" else _server(tmp_path), signal.SIGKILL)
        if victim == "server":
            process.kill()

    _assert_gone(tmp_path, seconds)


@pytest.mark.root
@pytest.mark.needs("ip")
def test_hosts_may_have_networks_of_their_own(tmp_path: Path) -> None:
    """One address each on eth0, AWS within reach; nothing of it is on this machine, and nothing is left."""
    code = (
        "import boto3, socket; print(socket.gethostbyname(socket.gethostname()), [n for _, n in socket.if_nameindex()]);"
        "boto3.client('s3').list_objects_v2(Bucket='prelaunch-test'); print('reached')"
    )
    before = os.listdir("/sys/class/net")
    with stand_in(tmp_path, {"ml.m5.large": 2}, network="namespaces") as cloud:
        cloud.create("job", "python3", "-c", code, instances=2)
        cloud.wait("job")
        addresses = [host["address"] for host in cloud.hosts("job")]
        said = [line for lines in cloud.log("job").values() for line in lines]
        beside = os.listdir("/sys/class/net")

    assert [f"{address} ['lo', 'eth0']" for address in addresses] == sorted(said)[:2]
    assert (2, ["reached"] * 2, before) == (len(set(addresses)), sorted(said)[2:], beside)
    _assert_gone(tmp_path)


def _server(folder: Path) -> int:
    return int((folder / "sagemaker" / "pid").read_text())


def _seconds() -> str:
    """How long a container's `sleep` is: no other test has the same, so it is known by that, whatever ran it."""
    return str(1000 + random.SystemRandom().randrange(10**9))


def _assert_gone(folder: Path, mark: str = "") -> None:
    deadline = time.monotonic() + 60
    server = _server(folder)
    while left := [
        c for pid, c in _commands().items() if pid == server or str(folder) in c or (mark and mark in c)
    ]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert str(folder) not in Path("/proc/mounts").read_text()


def _commands() -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                command = (entry / "cmdline").read_bytes().decode().replace("\0", " ").strip()
                if (
                    command
                ):  # one without has ended, and process 1 of a container may never ask for its status
                    found[int(entry.name)] = command
        except OSError:
            continue  # it ended meanwhile
    return found
