"""Nodes in network namespaces: they reach each other, nothing else, and nothing of them stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.launchers.base import JobSpec, JobState, LaunchRejected
from tasks.launchers.local import network as local_network
from tasks.launchers.local.job_folder import JobFolder
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.network import NetworkError
from tasks.launchers.local.nodes import hosts_text
from tasks.launchers.local.plan import LocalNetwork, LocalOptions
from tests.tasks.launchers.contract import until, until_final

SECONDS = 60.0
NAMESPACES = LocalNetwork.NAMESPACES
# Each node listens, calls its peer by name, and writes what both said.
PING = """
import json, os, socket, sys, time
roster = json.load(open(os.environ["PRELAUNCH_ROSTER"]))
me = os.environ["PRELAUNCH_NODE"]
mine, = [m for m in roster["members"] if m["name"] == me]
peer, = [m for m in roster["members"] if m["name"] != me]
server = socket.create_server((mine["address"], mine["probe_port"]))
deadline = time.monotonic() + 3
heard = "nothing"
while time.monotonic() < deadline:
    try:
        with socket.create_connection((peer["name"], peer["probe_port"]), timeout=0.5) as call:
            call.sendall(me.encode()); break
    except OSError: time.sleep(0.05)
server.settimeout(1.0)
try:
    heard = server.accept()[0].recv(100).decode()
except TimeoutError: pass
said = {"host": socket.gethostname(), "heard": heard, "address": mine["address"],
        "links": socket.if_nameindex(), "cgroups": os.path.exists("/sys/fs/cgroup")}
path = os.path.join(sys.argv[1], me)
json.dump(said, open(path + ".tmp", "w")); os.replace(path + ".tmp", path)
"""


@pytest.fixture
def root(warm: None, tmp_path: Path) -> Iterator[Path]:
    """A folder for jobs; they are ended afterwards. Skips where no namespaces can be made."""
    if why := local_network.unavailable():
        pytest.skip(why)
    yield tmp_path
    launcher = LocalLauncher(tmp_path, LocalOptions(NAMESPACES))
    for path in (tmp_path / "jobs").glob("*"):
        launcher.cancel(path.name)


def ping(root: Path, name: str = "ping-1", code: str = PING, prepared: str = "") -> LocalLauncher:
    """Submit a job of two nodes in namespaces."""
    launcher = LocalLauncher(root, LocalOptions(NAMESPACES, grace_s=0.3, prepared=prepared))
    job = JobSpec(name, ("{python}", "-S", "-c", code, "{out}"), 2, 1, 60.0, {}, {})
    launcher.submit(launcher.plan(job))
    return launcher


def until_running(launcher: LocalLauncher) -> None:
    until(launcher, "ping-1", SECONDS, lambda status: status.state is JobState.RUNNING)


def said(launcher: LocalLauncher) -> dict[str, dict[str, object]]:
    out = launcher.root / "jobs" / "ping-1" / "out"
    return {path.name: json.loads(path.read_bytes()) for path in sorted(out.iterdir())}


def network_of(launcher: LocalLauncher, name: str = "ping-1") -> dict[str, str]:
    folder = JobFolder(launcher.root / "jobs" / name)
    submission, roster = folder.submission(), json.loads(folder.roster.read_bytes())
    assert submission is not None
    subnet = str(roster["members"][0]["address"]).rpartition(".")[0]
    return {"name": submission.network, "subnet": subnet}


def namespaces(name: str) -> list[str]:
    """The namespaces that are left of a network."""
    folder = Path("/run/netns")
    return [path.name for path in folder.glob(f"{name}-*")] if folder.exists() else []


@pytest.mark.root
def test_two_nodes_talk_over_their_own_network(root: Path) -> None:
    """By name, over TCP; each has its own host name and link, and sees its cgroups; then all is removed."""
    launcher = ping(root)
    state, found = until_final(launcher, "ping-1", SECONDS).state, said(launcher)
    heard = {node: (info["host"], info["heard"]) for node, info in found.items()}

    assert state is JobState.SUCCEEDED, launcher.logs("ping-1", "node-0")
    assert heard == {"node-0": ("node-0", "node-1"), "node-1": ("node-1", "node-0")}
    assert len({info["address"] for info in found.values()}) == 2
    assert all([link[1] for link in info["links"]] == ["lo", "eth0"] for info in found.values())  # type: ignore[attr-defined]
    assert all(info["cgroups"] == os.path.exists("/sys/fs/cgroup") for info in found.values())
    assert namespaces(network_of(launcher)["name"]) == []


@pytest.mark.root
def test_two_jobs_have_two_networks(root: Path) -> None:
    """Different names, different subnets, both recorded; neither ends the other's."""
    first = ping(root, "ping-1", "import time; time.sleep(300)")
    until_running(first)
    second = ping(root, "ping-2")
    state = until_final(second, "ping-2", SECONDS).state
    one, two = network_of(first, "ping-1"), network_of(second, "ping-2")

    assert state is JobState.SUCCEEDED
    assert one["name"] != two["name"] and one["subnet"] != two["subnet"]
    assert (len(namespaces(one["name"])), namespaces(two["name"])) == (3, [])
    first.cancel("ping-1")
    assert namespaces(one["name"]) == []


