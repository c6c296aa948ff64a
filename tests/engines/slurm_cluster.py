"""A real Slurm cluster on this machine: slurmctld and slurmd of Debian, each node in a network namespace of its own (root only).

with running_cluster(SlurmCluster, folder, nodes=4) as cluster:
    cluster.run("sinfo")                       # as a user on the login node
    patch.setenv("PATH", cluster.path)         # sbatch, squeue ... of this process are the cluster's
    cluster.kill("n1")                         # its slurmd dies

By hand, until Ctrl-C: python -m tests.engines.slurm_cluster [NODES]

PRELAUNCH_SLURM_ROOT names the files of another Debian, whose Slurm is used instead (test_slurm_of_debian_13.py makes them): all
nodes and the login node have its libraries and its Slurm, and else the files of this machine, such as its Python.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest

from tasks.launchers.local import network
from tasks.launchers.local.plan import ENTER
from tests.architecture.leftovers import MARK
from tests.programs import executable
from tests.waiting import until

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
CLIENTS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun", "sacct", "sacctmgr")
# A node has neither the cluster's hidden folder nor what was found on this machine before.
WITHOUT = 'umount "$0" 2>/dev/null; s=/var/lib/prelaunch; [ ! -d $s ] || mount -t tmpfs state $s; exec "$@"'
INSTALL = "apt-get install slurmctld slurmd slurm-client munge"
# As Debian names them, which has links with shorter names.
DAEMONS = ("slurmctld-wlm", "slurmd-wlm", "slurmstepd-wlm", "slurmdbd")
HOOKS = ("prolog", "epilog", "healthcheck")
OTHER_ROOT = "PRELAUNCH_SLURM_ROOT"
UP_S = 30.0
# A login shell reads the first of these that is there.
NODES_HOME = """for name in .bash_profile .bash_login .profile; do [ ! -f ~root/$name ] || mount --bind "$0" ~root/$name; done
exec "$@" """
# Where Slurm of Debian 12 looks for "libpmix.so", a name that only libpmix-dev gives to the library.
PMIX = tuple(
    path for path in Path("/usr/lib").glob("*-linux-gnu/pmix2/lib") if not (path / "libpmix.so").exists()
)


def unavailable() -> str:
    """Why no cluster can be started here, with the remedy; "" where it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}. Remedy: {INSTALL}"
    return network.unavailable()


def nodes_path() -> str:
    """The PATH of the nodes: this machine's, where `python3` is an interpreter and no script that looks for one."""
    return f"{sys.base_prefix}/bin{os.pathsep}{os.environ['PATH']}"


def of_other_debian() -> tuple[str, ...]:
    """What lets a process see the other Debian's Slurm and libraries, in the mounts that it has for itself; () where there is none."""
    if OTHER_ROOT not in os.environ:
        return ()
    root = Path(os.environ[OTHER_ROOT])
    programs = [path.relative_to(root) for name in CLIENTS for path in root.glob(f"usr/bin/{name}")]
    daemons = [path.relative_to(root) for name in DAEMONS for path in root.glob(f"usr/sbin/{name}")]
    (libraries,) = (path.relative_to(root) for path in root.glob("usr/lib/*-linux-gnu"))
    binds = (f"mount --bind {root / name} /{name}" for name in (libraries, *programs, *daemons))
    return ("/bin/sh", "-ec", "\n".join((*binds, 'exec "$@"')), "other-debian")


