"""Real container engines for tests: podman with a store of its own, and a dockerd of its own on a socket in a folder.

Both start containers with the limits that this machine allows, from an image that has nothing: this machine's programs, and the
virtual environment of the tests, are mounted into it. What a test starts is removed with its engine.
"""

from __future__ import annotations

import functools
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from checks.process.tree import end_tree, with_pdeathsig
from tasks.launchers.local.container import ContainerEngine
from tasks.launchers.local.network import lacks_rights

ROOT = Path(__file__).resolve().parents[1]
IMAGE = "localhost/prelaunch-nothing:1"
PYTHON = sys.executable
UNPACKED = ROOT / "build" / "unpacked" / "usr"
# Not /usr/sbin, where docker mounts its init.
PROGRAMS = ("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/share")
START_S = 30.0


@dataclass(frozen=True)
class Engine:
    """An engine that runs, with the image; `environment` is what its client needs."""

    kind: ContainerEngine
    environment: dict[str, str]

    @property
    def mounts(self) -> tuple[str, ...]:
        """What makes the empty image a machine with Python, PyTorch and the tests' own files."""
        places = (*PROGRAMS, sys.prefix, str(ROOT))
        return tuple(f"{place}:{place}:ro" for place in dict.fromkeys(places) if Path(place).is_dir())

    @property
    def options(self) -> dict[str, object]:
        """The options of the launcher `local` for it."""
        own = {"container_engine": self.kind, "container_mounts": self.mounts}
        return {"container_image": IMAGE, "python": PYTHON, **own}

    def __call__(self, *words: str) -> str:
        """What the client prints; it must succeed."""
        environment, argv = {**os.environ, **self.environment}, (self.kind.value, *words)
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def containers(self) -> list[str]:
        """The containers that are there, whatever their state."""
        return self("ps", "--all", "--quiet").split()


Engines = Callable[[ContainerEngine], Engine]


@contextmanager
def engines() -> Iterator[Engines]:
    """Each engine, started once, when it is first asked for."""
    with ExitStack() as stack:
        yield functools.cache(lambda kind: stack.enter_context(engine(kind)))


@contextmanager
def engine(kind: ContainerEngine) -> Iterator[Engine]:
    """The engine with its image; skips where it cannot be had here."""
    if why := lacks_rights():
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="pl-", dir="/tmp"))  # short: engines make sockets far below it
    with _podman(folder) if kind is ContainerEngine.PODMAN else _docker(folder) as made:
        made("import", "--change", 'ENTRYPOINT ["/not-for-nodes"]', str(_nothing(folder)), IMAGE)
        yield made
        left = made.containers()
        if left:
            made("rm", "--force", *left)
        assert left == [], "a test left containers"


@contextmanager
def _podman(folder: Path) -> Iterator[Engine]:
    lacking = [name for name in ("podman", "runc") if shutil.which(name) is None]
    if lacking:
        pytest.skip(
            f"not installed: {', '.join(lacking)}. Remedy: apt-get install {' '.join(lacking)} catatonit"
        )
    yield Engine(ContainerEngine.PODMAN, podman_environment(folder, "overlay"))
    for path in (folder / "graph").glob("overlay*"):
        subprocess.run(("umount", "--lazy", path), capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def podman_environment(folder: Path, driver: str) -> dict[str, str]:
    """The variables by which podman and buildah use a store below the folder, whose path has to be short."""
    storage, containers = folder / "storage.conf", folder / "containers.conf"
    storage.write_text(
        f'[storage]\ndriver = "{driver}"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n'
    )
    limits = ", ".join(f'"{name}={value}:{value}"' for name, value in _limits().items())
    containers.write_text(
        f'[containers]\ndefault_ulimits = [{limits}]\n[engine]\nruntime = "runc"\nevents_logger = "file"\nlock_type = "file"\n'
        f'tmp_dir = "{folder}/libpod"\n'  # two engines of one tmp_dir confuse each other
    )
    return {"CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(containers)}


@contextmanager
def _docker(folder: Path) -> Iterator[Engine]:
    path = f"{os.environ['PATH']}:{UNPACKED}/bin:{UNPACKED}/sbin"
    lacking = [
        name for name in ("dockerd", "docker", "containerd", "runc") if shutil.which(name, path=path) is None
    ]
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)}. Remedy: make setup, which unpacks them")
    socket = f"unix://{folder}/docker.sock"
    argv = [
        "dockerd", "--host", socket, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
        "--pidfile", f"{folder}/docker.pid", "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", "vfs",
    ]  # fmt: skip
    for name, value in _limits().items():
        argv += ["--default-ulimit", f"{name}={value}:{value}"]
    environment = {"PATH": path, "DOCKER_HOST": socket, "DOCKER_CONFIG": str(folder / "client")}
    with open(folder / "dockerd.log", "wb") as log:
        env, bound = {**os.environ, **environment}, with_pdeathsig(argv)
        daemon = subprocess.Popen(bound, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + START_S
        while "API listen on" not in (said := (folder / "dockerd.log").read_text(errors="replace")):
            if daemon.poll() is not None:
                pytest.skip(f"dockerd does not start here: {said[-300:]}")
            assert time.monotonic() < deadline, said[-2000:]
            time.sleep(0.05)
        yield Engine(ContainerEngine.DOCKER, environment)
    finally:
        end_tree(daemon.pid, 10.0)
        daemon.wait()
        for mounted in sorted(folder.glob("exec/netns/*")):
            subprocess.run(("umount", "--lazy", mounted), capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _limits() -> dict[str, int]:
    """Limits below those of this process, which a virtual machine may not let anybody raise."""
    highest = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    found = {name: resource.getrlimit(number)[1] for name, number in highest.items()}
    return {name: 4096 if value < 0 else min(value, 4096) for name, value in found.items()}


def _nothing(folder: Path) -> Path:
    """An image without a file: folders that are mounted over, and the links that Debian has."""
    path = folder / "nothing.tar"
    with tarfile.open(path, "w") as archive:
        links = [name for name in ("bin", "lib", "lib64") if Path("/", name).is_symlink()]
        add_places(archive, ("tmp", "etc", "proc", "sys", "dev", "root", "sbin", "usr", "var/lib"), links)
    return path


def add_places(archive: tarfile.TarFile, folders: Sequence[str], links: Sequence[str]) -> None:
    """Add the folders of an image's root to an archive, and the links into /usr."""
    for name in folders:
        member = tarfile.TarInfo(name)
        member.type, member.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        archive.addfile(member)
    for name in links:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = tarfile.SYMTYPE, f"usr/{name}"
        archive.addfile(member)