@pytest.mark.root
@pytest.mark.parametrize(("victims", "asked"), [(("shepherd",), "cancel"), (("guard", "shepherd"), "state")])
def test_a_killed_keepers_network_is_removed(root: Path, victims: tuple[str, ...], asked: str) -> None:
    """With what ran in it, even what cleared its environment and fled into a session of its own."""
    daemon = (
        "import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
        "    os.execve(sys.executable, [sys.executable, '-S', '-c', 'import time; time.sleep(300)'], {})\n"
        "time.sleep(300)"
    )
    launcher = ping(root, code=daemon)
    until_running(launcher)
    name = network_of(launcher)["name"]
    keepers = JobFolder(root / "jobs" / "ping-1").keepers()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for victim in victims:
            os.kill(getattr(keepers, victim)[0], number)
    if asked == "cancel":
        launcher.cancel("ping-1")

    assert until_final(launcher, "ping-1", SECONDS).state in (JobState.FAILED, JobState.CANCELLED)
    assert namespaces(name) == []


@pytest.mark.root
def test_a_prepared_network_is_used_and_kept(root: Path) -> None:
    """It bears the fault that the test made before any node started; the job does not remove it."""
    name = unique()
    try:
        local_network.create(name, 2, "10.90.0")
        words = ("ip", "-n", local_network.switch(name), "link", "set", "v1", "down")
        subprocess.run(words, check=True)
        launcher = ping(root, "ping-1", prepared=name)
        until_final(launcher, "ping-1", SECONDS)
        assert {info["heard"] for info in said(launcher).values()} == {"nothing"}
        assert len(namespaces(name)) == 3
    finally:
        local_network.remove(name)
    assert namespaces(name) == []


@pytest.mark.root
def test_a_prepared_network_that_is_not_there_is_rejected(root: Path) -> None:
    """Before anything starts."""
    with pytest.raises(LaunchRejected, match="the prepared network cannot be used"):
        ping(root, prepared="nobody-made-it")


@pytest.mark.root
def test_a_network_that_cannot_be_built_leaves_nothing(root: Path) -> None:
    """Here an address that is none."""
    with pytest.raises(NetworkError, match="999"):
        local_network.create(name := unique(), 2, "999.1.1")

    assert namespaces(name) == []


def test_without_root_the_job_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy, and nothing written."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LaunchRejected, match=r"need root.*set network = 'loopback'"):
        ping(tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("user", "held", "may"),
    [
        (0, "CapEff:\t000001ffffffffff", True),
        (0, "CapEff:\t000001ffffdfffff", False),
        (0, "CapEff:\t000001ffffffefff", False),
        (0, "CapPrm:\t000001ffffffffff", False),
        (1000, "CapEff:\t000001ffffffffff", False),
    ],
    ids=["root", "no CAP_SYS_ADMIN", "no CAP_NET_ADMIN", "not said", "a person"],
)
def test_rights_are_those_of_root_with_both_capabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, held: str, may: bool
) -> None:
    """As the kernel writes them; whether tests with the mark `root` run hangs on this."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    (tmp_path / "status").write_text(f"Name:\tpython3\n{held}\nCapBnd:\t000001ffffffffff\n")

    assert may is (local_network.lacks_rights(tmp_path / "status") == "")


@pytest.mark.root
@pytest.mark.parametrize("capability", ["sys_admin", "net_admin"])
def test_root_of_a_container_can_make_no_namespaces(capability: str) -> None:
    """Its user is root, and it lacks what `ip netns` needs."""
    ask = "from tasks.launchers.local.network import unavailable; print(unavailable())"
    words = ("setpriv", f"--bounding-set=-{capability}", "--", sys.executable, "-c", ask)
    done = subprocess.run(words, capture_output=True, text=True, check=True)

    assert "need root with CAP_SYS_ADMIN and CAP_NET_ADMIN" in done.stdout


def unique() -> str:
    return f"lab-{uuid.uuid4().hex[:6]}"


@pytest.mark.skipif(bool(local_network.unavailable()), reason=local_network.unavailable())
def test_torch_gets_an_answer_for_each_address_that_connects(tmp_path: Path) -> None:
    """It asks for ::ffff:ADDRESS, and warns of each that no name server answers. A node's own name leads to IPv4 alone."""
    (tmp_path / "hosts").write_text(hosts_text(("10.78.0.10", "10.78.0.11"), ("node-0", "node-1")))
    ask = "import socket; print(socket.getnameinfo(('::ffff:10.78.0.11', 80, 0, 0), 0)[0], "
    ask += "{x[4][0] for x in socket.getaddrinfo('node-1', None)})"
    inside = 'mount --bind "$1" /etc/hosts && exec "$2" -c "$3"'
    words = ("sh", "-c", inside, "sh", str(tmp_path / "hosts"), sys.executable, ask)
    done = subprocess.run(("unshare", "-m", "-n", *words), capture_output=True, text=True, check=False)

    assert done.stdout == "node-1.mapped {'10.78.0.11'}\n", done.stderr