def end(pid: int) -> None:
    """Kill a process, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())


class SlurmCluster:
    """n0, n1, ... and the login node, on which slurmctld runs."""

    def __init__(self, folder: Path, name: str, addresses: tuple[str, ...]) -> None:
        self.folder, self.name = folder, name
        self.nodes = tuple(f"n{index}" for index in range(len(addresses) - 1))
        # A file system of 16 MB that the nodes share, and one that they do not see.
        self.small, self.hidden = folder / "mounts" / "small", folder / "mounts" / "hidden"
        self._addresses = addresses
        self._hosts = folder / "hosts"
        self._environment = {
            "PATH": nodes_path(),
            "HOME": str(folder),
            "SLURM_CONF": str(folder / "slurm.conf"),
            **{key: os.environ[key] for key in (MARK, "PYTEST_CURRENT_TEST") if key in os.environ},
        }

    @property
    def path(self) -> str:
        """A PATH on which Slurm's commands are this cluster's."""
        return f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def run(self, *argv: str, check: bool = True, both: bool = False) -> str:
        """What a command prints on the login node, with `both` also on stderr."""
        words = (str(self.folder / "bin" / argv[0]), *argv[1:])
        environment = {**os.environ, **self._environment}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(argv)}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if both else "")

    def pid(self, daemon: str) -> int:
        """The process of "slurmctld", or of a node's slurmd."""
        name = daemon if daemon == "slurmctld" else f"slurmd-{daemon}"
        return int((self.folder / f"{name}.pid").read_text())

    def kill(self, daemon: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send slurmctld, or a node's slurmd, a signal."""
        os.kill(self.pid(daemon), number)

    def start_node(self, node: str) -> None:
        """Start a node's slurmd (again)."""
        index = self.nodes.index(node)
        for folder in ("spool", "tmp"):
            (self.folder / folder / node).mkdir(parents=True, exist_ok=True)
        # A job with --export=NONE gets what a login of its user sets: the nodes' own profile, not this machine's.
        home = ("/bin/sh", "-c", NODES_HOME, str(self.folder / "profile"))
        without = ("/bin/sh", "-c", WITHOUT, str(self.hidden))
        self._start(index, node, *home, *without, "slurmd", "-N", node, "-c")

    def restart_node(self, node: str) -> None:
        """Let a node forget what it still has to tell.

        A slurmd whose failed prolog slurmctld refuses to requeue tells it every 15 s, until slurmctld has forgotten the job after
        MinJobAge, and each time the node is drained (seen with 24.11: "Retrying prolog complete RPC").
        """
        end(self.pid(node))
        self.start_node(node)

    def processes(self, node: str) -> list[int]:
        """What runs on a node, without its slurmd."""
        argv = ("ip", "netns", "pids", f"{self.name}-{self.nodes.index(node)}")
        said = subprocess.run(argv, capture_output=True, text=True, check=True)
        slurmd = (self.folder / f"slurmd-{node}.pid").read_text()  # empty while slurmd starts
        return [int(pid) for pid in said.stdout.split() if pid != slurmd.strip()]

    def idle(self) -> bool:
        """Whether every node waits for work."""
        states = self.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%T", check=False).split()
        return states == ["idle"] * len(self.nodes)

    def until_idle(self, seconds: float = UP_S) -> None:
        """Wait until every node waits for work."""
        deadline = time.monotonic() + seconds
        while not self.idle():
            said = self.run("sinfo", "-N", "-l", check=False) + self.run("squeue", check=False)
            assert time.monotonic() < deadline, said
            # Of a node whose prolog failed. slurmd of 24.11 drains it again minutes later, after the test of it.
            if "Prolog error" in said:
                for node in self.nodes:
                    self.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
            time.sleep(0.1)

    def hook(self, name: str, text: str = "exit 0") -> None:
        """What runs as the site's prolog, epilog or health check from now on."""
        script = f"#!/bin/bash\nexport PATH='{nodes_path()}'\n{text}\n"
        executable(self.folder / f"{name}.new", script).replace(self.folder / name)

    @contextmanager
    def nodes_only_read(self) -> Iterator[None]:
        """Until the end of the block the nodes have the small file system mounted read-only."""
        self._remount("ro")
        try:
            yield
        finally:
            self._remount("rw")

    def _remount(self, way: str) -> None:
        for node in self.nodes:
            inside = ("nsenter", f"--mount=/proc/{self.pid(node)}/ns/mnt")
            remount = ("mount", "-o", f"remount,bind,{way}", str(self.small))
            subprocess.run((*inside, *remount), check=True, capture_output=True)

    def health_checks_every(self, seconds: int) -> None:
        """How often slurmd runs the site's health check from now on."""
        conf, line = self.folder / "slurm.conf", f"HealthCheckInterval={seconds}"
        conf.write_text(re.sub(r"(?m)^HealthCheckInterval=.*$", line, conf.read_text()))
        self.run("scontrol", "reconfigure")

    def up(self) -> None:
        """Start everything, and wait until every node is idle."""
        lines = ["127.0.0.1 localhost", *map("{} {}".format, self._addresses, (*self.nodes, "ctl"))]
        self._hosts.write_text("\n".join([*lines, ""]))
        (self.folder / "slurm.conf").write_text(self.configuration())
        cgroup = f"CgroupAutomount=no\nCgroupMountpoint={self.folder}/nocgroup\nIgnoreSystemd=yes\n"
        (self.folder / "cgroup.conf").write_text(cgroup)
        for folder in ("state", "log", "bin"):
            (self.folder / folder).mkdir()
        for place in PMIX:
            shutil.copytree(place, self.folder / "pmix", symlinks=True)
            (self.folder / "pmix" / "libpmix.so").symlink_to("libpmix.so.2")
        (self.folder / "profile").write_text(f"export PATH='{nodes_path()}'\n")
        for hook in HOOKS:
            self.hook(hook)
        for client in CLIENTS:
            self._client(client)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        login = len(self.nodes)
        munge = [f"--{word}={self.folder}/munge.{end}" for word, end in _MUNGE_FILES]
        self._start(login, "ctl", "munged", "--force", "--num-threads=2", *munge)
        self.before_slurmctld()
        self._start(login, "ctl", "slurmctld")
        self._mount("mounts", "small")
        for node in self.nodes:
            self.start_node(node)
        self._mount("mounts/hidden")  # too late for the nodes, which have their own mounts by now
        self.open_login()
        self.until_idle()

    def open_login(self) -> None:
        """Let commands run with the other Debian's files, and with the mounts that there are by now."""
        if OTHER_ROOT in os.environ:
            self.start_on_login("/bin/sh", "-c", f"sleep 3600 & echo $! >{self.folder}/login.pid")

    def before_slurmctld(self) -> None:
        """What else runs on the login node, once munged does."""

    def unmount(self) -> None:
        """Remove the mounts of this cluster."""
        for path in (self.hidden, self.small, self.folder / "mounts"):
            subprocess.run(("umount", "--lazy", str(path)), check=False, capture_output=True)

    def _mount(self, name: str, inner: str = "") -> None:
        """A private mount, which spreads nowhere; with `inner` another one in it."""
        for path in (self.folder / name, *([self.folder / name / inner] if inner else [])):
            path.mkdir(exist_ok=True)
            mount = ("mount", "-t", "tmpfs", "-o", "size=16m", "none", str(path))
            subprocess.run(mount, check=True, capture_output=True)
            subprocess.run(("mount", "--make-private", str(path)), check=True, capture_output=True)

    def start_on_login(self, *argv: str, other: bool = True) -> None:
        """Start what goes on by itself on the login node, from the files of the other Debian if there is one and `other` is set."""
        self._start(len(self.nodes), "ctl", *argv, other=other)

    def _start(self, index: int, host: str, *argv: str, other: bool = True) -> None:
        enter = (sys.executable, "-I", ENTER, f"{self.name}-{index}", host, str(self._hosts))
        files = (of_other_debian() if other else ()) or self._with_pmix()
        subprocess.run(
            (*enter, *files, *argv), env=self._environment, check=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
        )  # fmt: skip

    def _with_pmix(self) -> tuple[str, ...]:
        """What lets a process see the library by the name that Slurm's plugin wants, in the mounts that it has for itself."""
        if OTHER_ROOT in os.environ or not PMIX:
            return ()
        return ("/bin/sh", "-ec", f'mount --bind {self.folder}/pmix {PMIX[0]}; exec "$@"', "pmix")

    def _client(self, name: str) -> None:
        where = f"/run/netns/{self.name}-{len(self.nodes)}"
        conf = f"SLURM_CONF={self.folder}/slurm.conf"
        if OTHER_ROOT in os.environ:
            # Its files are seen where one of its processes is, and 24.11 resolves the host's name.
            spaces = f"/proc/$(cat {self.folder}/login.pid)/ns"
            where += f' --mount={spaces}/mnt --uts={spaces}/uts --wdns="$PWD"'
        script = f'#!/bin/sh\n{conf} exec nsenter --net={where} {shutil.which(name)} "$@"\n'
        executable(self.folder / "bin" / name, script)

    @property
    def login_address(self) -> str:
        """The address of the login node."""
        return self._addresses[-1]

    def configuration(self) -> str:
        """The text of slurm.conf."""
        line = "NodeName={} NodeAddr={} CPUs=2 RealMemory=2000 State=UNKNOWN\n"
        pairs = zip(self.nodes, self._addresses, strict=False)
        nodes = "".join(line.format(*pair) for pair in pairs)
        return CONFIGURATION.format(folder=self.folder, address=self.login_address, nodes=nodes)


_MUNGE_FILES = (
    ("key-file", "key"), ("socket", "sock"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"),
)  # fmt: skip
# Short times, so that a node that dies is noticed while a test waits. Without cgroups of its own and without accounting.
CONFIGURATION = Path(__file__).with_name("slurm.conf.template").read_text()


Cluster = TypeVar("Cluster", bound=SlurmCluster)


@contextmanager
def running_cluster(
    kind: Callable[[Path, str, tuple[str, ...]], Cluster], folder: Path, nodes: int
) -> Iterator[Cluster]:
    """A cluster of this kind with so many nodes; at the end nothing of it is left, jobs included. A test is skipped where there can
    be none.
    """
    if why := unavailable():
        pytest.skip(why)
    name = f"pls{uuid.uuid4().hex[:6]}"
    cluster = kind(folder, name, network.create(name, nodes + 1, "10.79.0").addresses)
    try:
        cluster.up()
        yield cluster
    finally:
        network.remove(name)  # with all that runs there
        cluster.unmount()


def main() -> None:
    """Keep a cluster for a person, and print how to use it."""
    os.environ["PATH"] += f"{os.pathsep}/usr/sbin{os.pathsep}/sbin"
    if why := unavailable():
        raise SystemExit(why)
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    # Also where a shell's & or nohup has SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with (
        TemporaryDirectory(prefix="prelaunch-slurm-") as folder,
        running_cluster(SlurmCluster, Path(folder), nodes) as cluster,
    ):
        print(f"export PATH={folder}/bin:$PATH", flush=True)
        names = f"{cluster.name}-0 to {cluster.name}-{nodes - 1}"
        print(f"The nodes n0 to n{nodes - 1} are the namespaces {names}. Ctrl-C ends all.", file=sys.stderr)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
